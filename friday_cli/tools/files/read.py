"""Looking at files and folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from friday_cli.core.permissions.dangerous import masked
from friday_cli.core.protocol.displays import TableDisplay, TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.format import size
from friday_cli.core.protocol.receipt import ToolFacts
from friday_cli.core.protocol.tool import Output, ToolContext, tool
from friday_cli.core.protocol.workspace import DirectoryEntry, Workspace
from friday_cli.tool_catalog import TOOLS

from . import notebook, picture
from .text import LIMIT, kind_of, understood

LINES, CHARACTERS, WIDTH = 2000, 60_000, 2000
"""What one reading gives: lines, characters in all, characters of one line."""
ENTRIES = 500


class Read(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="File to read, relative to the workspace or absolute.", min_length=1)]
    offset: Annotated[int, msgspec.Meta(description="First line to show, counted from 1.", ge=1)] = 1
    limit: Annotated[int, msgspec.Meta(description="How many lines to show.", ge=1, le=LINES)] = LINES


async def _read(context: ToolContext, args: Read) -> Output:
    workspace = context.workspace
    path = workspace.resolve(args.path)
    found = await workspace.stat(path)
    if found is None:
        raise ToolError(f"{workspace.label(path)}: there is no such file.{await _near(workspace, path)}")
    data = await workspace.read(path, limit=LIMIT + 1)
    label = workspace.label(path)
    facts = ToolFacts(read=(label,))
    if picture.media_type(data):
        image, words = picture.image(data)
        text = f"{label}: a picture, {words}, {size(len(data))}."
        return Output(text, TextDisplay(text), facts, (image,))
    large = len(data) > LIMIT
    source, digest = await understood(_beginning(data) if large else data)
    if source is None:
        hint = " Use document_query for PDF." if data.startswith(b"%PDF") else ""
        kind = "a PDF document" if hint else kind_of(data)
        raise ToolError(f"{label} is {kind} ({size(found.size)}), not text.{hint}")
    remarks = []
    if large:
        remarks.append(
            f"{size(found.size)} in all; only the first {size(LIMIT)} can be read here: use grep or bash beyond"
        )
    else:
        context.seen.hashes[str(path)] = digest
    if source.encoding != "utf-8":
        remarks.append(f"encoding {source.encoding}")
    text = masked(label, source.text)
    if text != source.text:
        remarks.append("passwords are masked")
    if path.suffix == ".ipynb" and (cells := notebook.render(text)) is not None:
        text = cells
        remarks.append("a notebook, shown as cells; edit_file works on the JSON that lies behind")
    return _shown(label, text, args, remarks, facts)


def _beginning(data: bytes) -> bytes:
    """What of too large a file is shown: whole lines, or of one endless line whole characters."""
    end = LIMIT
    while end > LIMIT - 4 and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:LIMIT].rpartition(b"\n")[0] or data[:end]


def _shown(label: str, text: str, args: Read, remarks: list[str], facts: ToolFacts) -> Output:
    """Numbered lines from `offset` on, with what is left out said at the end."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return Output(f"({label} is empty)", TextDisplay(f"{label}: empty"), facts)
    if args.offset > len(lines):
        raise ToolError(f"{label} has only {len(lines):,} lines; offset {args.offset:,} is beyond its end.")
    out: list[str] = []
    room = CHARACTERS
    for number, line in enumerate(lines[args.offset - 1 : args.offset - 1 + args.limit], args.offset):
        if len(line) > WIDTH:
            line = f"{line[:WIDTH]} [clipped: the line has {len(line):,} characters]"
        room -= len(line) + 8
        if room < 0 and out:
            break
        out.append(f"{number}\t{line}")
    last = args.offset - 1 + len(out)
    if args.offset > 1 or last < len(lines):
        more = f"; go on with offset={last + 1}" if last < len(lines) else ""
        remarks.append(f"lines {args.offset:,}-{last:,} of {len(lines):,}{more}")
    if remarks:
        out.append(f"[{'; '.join(remarks)}]")
    return Output("\n".join(out), TextDisplay(f"{label}: {len(out) - bool(remarks):,} lines"), facts)


async def _near(workspace: Workspace, path: Path) -> str:
    """ " Did you mean ...", where the folder has a similar name."""
    import difflib

    try:
        names = [entry.name for entry in await workspace.entries(path.parent)]
    except ToolError:
        return " Its folder does not exist either: look with list_dir or glob."
    near = difflib.get_close_matches(path.name, names, 3, 0.6)
    return f" Did you mean {' or '.join(near)}?" if near else " Look with list_dir or glob."


class List(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, msgspec.Meta(description="Folder to list; '.' is the workspace.", min_length=1)] = "."


async def _list(context: ToolContext, args: List) -> Output:
    path = context.workspace.resolve(args.path)
    label = context.workspace.label(path)
    found = await context.workspace.entries(path)
    found.sort(key=lambda entry: (entry.kind != "folder", entry.name))
    shown = found[:ENTRIES]
    lines = [_entry(entry) for entry in shown]
    if len(found) > len(shown):
        lines.append(f"[{len(found) - len(shown):,} more; use glob with a pattern]")
    rows = tuple(
        (entry.name + _MARKS[entry.kind], "" if entry.kind == "folder" else size(entry.size)) for entry in shown
    )
    return Output("\n".join(lines) or f"({label} is empty)", TableDisplay(("name", "size"), rows))


_MARKS = {"folder": "/", "link": "@", "file": "", "other": "="}


def _entry(entry: DirectoryEntry) -> str:
    name = entry.name if entry.name.isprintable() else repr(entry.name)
    if entry.kind == "folder":
        return f"{name}/"
    if entry.kind == "link":
        return f"{name} -> {entry.target if entry.target.isprintable() else repr(entry.target)}"
    if entry.kind == "other":
        return f"{name} (device, pipe or socket)"
    return f"{name}\t{size(entry.size)}"


READ_FILE = tool(
    _read,
    TOOLS["read_file"],
    args=Read,
    subjects=lambda args, workspace: workspace.labels(args.path),
    title=lambda args: args.path + (f" from line {args.offset}" if args.offset > 1 else ""),
    description=(
        "Read a file of the workspace. Text comes as numbered lines, `NUMBER<tab>LINE`; the number and the tab are not part"
        " of the file. Up to 2000 lines at a time: where more follow, the last line says with which offset to go on. Long"
        " lines are clipped. Pictures (PNG, JPEG, GIF, WebP) are shown to you, notebooks (.ipynb) as their cells; other"
        " binary files are refused. Read a file before you change it. Prefer one large reading to many small ones, and grep"
        " to find the place in a long file."
    ),
)
LIST_DIR = tool(
    _list,
    TOOLS["list_dir"],
    args=List,
    subjects=lambda args, workspace: workspace.labels(args.path),
    title=lambda args: args.path,
    description=(
        "List what lies in one folder: folders first (`name/`), files with their size, links with their target; hidden names"
        " too. It does not go deeper: use glob to find files by name, grep to find them by content."
    ),
)
