"""The configuration of a language server: as it is written in `lsp.json`, and as a session uses it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from friday_cli.config.json_text import read_json
from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text.deceptive import show_command
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.suggest import closest_match

WRAPPER = "lspServers"
"""The key under which the servers may stand, as in a plugin."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WITHOUT_EFFECT = frozenset(
    ("$schema", "transport", "workspaceFolder", "shutdownTimeout", "restartOnCrash", "maxRestarts", "loggingConfig")
)
"""Keys of other programs that have no effect."""
_KEYS = {"languages": "extensionToLanguage", "options": "initializationOptions", "start_ms": "startupTimeout"}
"""How some fields are written."""


class WrittenLanguageServer(Struct, frozen=True, omit_defaults=True, rename=_KEYS):
    """One language server, as it is written. An entry with the name of a known server changes that one."""

    command: str = ""
    """The program that is the server: one program, not a shell line. A name is looked for in the project's virtual environment, in
    `node_modules/.bin`, then on PATH."""
    args: tuple[str, ...] = ()
    """Arguments of the program."""
    languages: dict[str, str] = {}
    """The files that it is for: `{".py": "python"}`."""
    env: dict[str, str] = {}
    """Environment variables of the program. Of yours it gets only PATH, HOME, LANG, TERM and TMPDIR."""
    settings: dict[str, Any] = {}
    """What it reads when it asks for its settings."""
    options: dict[str, Any] = {}
    """What it gets at its start."""
    start_ms: Annotated[float, Meta(gt=0, le=600_000)] = 30_000
    """Milliseconds that it may take to start."""
    root_markers: tuple[str, ...] = ()
    """Files of the folder that it works in, such as `pyproject.toml`: the nearest above a file. Not set: the folder of the session."""
    enabled: bool = True
    """Whether it is used."""
    sandbox: bool = True
    """Whether it is confined. A project's or a plugin's always is."""


class LanguageServerEntry(WrittenLanguageServer, frozen=True, kw_only=True):
    """One language server as a session uses it: what is written, and what is known of it (`servers.json`)."""

    name: str = ""
    origin: Literal["known", "user", "plugin", "project"] = "known"
    file: str = ""
    install: str = ""
    """How it is installed, as text for a person: nothing is downloaded."""
    lints: bool = False
    """It runs beside the first one that answers, if one of `only_with` or `section` (of pyproject.toml) is in its folder."""
    only_with: tuple[str, ...] = ()
    section: str = ""
    trusted_program: bool = False
    """It runs nothing of the project, so that it may run without a sandbox if it is on PATH."""
    least_major: int = 0
    """The first version that is a server, of a program in a package of npm."""

    @property
    def effect(self) -> str:
        """What a confined one does, for the person who decides about it."""
        words = [
            *(f"{key}={shlex.quote(value)}" for key, value in self.env.items()),
            shlex.join((self.command, *self.args)),
        ]
        about = "a language server in the sandbox, which writes nothing in the project and has no network"
        return f"{about}: {show_command(' '.join(words))}"


class ServerFile(Struct, frozen=True):
    """A file with servers: its name for messages, whose it is, and its content or the error that prevents its use."""

    name: str
    origin: Literal["user", "plugin", "project"]
    content: bytes | FileError


