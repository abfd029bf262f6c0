"""The tools `write_file` and `edit_file`. They refuse to change content that the agent has not read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from friday_cli.core.protocol.call_arguments import PATH_ALIASES, ToolArguments
from friday_cli.core.protocol.displays import DiffDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.format import size
from friday_cli.core.protocol.receipt import FileChange, ToolFacts
from friday_cli.core.protocol.tool import KnownFiles, Output, Tool, ToolContext
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.text.diff import difference, new_lines
from friday_cli.core.tool_catalog import TOOLS

from . import edit_match, notebook
from .text import LIMIT, DecodedFile, decode_and_hash


class WriteArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {**PATH_ALIASES, "contents": "content", "file_text": "content"}
    path: Annotated[str, Meta(min_length=1)]
    content: str


class EditArguments(ToolArguments, frozen=True):
    aliases: ClassVar = PATH_ALIASES
    path: Annotated[str, Meta(min_length=1)]
    edits: Annotated[
        list[edit_match.Replacement], Meta(description="Applied in order, all or none.", min_length=1, max_length=100)
    ]

    @classmethod
    def adapt(cls, sent: dict[str, Any]) -> None:
        """Other programs send one replacement beside the path."""
        if sent.get("expected_replacements") == 1:  # Gemini CLI; more than one cannot be checked here
            del sent["expected_replacements"]
        names = {"old", "new", "replace_all", *edit_match.Replacement.aliases}
        if "edits" not in sent and not names.isdisjoint(sent):
            sent["edits"] = [{name: sent.pop(name) for name in names.intersection(sent)}]


class _NewText(msgspec.Struct, frozen=True):
    """What a call makes of a file. `expect`: the hash that the file must have, None if it must not exist."""

    path: Path
    source: DecodedFile
    text: str
    expect: str | None
    remarks: tuple[str, ...] = ()


async def _written(workspace: Workspace, seen: KnownFiles, args: WriteArguments) -> _NewText:
    path, label = _target(workspace, args.path)
    found = await workspace.stat(path)
    source, expect = DecodedFile(""), None
    if found is not None:
        source, expect = await _read_before(workspace, seen, path, f"{label} exists and you have not read it.")
        edit_match.refuse_placeholder(args.content, source.text)
    text = args.content
    if source.newline == "\r\n" and "\r\n" not in text:
        text = text.replace("\n", "\r\n")
    return _NewText(path, source, text, expect)


async def _edited(workspace: Workspace, seen: KnownFiles, args: EditArguments) -> _NewText:
    path, label = _target(workspace, args.path)
    source, expect = await _read_before(workspace, seen, path, f"You have not read {label}.")
    text, remarks = await asyncio.to_thread(_applied, label, source, args.edits)
    if text == source.text:
        raise ToolError(f"{label}: the edits change nothing.")
    return _NewText(path, source, text, expect, tuple(remarks))


def _applied(label: str, source: DecodedFile, edits: Sequence[edit_match.Replacement]) -> tuple[str, list[str]]:
    """The text of a file after replacements in it, or in the cells of a notebook, and remarks. Raises ToolError. Blocks."""
    text, remarks = source.text, []
    cells: notebook.CellEdits | None = None
    for number, one in enumerate(edits, 1):
        which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        try:
            if cells is not None and not one.cell:
                text, cells = cells.text, None
            elif one.cell:
                cells = cells or notebook.CellEdits(text)  # written once for all: a large one takes seconds
            before = text if cells is None else cells.source(one.cell)
            edit_match.refuse_placeholder(one.new, before)
            text_or_cell, remark = edit_match.apply(before, one, source.newline if cells is None else "\n")
            if cells is None:
                text = text_or_cell
            else:
                remark = "; ".join(filter(None, (remark, cells.replace(one.cell, text_or_cell))))
        except ToolError as error:
            note = " Nothing was changed." if which else ""
            raise ToolError(f"{label}: {which}{error.message}{note}", hint=error.hint) from None
        if remark:
            remarks.append(f"{which}{remark}")
    return (text if cells is None else cells.text), remarks


async def _write(context: ToolContext, args: WriteArguments) -> Output:
    return await _save(context, await _written(context.workspace, context.seen, args))


async def _edit(context: ToolContext, args: EditArguments) -> Output:
    return await _save(context, await _edited(context.workspace, context.seen, args), "Edited")


async def _change(workspace: Workspace, seen: KnownFiles, args: WriteArguments | EditArguments) -> DiffDisplay:
    """The diff that a call would make. Raises FridayError."""
    make = _written(workspace, seen, args) if isinstance(args, WriteArguments) else _edited(workspace, seen, args)
    made = await make
    diff, added, removed = await asyncio.to_thread(difference, made.source.text, made.text)
    created = len(made.source.encode(made.text)) if made.expect is None else None
    return DiffDisplay(workspace.label(made.path), diff, added, removed, created)


def _target(workspace: Workspace, path: str) -> tuple[Path, str]:
    resolved = workspace.resolve(path, write=True)
    return resolved, workspace.label(resolved)


async def _read_before(workspace: Workspace, known: KnownFiles, path: Path, unread: str) -> tuple[DecodedFile, str]:
    """The text and hash of the file as the agent last read it. Raises ToolError if it has not, or if the file changed."""
    seen = known.hashes.get(str(path))
    data = await workspace.read(path, limit=LIMIT + 1)
    label = workspace.label(path)
    if len(data) > LIMIT:
        raise ToolError(f"{label} is larger than {size(LIMIT)}.", hint="Change it with bash.")
    if seen is None:
        raise ToolError(unread, hint="Use read_file first.")
    source, digest = await decode_and_hash(data)
    if digest != seen:
        raise ToolError(f"{label} changed since you read it.", hint="Read it again before you change it.")
    if source is None:
        raise ToolError(f"{label} is not a text file.")
    return source, seen


async def _save(context: ToolContext, made: _NewText, verb: str = "") -> Output:
    path, label = made.path, context.workspace.label(made.path)
    verb = verb or ("Created" if made.expect is None else "Wrote")
    data = made.source.encode(made.text)
    digest = await context.workspace.write(path, data, expect=made.expect, agent=context.agent)
    context.seen.hashes[str(path)] = digest
    diff, added, removed = await asyncio.to_thread(difference, made.source.text, made.text)
    summary = f"{verb} {label}: +{added} -{removed} lines."
    return Output(
        " ".join((summary, *(f"Note: {remark}." for remark in made.remarks))),
        DiffDisplay(label, diff, added, removed),
        ToolFacts(files=(FileChange(label, added, removed, digest),), lines={label: new_lines(diff)}),
    )


WRITE_FILE_TOOL = Tool(
    _write,
    TOOLS["write_file"],
    args=WriteArguments,
    title=lambda args: args.path,
    description=(
        "Create a file, or replace one you have read, with exactly this content; creates missing folders. "
        "Never leave a placeholder such as `... rest unchanged ...`. To change parts use edit_file."
    ),
    change=_change,
)
EDIT_FILE_TOOL = Tool(
    _edit,
    TOOLS["edit_file"],
    args=EditArguments,
    title=lambda args: args.path + (f" ({len(args.edits)} edits)" if len(args.edits) > 1 else ""),
    description=(
        "Replace exact text in a file you have read. Copy `old` with its blanks, without line numbers, with "
        "enough lines to occur exactly once (or set replace_all). Put all changes of a file into one call."
    ),
    change=_change,
)
