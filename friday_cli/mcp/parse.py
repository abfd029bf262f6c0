"""Checks one entry of `mcpServers`, and makes the `ServerEntry` of it that a session uses."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

import msgspec

from friday_cli.config.validate import type_error
from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text import known_keys
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.suggest import closest_match
from friday_cli.system.paths import is_below
from friday_cli.workspace.process.environment import is_secret

from .entry import STARTUP_TIMEOUT_S, TIMEOUT_S, EntryOrigin, ServerEntry, WrittenEntry
from .expand import Expander, ExpandError, is_secret_header

TABLE = "mcpServers"
_HELPERS = frozenset(("headersHelper", "authHelper", "auth_provider_type"))
"""Keys of other programs that run a command for headers."""
_WITHOUT_EFFECT = frozenset(
    ("alwaysAllow", "autoApprove", "trust", "alwaysLoad", "gallery", "version", "name", "icon", "disabled", "$schema")
)
"""Keys of other programs. `disabled` is read, the others have no effect."""


class EntrySource(msgspec.Struct, frozen=True):
    """Where entries come from. `file`: for messages. `confined`: they are a project's, so they run in the sandbox, are never
    `readonly`, and use no variable that looks like a secret. `folder`: the absolute folder of relative `cwd`s."""

    file: str
    origin: EntryOrigin
    folder: str
    confined: bool = False


@cache
def fields() -> dict[str, Any]:
    """The keys of an entry, with the types of their values (never null: such a key counts as not written)."""
    found = {}
    for field in msgspec.structs.fields(WrittenEntry):
        kinds = [kind for kind in get_args(field.type) if kind is not type(None)]
        found[field.encode_name] = kinds[0] if type(None) in get_args(field.type) else field.type
    return found


def error(file: str, name: str, problem: str, *, key: str = "", hint: str = "") -> FileError:
    """The error about a key of the entry `name`."""
    field = ".".join(part for part in (TABLE, name, key) if part)
    return FileError(file, problem, field=sanitize_line(field, 160), hint=hint)


def check(file: str, name: str, data: object) -> tuple[WrittenEntry, list[str]]:
    """The entry that `data` (JSON) describes, and notices about keys without effect. Raises FileError with the key."""
    if not isinstance(data, dict):
        raise error(file, name, 'expected an object such as {"command": "PROGRAM"}.')
    notices: list[str] = []
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in WrittenEntry.__struct_encode_fields__:
            if (notice := _unknown(key)) is not None:
                notices.append(str(error(file, name, notice, key=key)))
        elif value is not None:
            if key == "type" and value == "sse":
                hint = 'Use "type": "http" with the address that ends in /mcp.'
                raise error(file, name, "the transport sse is not supported.", key=key, hint=hint)
            values[key] = value
    if data.get("disabled") is True:
        values["enabled"] = False
    try:
        written = msgspec.convert(values, WrittenEntry)
    except msgspec.ValidationError:
        for key, value in values.items():  # the types of the keys take time to find
            if (problem := type_error(value, fields()[key])) is not None:
                raise error(file, name, f"{sanitize_line(problem, 200)}.", key=key) from None
        raise
    if wrong := next((path for path in written.writes if not is_below(path)), ""):
        raise error(file, name, f"{sanitize_line(wrong, 60)!r} is not a folder below the project.", key="writes")
    if written.enabled or written.command or written.url:
        _check_transport(file, name, written)
    return written, notices


def _unknown(key: str) -> str | None:
    """The notice about an unknown key; None if it needs none."""
    if key in _WITHOUT_EFFECT:
        return None
    if key in _HELPERS:
        return "has no effect: Friday runs no program for headers."
    close = closest_match(key, fields(), 0.7)
    return f"unknown key, ignored.{f' Did you mean {close}?' if close else ''}"


def _check_transport(file: str, name: str, written: WrittenEntry) -> None:
    """Raises FileError unless exactly one of `command` and `url` is set, and is what `type` says."""
    kind = written.type or ("stdio" if written.command else "http")
    needed, other = ("command", "url") if kind == "stdio" else ("url", "command")
    if not getattr(written, needed):
        if written.type:
            raise error(file, name, f"is missing: type {kind} needs it.", key=needed)
        raise error(file, name, "needs command (a program) or url (an address).")
    if getattr(written, other):
        raise error(file, name, f"cannot be used together with {needed}.", key=other, hint="Remove one of them.")
    first, _, rest = written.command.strip().partition(" ")
    if rest and "/" not in first:
        hint = "Write the program in command and its arguments in args."
        raise error(file, name, "is one program, not a command line.", key="command", hint=hint)


def resolve(name: str, written: WrittenEntry, source: EntrySource, env: Mapping[str, str]) -> ServerEntry:
    """The entry with its variables replaced, paths absolute and the rights that its source can give. Its secrets are
    masked in all text of this process from now on. A disabled entry needs no variables. Raises FileError with the key."""
    expander = Expander(env, confined=source.confined)
    if not written.enabled:
        expanded = WrittenEntry(url=written.url, command=written.command, args=written.args)
    else:
        expanded = _expanded(name, written, source.file, expander)
        known_keys.remember(expander.secrets | _secret_values(expanded))
    timeout_s = written.timeout_s or (written.timeout / 1000 if written.timeout else TIMEOUT_S)
    return ServerEntry(
        name,
        "http" if expanded.url else "stdio",
        command=expanded.command,
        args=expanded.args,
        env=expanded.env,
        cwd=_folder(name, written.cwd, source),
        url=expanded.url,
        headers=expanded.headers,
        timeout_s=timeout_s,
        startup_timeout_s=written.startup_timeout_s or STARTUP_TIMEOUT_S,
        enabled=written.enabled,
        enabled_tools=written.enabled_tools,
        disabled_tools=written.disabled_tools,
        expose=written.expose,
        sandbox=source.confined or bool(written.sandbox),
        network=source.confined,
        writes=written.writes,
        readonly=written.readonly and not source.confined,
        description=sanitize_line(written.description, 400),
        oauth=written.oauth,
        origin=source.origin,
        file=source.file,
    )


def _expanded(name: str, written: WrittenEntry, file: str, expander: Expander) -> WrittenEntry:
    def text(value: str, key: str) -> str:
        try:
            found = expander.text(value)
        except ExpandError as failed:
            raise error(file, name, str(failed), key=key, hint=failed.hint) from None
        if "\0" in found or (key.startswith(("url", "headers")) and ("\r" in found or "\n" in found)):
            raise error(file, name, "contains a line break or a null character.", key=key)
        return found

    url = text(written.url, "url")
    if url and not re.fullmatch(r"https?://[^\s/@?#]+([/?#]\S*)?", url):
        hint = "Put a password or token in headers." if "@" in url else ""
        raise error(file, name, "expected an http:// or https:// address without a password.", key="url", hint=hint)
    for group, valid in (("env", r"[A-Za-z_][A-Za-z0-9_]*"), ("headers", r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")):
        for key in getattr(written, group):
            if not re.fullmatch(valid, key):
                raise error(file, name, f"{sanitize_line(key, 40)!r} is not a valid name.", key=group)
    return msgspec.structs.replace(
        written,
        command=text(written.command, "command") if "\0" in written.command else written.command,
        url=url,
        args=tuple(text(value, f"args[{n}]") for n, value in enumerate(written.args)),
        env={key: text(value, f"env.{key}") for key, value in written.env.items()},
        headers={key: text(value, f"headers.{key}") for key, value in written.headers.items()},
    )


def _secret_values(entry: WrittenEntry) -> set[str]:
    """The values of environment variables and headers that look like secrets."""
    found = {value for key, value in entry.env.items() if is_secret(key, value)}
    for key, value in entry.headers.items():
        if is_secret_header(key, value):
            found |= {value, value.partition(" ")[2] or value}
    return found


def _folder(name: str, cwd: str, source: EntrySource) -> str:
    """The absolute folder in which a program starts, "" for that of the session. Raises FileError."""
    if not source.confined and cwd in ("", "."):
        return ""
    if "\0" in cwd:
        raise error(source.file, name, "contains a null character.", key="cwd")
    path = os.path.realpath(os.path.join(source.folder, os.path.expanduser(cwd)))
    if source.confined and os.path.commonpath((path, os.path.realpath(source.folder))) != os.path.realpath(
        source.folder
    ):
        raise error(source.file, name, "is outside the project.", key="cwd")
    return path