class LanguageServerTable(Struct, frozen=True):
    """The servers of a session in the order in which they are tried, with disabled ones, and one line for each problem."""

    entries: tuple[LanguageServerEntry, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[LanguageServerEntry, ...]:
        """Those of files."""
        return tuple(entry for entry in self.entries if entry.origin != "known")


def known_servers() -> dict[str, LanguageServerEntry]:
    """The servers that are used where they are installed, by name. Of those for the same files the first one that answers is used. Blocks."""
    raw = Path(__file__).with_name("servers.json").read_bytes()
    found = msgspec.json.decode(raw, type=dict[str, LanguageServerEntry])
    return {name: msgspec.structs.replace(entry, name=name) for name, entry in found.items()}


def read(files: tuple[ServerFile, ...]) -> LanguageServerTable:
    """The servers of `files`, the user's first, then the known ones. A project can replace none of the user's, only disable it. A
    broken entry or file is reported in one line, and the other entries are used. Blocks."""
    found: dict[str, LanguageServerEntry] = {}
    known, problems = known_servers(), list[FileError]()
    for file in files:
        try:
            written = _entries_in(file)
        except FileError as error:
            problems.append(error)
            continue
        for name, data in written.items():
            try:
                base = known.get(name, LanguageServerEntry(name=name))
                found[name], notices = _entry(file, name, data, found.get(name), base)
                problems += notices
            except FileError as error:
                problems.append(error)
    rest = (entry for name, entry in known.items() if name not in found)
    lines = (sanitize_line(str(problem), 600) for problem in problems)
    return LanguageServerTable((*found.values(), *rest), tuple(lines))


def _entries_in(file: ServerFile) -> dict[str, Any]:
    """The entries of a file, by name. Raises FileError."""
    if isinstance(file.content, FileError):
        raise file.content
    data = read_json(file.name, file.content.strip() or b"{}")
    table = data.get(WRAPPER, data) if isinstance(data, dict) else data
    if not isinstance(table, dict):
        raise FileError(file.name, "expected an object of servers by name.")
    return {name: entry for name, entry in table.items() if name != "$schema"}


def _entry(
    file: ServerFile, name: str, data: object, earlier: LanguageServerEntry | None, base: LanguageServerEntry
) -> tuple[LanguageServerEntry, list[FileError]]:
    """`base` with what `data` says, and notices about keys without effect. `earlier`: the one of this name in a file before. Raises
    FileError with the key."""
    if not _NAME.fullmatch(name):
        raise _error(file, name, "cannot be used as a name.", hint="Use letters, digits, -, _ and .")
    if not isinstance(data, dict):
        raise _error(file, name, 'expected an object such as {"command": "PROGRAM"}.')
    known = WrittenLanguageServer.__struct_encode_fields__
    notices = [_unknown(file, name, key) for key in data if key not in known and key not in _WITHOUT_EFFECT]
    given = {key: value for key, value in data.items() if key in known and value not in (None, "", {})}
    try:
        entry = msgspec.convert(msgspec.to_builtins(base) | given, LanguageServerEntry)
    except msgspec.ValidationError as failed:
        raise _error(file, name, f"{sanitize_line(str(failed), 200)}.") from None
    if earlier is not None:
        if given.get("enabled") is False:
            return msgspec.structs.replace(earlier, enabled=False), notices
        raise _error(file, name, f"is ignored: {earlier.file} has a server of this name.", hint="Choose another name.")
    if entry.enabled and not entry.command:
        raise _error(file, name, "needs command (a program).")
    if entry.enabled and not entry.languages:
        raise _error(file, name, 'needs extensionToLanguage, such as {".py": "python"}.')
    entry = msgspec.structs.replace(
        entry,
        languages={f".{end.removeprefix('.')}": kind for end, kind in entry.languages.items()},
        settings=base.settings | entry.settings,
        sandbox=entry.sandbox or file.origin != "user",
        trusted_program=base.trusted_program and "command" not in given,
        only_with=(),  # who names it wants it
        section="",
        origin=file.origin,
        file=file.name,
    )
    return entry, notices


def _unknown(file: ServerFile, name: str, key: str) -> FileError:
    close = closest_match(key, WrittenLanguageServer.__struct_encode_fields__, 0.7)
    return _error(file, name, f"unknown key, ignored.{f' Did you mean {close}?' if close else ''}", key=key)


def language_servers_schema() -> dict[str, Any]:
    """The JSON Schema of lsp.json."""
    from friday_cli.config import json_schema

    table = {"additionalProperties": {"$ref": "#/$defs/WrittenLanguageServer"}}
    top = {"type": "object", "properties": {WRAPPER: {"type": "object", **table}}, **table}
    return json_schema.document("Language servers of Friday", top, json_schema.definitions(WrittenLanguageServer))


def _error(file: ServerFile, name: str, problem: str, *, key: str = "", hint: str = "") -> FileError:
    return FileError(file.name, problem, field=sanitize_line(f"{name}.{key}" if key else name, 160), hint=hint)
