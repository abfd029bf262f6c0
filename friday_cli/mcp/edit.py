"""Adds servers to a file with MCP servers and removes them. The rest of its text is kept as it is."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.system import atomic_file
from friday_cli.system.paths import with_tilde

from .names import no_server
from .parse import TABLE
from .read import entries_in, user_file

_BLANK = re.compile(r"[ \t\r\n]*")
_INDENT = "  "


class _Member(NamedTuple):
    """A member of a JSON object: its name, and where the name begins and the value begins and ends."""

    name: str
    start: int
    value: int
    end: int


def add_server(path: Path, name: str, entry: dict[str, Any], *, private: bool = False, mode: int = 0o600) -> None:
    """Add the server `name` to the file, which is created with `mode` if it does not exist. `private`: make it readable by its
    owner only. Raises UsageError if it has a server of this name, FileError if it is not valid, FridayError if it cannot be
    written."""
    _change(path, name, entry, private=private, mode=mode)


def remove_server(path: Path, name: str) -> None:
    """Remove the server `name` from the file. Raises UsageError if it has none, else as `add_server`."""
    _change(path, name, None)


def _change(path: Path, name: str, entry: dict[str, Any] | None, *, private: bool = False, mode: int = 0o600) -> None:
    path = Path(os.path.realpath(path))  # often a link into a dotfiles repository
    try:
        with atomic_file.locked(user_file()):  # a lock file in the project would be one more file in its repository
            old = path.read_bytes() if path.exists() else b""
            entries = entries_in(str(path), old) if old.strip() else {}
            if entry is not None and name in entries:
                raise UsageError(f"{path} already has a server {name}.", hint=f"Run `friday mcp remove {name}` first.")
            if entry is None and name not in entries:
                raise no_server(name, entries, with_tilde(path))
            text = old.decode("utf-8-sig")
            new = _added(text, name, entry) if entry is not None else _removed(text, name)
            wanted = {**entries, name: entry} if entry is not None else {k: v for k, v in entries.items() if k != name}
            if entries_in(str(path), new.encode()) != wanted:
                raise FridayError(
                    f"{path} was not changed: it contains the same name twice.", hint="Edit the file by hand."
                )
            mark = b"\xef\xbb\xbf" if old.startswith(b"\xef\xbb\xbf") else b""
            kept = path.stat().st_mode & 0o777 if old else mode
            atomic_file.replace_bytes(path, mark + new.encode(), mode=0o600 if private else kept)
    except OSError as error:
        raise FridayError(f"{path} cannot be written: {error.strerror}.") from None


def _added(text: str, name: str, entry: dict[str, Any]) -> str:
    if not text.strip():
        return json.dumps({TABLE: {name: entry}}, indent=2, ensure_ascii=False) + "\n"
    top = _skip(text, 0)
    table = next((member for member in _members(text, top) if member.name == TABLE), None)
    return _inserted(text, top, TABLE, {name: entry}) if table is None else _inserted(text, table.value, name, entry)


def _inserted(text: str, brace: int, name: str, value: object) -> str:
    """`text` with a new last member in the object that begins at `brace`, indented as the members before it."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    members = _members(text, brace)
    outer = _indent(text, brace)
    inner = _indent(text, members[-1].start) if members else outer + _INDENT
    written = f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, indent=2, ensure_ascii=False)}"
    member = line_end + inner + written.replace("\n", line_end + inner)
    if members:
        return f"{text[: members[-1].end]},{member}{text[members[-1].end :]}"
    return f"{text[: brace + 1]}{member}{line_end}{outer}{text[_skip(text, brace + 1) :]}"


def _removed(text: str, name: str) -> str:
    table = next(member for member in _members(text, _skip(text, 0)) if member.name == TABLE)
    members = _members(text, table.value)
    at = next(number for number, member in enumerate(members) if member.name == name)
    if at + 1 < len(members):
        return text[: members[at].start] + text[members[at + 1].start :]
    if at:
        return text[: members[at - 1].end] + text[members[at].end :]
    return text[: table.value + 1] + text[_skip(text, members[at].end) :]


def _members(text: str, brace: int) -> list[_Member]:
    """The members of the object that begins at `brace`, in valid JSON."""
    decoder = json.JSONDecoder()
    found = []
    at = _skip(text, brace + 1)
    while text[at] == '"':
        name, end = decoder.raw_decode(text, at)
        value = _skip(text, _skip(text, end) + 1)
        _, stop = decoder.raw_decode(text, value)
        found.append(_Member(name, at, value, stop))
        at = _skip(text, stop)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def _skip(text: str, at: int) -> int:
    """The next position that is not blank."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _indent(text: str, at: int) -> str:
    """The blanks at the beginning of the line of `at`."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]
