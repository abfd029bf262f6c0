"""The configuration of a language server: as it is written in `lsp.json`, and as a session uses it."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.suggest import closest_match

LARGEST = 1_000_000
"""Maximum size of a file in bytes."""
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


class LanguageServerEntry(Struct, frozen=True):
    """One language server as a session uses it: what is written, and what is known of it. `languages`: by the end of a file's name.
    `lints`: it runs beside the first one that answers, if one of `only_with` or `section` (of pyproject.toml) is in its folder.
    `trusted_program`: it runs nothing of the project, so that it may run without a sandbox if it is on PATH."""

    name: str
    command: str
    languages: dict[str, str]
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    root_markers: tuple[str, ...] = ()
    start_ms: float = 30_000
    enabled: bool = True
    sandbox: bool = True
    origin: Literal["known", "user", "plugin", "project"] = "known"
    file: str = ""
    install: str = ""
    lints: bool = False
    only_with: tuple[str, ...] = ()
    section: str = ""
    trusted_program: bool = False
    least_major: int = 0
    """The first version that is a server, of a program in a package of npm."""

    @property
    def effect(self) -> str:
        """What a confined one does, for the person who decides about it."""
        words = " ".join((self.command, *self.args))
        about = f"a language server in the sandbox, which writes nothing in the project and has no network: {words}"
        return sanitize_line(about, 400)


class ServerFile(Struct, frozen=True):
    """A file with servers: its name for messages, whose it is, and its content or the error that prevents its use."""

    name: str
    origin: Literal["user", "plugin", "project"]
    content: bytes | FileError


class LanguageServerTable(Struct, frozen=True):
    """The servers of a session in the order in which they are tried, with disabled ones, and one line for each problem."""

    entries: tuple[LanguageServerEntry, ...] = ()
    problems: tuple[str, ...] = ()


def read(files: tuple[ServerFile, ...], known: tuple[LanguageServerEntry, ...]) -> LanguageServerTable:
    """The servers of `files`, the user's first, then the `known` ones. A project can replace none of the user's, only disable it. A
    broken entry or file is reported in one line, and the other entries are used."""
    found: dict[str, LanguageServerEntry] = {}
    defaults = {entry.name: entry for entry in known}
    problems: list[str] = []
    for file in files:
        try:
            if isinstance(file.content, FileError):
                raise file.content
            written = entries_in(file.name, file.content)
        except FileError as error:
            problems.append(sanitize_line(str(error), 600))
            continue
        for name, data in written.items():
            try:
                entry, notices = _entry(file, name, data, found, defaults)
                found[name] = entry
                problems += [sanitize_line(str(notice), 600) for notice in notices]
            except FileError as error:
                problems.append(sanitize_line(str(error), 600))
    rest = (entry for name, entry in defaults.items() if name not in found)
    return LanguageServerTable((*found.values(), *rest), tuple(problems))


def entries_in(file: str, raw: bytes) -> dict[str, Any]:
    """The entries in the text of a file, by name. Raises FileError with the line."""
    if len(raw) > LARGEST:
        raise FileError(file, f"is larger than {LARGEST:,} bytes.")
    try:
        data = json.loads(raw.removeprefix(codecs.BOM_UTF8).decode() or "{}")
    except UnicodeDecodeError:
        raise FileError(file, "is not UTF-8 text.", hint="Save it as UTF-8.") from None
    except json.JSONDecodeError as failed:
        raise FileError(file, f"is not valid JSON: {failed.msg}.", line=failed.lineno) from None
    except RecursionError:
        raise FileError(file, "is nested too deeply.") from None
    table = data.get(WRAPPER, data) if isinstance(data, dict) else data
    if not isinstance(table, dict):
        raise FileError(file, "expected an object of servers by name.")
    return {name: entry for name, entry in table.items() if name != "$schema"}


def _entry(
    file: ServerFile,
    name: str,
    data: object,
    found: Mapping[str, LanguageServerEntry],
    defaults: Mapping[str, LanguageServerEntry],
) -> tuple[LanguageServerEntry, list[FileError]]:
    """The entry that `data` describes, and notices about keys without effect. Raises FileError with the key."""
    if not _NAME.fullmatch(name):
        raise _error(file, name, "cannot be used as a name.", hint="Use letters, digits, -, _ and .")
    if not isinstance(data, dict):
        raise _error(file, name, 'expected an object such as {"command": "PROGRAM"}.')
    known = WrittenLanguageServer.__struct_encode_fields__
    notices = [_unknown(file, name, key) for key in data if key not in known and key not in _WITHOUT_EFFECT]
    given = {key: value for key, value in data.items() if key in known and value is not None}
    try:
        written = msgspec.convert(given, WrittenLanguageServer)
    except msgspec.ValidationError as failed:
        raise _error(file, name, f"{sanitize_line(str(failed), 200)}.") from None
    if (earlier := found.get(name)) is not None:
        if not written.enabled:
            return msgspec.structs.replace(earlier, enabled=False), notices
        raise _error(file, name, f"is ignored: {earlier.file} has a server of this name.", hint="Choose another name.")
    base = defaults.get(name, LanguageServerEntry(name, "", {}))
    values = {key: getattr(written, key) for key in msgspec.structs.asdict(written) if _KEYS.get(key, key) in given}
    for key in ("command", "languages"):
        if not values.get(key, True):
            del values[key]  # an empty one says nothing about a known server
    ends = values.get("languages", base.languages).items()
    values["languages"] = {end if end.startswith(".") else f".{end}": kind for end, kind in ends}
    values["settings"] = base.settings | written.settings
    if written.enabled and not (written.command or base.command):
        raise _error(file, name, "needs command (a program).")
    if written.enabled and not values["languages"]:
        raise _error(file, name, 'needs extensionToLanguage, such as {".py": "python"}.')
    values["sandbox"] = written.sandbox or file.origin != "user"
    values["trusted_program"] = base.trusted_program and not written.command
    always = {"only_with": (), "section": "", "origin": file.origin, "file": file.name}  # who names it wants it
    return msgspec.structs.replace(base, **values, **always), notices


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
