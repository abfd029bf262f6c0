"""Reads which MCP servers a session has: `--mcp-config`, your `mcp.json`, and `.mcp.json` of a trusted project.

A server of the command line replaces one of your file, and a project can neither replace nor change one of yours, only
disable it. A broken entry or file is reported in one line, and the other entries are used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.config.json_text import read_json
from friday_cli.config.loader import text as settings_text
from friday_cli.core.protocol.errors import FileError, FridayError, UsageError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system.paths import config_dir

from .entry import ServerEntry, WrittenEntry
from .names import server_name
from .parse import TABLE, EntrySource, check, error, resolve

PROJECT_FILE = ".mcp.json"
FLAG = "--mcp-config"


class Servers(msgspec.Struct, frozen=True):
    """The MCP servers of a session, sorted by name, with disabled ones, and one line for each problem and notice."""

    entries: tuple[ServerEntry, ...] = ()
    problems: tuple[str, ...] = ()


class EntryNotice(str):
    """A problem that does not prevent the use of an entry, such as a key without effect."""

    __slots__ = ()


class ProjectFile(msgspec.Struct, frozen=True):
    """The `.mcp.json` of a trusted project with the content that was trusted, or the error that prevents its use."""

    root: Path
    content: bytes | FileError


def user_file(env: Mapping[str, str] | None = None) -> Path:
    """Your file with MCP servers; it need not exist."""
    return config_dir(env) / "mcp.json"


class Configured(msgspec.Struct, frozen=True):
    """The servers that a session has beside those of the command line and of your file."""

    project: ProjectFile | None = None
    inline: Sequence[tuple[EntrySource, Mapping[str, Any]]] = ()
    """Those that profiles define."""
    plugins: Sequence[ServerEntry] = ()


def read(cwd: Path, env: Mapping[str, str], configured: Configured | None, *, given: Sequence[str] = ()) -> Servers:
    """The servers of a session in the folder `cwd`. `given`: the values of `--mcp-config`, files or JSON; without `configured` only
    these. Raises UsageError if one of them is not a file that can be read or JSON."""
    found = _Collection(env)
    for value in given:
        file, entries = _given(value)
        found.add(entries, EntrySource(file, "flag", str(cwd)))
    if configured is None:
        return found.servers()
    mine = EntrySource(str(user_file(env)), "user", str(cwd))
    found.add_file(mine, lambda: load(Path(mine.file)))
    if (project := configured.project) is not None:
        theirs = EntrySource(str(project.root / PROJECT_FILE), "project", str(project.root), confined=True)
        found.add_file(theirs, lambda: _trusted(theirs.file, project.content))
    for source, defined in configured.inline:
        found.add(defined, source)
    for entry in configured.plugins:
        found.add_ready(entry)
    return found.servers()


def load(path: Path) -> dict[str, Any]:
    """The entries of a file, {} if it does not exist. Raises FileError."""
    content = settings_text(path)
    return entries_in(str(path), content.encode()) if content else {}


def entries_in(file: str, raw: bytes) -> dict[str, Any]:
    """The entries in the text of a file. Raises FileError with the line."""
    data = read_json(file, raw)
    if not isinstance(data, dict) or not isinstance(data.get(TABLE, {}), dict):
        raise FileError(file, "expected an object of servers by name.", field=TABLE)
    if TABLE not in data and data.keys() - {"$schema"}:
        raise FileError(file, "is missing.", field=TABLE, hint='Write {"mcpServers": {"NAME": {...}}}.')
    entries: dict[str, Any] = data.get(TABLE, {})
    return entries


def _given(value: str) -> tuple[str, dict[str, Any]]:
    """The name for messages and the entries of one `--mcp-config`. Raises UsageError."""
    inline = value.lstrip().startswith("{")
    try:
        if inline:
            return FLAG, entries_in(FLAG, value.encode("utf-8", "surrogateescape"))
        path = Path(os.path.abspath(os.path.expanduser(value)))
        if not path.is_file():
            raise UsageError(f"{FLAG}: {value}: no such file.", hint="Name a file, or write JSON that begins with {.")
        return str(path), load(path)
    except FileError as failed:
        raise UsageError(failed.message, hint=failed.hint) from None


def _trusted(file: str, content: bytes | FileError) -> dict[str, Any]:
    if isinstance(content, FileError):
        raise content
    return entries_in(file, content)


class _Collection:
    """Collects entries by name: the first one of a name is used, and also keeps its name if it is broken."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._entries: dict[str, ServerEntry] = {}
        self._taken: dict[str, EntrySource] = {}
        self._problems: list[str] = []

    def servers(self) -> Servers:
        """The servers and problems collected so far."""
        return Servers(tuple(self._entries[name] for name in sorted(self._entries)), tuple(self._problems))

    def add_file(self, source: EntrySource, load: Callable[[], dict[str, Any]]) -> None:
        """Add the entries of a file, or the problem that prevents it."""
        try:
            entries = load()
        except FileError as failed:
            self._report(failed)
        else:
            self.add(entries, source)

    def add(self, entries: Mapping[str, Any], source: EntrySource) -> None:
        """Add the entries of one source, and a line for each problem."""
        for written_name, data in entries.items():
            try:
                self._add(written_name, data, source)
            except FileError as failed:
                self._report(failed)

    def add_ready(self, entry: ServerEntry) -> None:
        """Add a server that is checked already, unless its name is taken."""
        owner = self._taken.setdefault(entry.name, EntrySource(entry.file, entry.origin, ""))
        if entry.name in self._entries or owner.origin != entry.origin:
            self._report(error(entry.file, entry.name, f"is ignored: {owner.file} has a server of this name."))
        else:
            self._entries[entry.name] = entry

    def _add(self, written_name: str, data: object, source: EntrySource) -> None:
        name = server_name(written_name)
        if not name:
            hint = "Use letters, digits, - and _."
            raise error(source.file, written_name, "cannot be used as a name.", hint=hint)
        owner = self._taken.setdefault(name, source)
        if owner.origin == "flag" and source.origin == "user":
            return
        written, notices = check(source.file, written_name, data)
        if owner is not source and source.origin in ("project", "profile"):
            self._add_again(name, written, source, owner)
            return
        if name in self._entries:
            hint = "Rename one of them."
            raise error(source.file, written_name, f"another server already has the name {name}.", hint=hint)
        self._problems += [EntryNotice(_line(notice)) for notice in notices]
        if written.enabled or written.command or written.url:
            self._entries[name] = self._resolve(name, written, source)

    def _resolve(self, name: str, written: WrittenEntry, source: EntrySource) -> ServerEntry:
        entry = resolve(name, written, source, self._env)
        if source.origin == "profile" and entry.expose is None:
            return msgspec.structs.replace(entry, expose="delegated")
        return entry

    def _add_again(self, name: str, written: WrittenEntry, source: EntrySource, owner: EntrySource) -> None:
        """A project or a profile uses a name that is taken. A project can disable the server; profiles can share one."""
        known = self._entries.get(name)
        if source.origin == "project" and not written.enabled:
            if known is not None:
                self._entries[name] = msgspec.structs.replace(known, enabled=False)
            return
        if (
            known is None
            or owner.origin != "profile"
            or (self._resolve(name, written, source).catalog_key() != known.catalog_key())
        ):
            raise error(
                source.file, name, f"is ignored: {owner.file} has a server of this name.", hint="Choose another name."
            )

    def _report(self, problem: FridayError) -> None:
        self._problems.append(_line(problem))


def _line(problem: FridayError | str) -> str:
    return sanitize_line(str(problem), 600)
