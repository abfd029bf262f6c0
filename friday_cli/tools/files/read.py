"""The tools `read_file` and `list_dir`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from friday_cli.core.permissions.dangerous import masked
from friday_cli.core.protocol.call_arguments import PATH_ALIASES, ToolArguments
from friday_cli.core.protocol.displays import TableDisplay, TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.format import size
from friday_cli.core.protocol.receipt import ToolFacts
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.workspace import DirectoryEntry, Workspace
from friday_cli.core.tool_catalog import TOOLS

from . import notebook, picture
from .text import LIMIT, decode_and_hash, kind_of

MAX_LINES, MAX_CHARACTERS, MAX_LINE_CHARACTERS = 2000, 60_000, 2000
"""Limits of one call: lines, characters in total, characters of one line."""
MAX_ENTRIES = 500
"""Entries of a folder listing."""


class ReadArguments(ToolArguments, frozen=True):
    aliases: ClassVar = PATH_ALIASES
    path: Annotated[str, Meta(description="In the workspace, or absolute.", min_length=1)]
    offset: Annotated[int, Meta(description="First line, from 1.", ge=1)] = 1
    limit: Annotated[int, Meta(ge=1, le=MAX_LINES)] = MAX_LINES

    @classmethod
    def adapt(cls, sent: dict[str, Any]) -> None:
        """Some programs count lines from 0, and some send the first and the last line."""
        offset = sent.get("offset")
        if isinstance(offset, int) and (offset == 0 or "absolute_path" in sent):  # Gemini CLI
            sent["offset"] = offset + 1
        span = sent.get("view_range", [sent.get("start_line"), sent.get("end_line")])
        if offset is not None or "limit" in sent or not isinstance(span, list) or len(span) != 2 or not any(span):
            return
        first, last = 1 if span[0] is None else span[0], -1 if span[1] is None else span[1]
        if isinstance(first, int) and isinstance(last, int) and first >= 1 and (last == -1 or last >= first):
            sent["offset"], sent["limit"] = first, MAX_LINES if last == -1 else min(MAX_LINES, last + 1 - first)
            for name in ("view_range", "start_line", "end_line"):
                sent.pop(name, None)


async def _read(context: ToolContext, args: ReadArguments) -> Output:
    workspace = context.workspace
    path = workspace.resolve(args.path)
    label = workspace.label(path)
    try:
        data = await workspace.read(path, limit=LIMIT + 1)
    except ToolError:
        if await workspace.stat(path) is not None:
            raise
        raise ToolError(f"{label}: no such file.{await _similar_names(workspace, path)}") from None
    facts = ToolFacts(read=(label,))
    if picture.media_type(data):
        image, dimensions = picture.image(data)
        text = f"{label}: an image, {dimensions}, {size(len(data))}."
        return Output(text, TextDisplay(text), facts, (image,))
    large = len(data) > LIMIT
    whole = await _size(workspace, path) if large else len(data)
    skipped = 0
    if large and data.count(b"\n", 0, LIMIT) < args.offset and b"\0" not in data[:4096]:
        skipped = args.offset - 1
        data = await workspace.read(path, limit=LIMIT + 1, skip=skipped)
    more = len(data) > LIMIT
    source, digest = await decode_and_hash(_beginning(data) if more else data)
    if source is None:
        hint = " Use document_query for PDF." if data.startswith(b"%PDF") else ""
        kind = "a PDF document" if hint else kind_of(data)
        raise ToolError(f"{label} is {kind} ({size(whole)}), not text.{hint}")
    remarks = []
    if large:
        remarks.append(f"the file has {size(whole)}")
    else:
        context.seen.hashes[str(path)] = digest
    if source.encoding != "utf-8":
        remarks.append(f"encoding {source.encoding}")
    text = masked(label, source.text)
    if text != source.text:
        remarks.append("passwords are masked")
    if path.suffix == ".ipynb" and (cells := notebook.render(text)) is not None:
        text = cells
        remarks.append("a notebook, shown as cells; edit_file with `cell` changes one")
    return _numbered(label, _Lines(_split(text), skipped, more), args, remarks, facts)


async def _size(workspace: Workspace, path: Path) -> int:
    found = await workspace.stat(path)
    return 0 if found is None else found.size


def _beginning(data: bytes) -> bytes:
    """The first complete lines of a file that is too large, or complete characters of one very long line."""
    end = LIMIT
    while end > LIMIT - 4 and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:LIMIT].rpartition(b"\n")[0] or data[:end]


def _split(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


class _Lines(msgspec.Struct, frozen=True):
    """The lines that were read of a file, after the first `skipped` ones. `more`: others follow, and how many is not known."""

    found: list[str]
    skipped: int = 0
    more: bool = False

    @property
    def last(self) -> int:
        """The lines of the file up to the last one that was read."""
        return self.skipped + len(self.found)


def _numbered(label: str, lines: _Lines, args: ReadArguments, remarks: list[str], facts: ToolFacts) -> Output:
    """Numbered lines from `offset`, and a last line that tells what is omitted."""
    if not lines.last:
        return Output(f"({label} is empty)", TextDisplay(f"{label}: empty"), facts)
    if args.offset > lines.last:
        if lines.more:
            raise ToolError(f"Line {args.offset:,} of {label} is too far from its beginning.", hint="Use grep or bash.")
        raise ToolError(f"{label} has only {lines.last:,} lines; offset {args.offset:,} is past the end.")
    out: list[str] = []
    remaining = MAX_CHARACTERS
    first = args.offset - 1 - lines.skipped
    for number, line in enumerate(lines.found[first : first + args.limit], args.offset):
        if len(line) > MAX_LINE_CHARACTERS:
            line = f"{line[:MAX_LINE_CHARACTERS]} [truncated: the line has {len(line):,} characters]"
        remaining -= len(line) + 8
        if remaining < 0 and out:
            break
        out.append(f"{number}\t{line}")
    last = args.offset - 1 + len(out)
    if args.offset > 1 or last < lines.last or lines.more:
        more = f"; continue with offset={last + 1}" if last < lines.last or lines.more else ""
        remarks.append(f"lines {args.offset:,}-{last:,}{'' if lines.more else f' of {lines.last:,}'}{more}")
    if remarks:
        out.append(f"[{'; '.join(remarks)}]")
    facts = ToolFacts(read=facts.read, lines={label: ((args.offset, last),)})
    return Output("\n".join(out), TextDisplay(f"{label}: {len(out) - bool(remarks):,} lines"), facts)


async def _similar_names(workspace: Workspace, path: Path) -> str:
    """ " Did you mean ...?", or what to try instead."""
    import difflib

    try:
        names = [entry.name for entry in await workspace.entries(path.parent)]
    except ToolError:
        return " Its folder does not exist either: use list_dir or glob."
    similar = difflib.get_close_matches(path.name, names, 3, 0.6)
    return f" Did you mean {' or '.join(similar)}?" if similar else " Use list_dir or glob."


class ListArguments(ToolArguments, frozen=True):
    aliases: ClassVar = PATH_ALIASES

    path: Annotated[str, Meta(min_length=1)] = "."


async def _list(context: ToolContext, args: ListArguments) -> Output:
    path = context.workspace.resolve(args.path)
    label = context.workspace.label(path)
    found = await context.workspace.entries(path)
    found.sort(key=lambda entry: (entry.kind != "folder", entry.name))
    first = found[:MAX_ENTRIES]
    labels = {entry.name: _labels(context.workspace, path, entry) for entry in first}
    withheld = context.withheld([label for each in labels.values() for label in each])
    shown = [entry for entry in first if withheld.isdisjoint(labels[entry.name])]
    lines = [_entry(entry) for entry in shown]
    if omitted := len(first) - len(shown):
        lines.append(f"[{omitted} omitted: a rule denies reading them, or asks first]")
    if len(found) > len(first):
        lines.append(f"[{len(found) - len(first):,} more; use glob with a pattern]")
    rows = tuple(
        (entry.name + _MARKS[entry.kind], "" if entry.kind == "folder" else size(entry.size)) for entry in shown
    )
    return Output("\n".join(lines) or f"({label} is empty)", TableDisplay(("name", "size"), rows))


def _labels(workspace: Workspace, folder: Path, entry: DirectoryEntry) -> tuple[str, ...]:
    """The names of an entry for rules: its own, and that of the file behind a link."""
    path = folder / entry.name
    try:
        return workspace.labels(str(path)) if entry.kind == "link" else (workspace.label(path),)
    except ToolError:  # a link to the outside
        return (workspace.label(path),)


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


READ_FILE_TOOL = Tool(
    _read,
    TOOLS["read_file"],
    args=ReadArguments,
    title=lambda args: args.path + (f" from line {args.offset}" if args.offset > 1 else ""),
    description=(
        "Read a file as `NUMBER<tab>LINE`; the last line tells the next offset. Shows images, and notebooks as "
        "cells. Prefer one large read to many small ones."
    ),
)
LIST_DIR_TOOL = Tool(
    _list,
    TOOLS["list_dir"],
    args=ListArguments,
    title=lambda args: args.path,
    description=(
        "List one folder, not recursively: folders first, files with size, links with target, hidden names too."
    ),
)
