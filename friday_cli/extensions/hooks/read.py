"""Reads the files that configure hooks: the person's own, and those of a trusted project."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from friday_cli.core.permissions.rule import parse_rule
from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.system.paths import is_below, text_of

from ..started_programs import ProgramText, scripts_of
from .hook import EVENTS, Hook, HookEntry, is_list_of_names

JSON_HINT = "JSON has no comments and no comma after the last item, and each bracket is closed."
_WRITING_FILES = ("hooks.json",)
"""Files of a project whose hooks may write what their `writes` names; those of other assistants may not."""
_OTHER_KINDS = ("prompt", "agent", "http", "mcp_tool")


class HookFile(NamedTuple):
    """A file with hooks: its content, whose it is, and the project with the trusted sha256 of its files by name."""

    path: Path
    data: bytes
    source: Literal["user", "project"]
    root: Path | None = None
    trusted: Mapping[str, str] = {}


class HookFiles(NamedTuple):
    """The files with hooks, in the order in which their hooks are composed, and problems of them in one line each."""

    files: tuple[HookFile, ...]
    problems: tuple[str, ...] = ()


def read_hooks(files: HookFiles) -> tuple[list[Hook], list[str]]:
    """The hooks of `files`, and the problems of those that cannot be used, in one line each."""
    hooks: list[Hook] = []
    problems = list(files.problems)
    for file in files.files:
        name = text_of(file.path)
        try:
            for hook in _hooks_of(file):
                if isinstance(hook, Hook):
                    hooks.append(hook)
                else:
                    problems.append(f"{name}: {hook}")
        except FileError as error:
            problems.append(str(error))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problems.append(f"{name}: its hooks are not used: {sanitize_line(str(error), 200)}.")
    return hooks, problems


def _hooks_of(file: HookFile) -> Iterator[Hook | str]:
    """The hooks of a file, and a sentence for each that cannot be used. Raises FileError, MsgspecError."""
    try:
        top = json.loads(file.data)
    except json.JSONDecodeError as failed:
        problem = f"is not valid JSON, its hooks are not used: {failed.msg}."
        raise FileError(text_of(file.path), problem, line=failed.lineno, hint=JSON_HINT) from None
    groups = top.get("hooks", {}) if isinstance(top, dict) else None
    if not isinstance(groups, dict):
        yield 'it must be an object with "hooks": {EVENT: [...]}.'
        return
    for event, listed in groups.items():
        if event not in EVENTS:
            yield f"there is no event {sanitize_line(event, 60)!r} here; its hooks are not used."
            continue
        for number, group in enumerate(listed if isinstance(listed, list) else [listed]):
            where = f"hooks.{event}[{number}]"
            if not isinstance(group, dict) or not isinstance(entries := group.get("hooks"), list):
                yield f'{where}: it must have "hooks": [...].'
                continue
            for entry in entries:
                yield (found := _hook(file, event, group.get("matcher") or "", entry, where))
                if isinstance(found, Hook) and file.source == "project" and not is_list_of_names(found.matcher):
                    matcher = sanitize_line(found.matcher, 60)
                    yield f"{where}: a project's matcher is a list of names, which may end in *; {matcher!r} matches everything."


def _hook(file: HookFile, event: str, matcher: object, entry: object, where: str) -> Hook | str:
    if isinstance(entry, dict) and entry.get("type") in _OTHER_KINDS:
        return f"{where}: hooks of type {entry['type']!r} are not supported; use a command."
    try:
        found = msgspec.convert(entry, HookEntry)
        text = msgspec.convert(matcher, str).strip()
        if file.source == "user":
            re.compile("" if text == "*" else text)
        elif file.path.name not in _WRITING_FILES:
            found = msgspec.structs.replace(found, writes=())
        if wrong := next((path for path in found.writes if not is_below(path)), ""):
            return f"{where}: writes: {sanitize_line(wrong, 60)!r} is not a folder below the project."
        rule = parse_rule(found.condition, "deny", TOOLS, source=where) if found.condition else None
    except re.error as error:
        return f"{where}: the matcher is not a regular expression: {error}."
    except (msgspec.ValidationError, UsageError) as error:
        return f"{where}: {sanitize_line(str(error), 200)}"
    scripts = tuple(scripts_of(program_of(found), file.root, file.trusted)) if file.root is not None else ()
    return Hook(event, text, found, file.source, text_of(file.path), rule=rule, scripts=scripts)


def program_of(entry: HookEntry) -> ProgramText:
    """The program of a hook."""
    return ProgramText(entry.command, entry.args)


def programs_in(data: bytes, root: Path) -> list[ProgramText]:
    """The programs of the hooks of a project's file, without those of hooks that are not used."""
    hooks, _ = read_hooks(HookFiles((HookFile(root / "hooks.json", data, "project", root),)))
    return [program_of(hook.entry) for hook in hooks]
