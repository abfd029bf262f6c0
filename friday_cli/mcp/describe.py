"""An MCP server in words for a person, as it is written: nothing is expanded, and hidden characters are spelled out."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from friday_cli.core.text.deceptive import show_command
from friday_cli.core.text.sanitize import mask

from .entry import ServerEntry, WrittenEntry
from .expand import is_secret_header


def command_line(written: WrittenEntry | ServerEntry, *, hide: bool) -> str:
    """The environment, program and arguments as one line of shell text. `hide`: without values that look like secrets."""
    env = [f"{key}={shlex.quote(_shown(key, value, hide=hide))}" for key, value in written.env.items()]
    args = [mask(arg) if hide else arg for arg in written.args]
    return show_command(" ".join([*env, shlex.join([written.command, *args])]))


def address(written: WrittenEntry | ServerEntry, *, hide: bool) -> str:
    """The URL and the headers in one line. `hide`: without values that look like secrets."""
    headers = [f"{key}: {_shown(key, value, hide=hide)}" for key, value in written.headers.items()]
    return show_command(
        (mask(written.url) if hide else written.url) + (f" with the headers {', '.join(headers)}" if headers else "")
    )


def server_line(entry: ServerEntry) -> str:
    """The command line of a program or the address of a service, without values that look like secrets."""
    return command_line(entry, hide=True) if entry.transport == "stdio" else address(entry, hide=True)


def effect(written: WrittenEntry) -> str:
    """What trusting a project does with this server of it: its whole command line, or its host and address."""
    if not written.enabled:
        return "disables your MCP server of this name"
    if written.url:
        host = urlsplit(written.url.replace("${", "%7B").replace("}", "%7D")).hostname or "?"
        return f"MCP server at {show_command(host)}: {address(written, hide=False)}"
    folder = f" in the folder {show_command(written.cwd)}" if written.cwd else ""
    writes = f", may write {', '.join(map(show_command, written.writes))}" if written.writes else ""
    return f"MCP server, run in the sandbox with network access{folder}{writes}: {command_line(written, hide=False)}"


def secret_keys(written: WrittenEntry | ServerEntry) -> tuple[str, ...]:
    """The variables and headers (`env.KEY`, `headers.KEY`) whose values are written out and look like secrets."""
    rows = [(group, key, value) for group in ("env", "headers") for key, value in getattr(written, group).items()]
    return tuple(f"{group}.{key}" for group, key, value in rows if _shown(key, value, hide=True) != value)


def without_secrets(entry: Mapping[str, Any], secrets: Collection[str]) -> dict[str, Any]:
    """The JSON of an entry without the values of `secrets` (see `secret_keys`)."""
    hidden = dict(entry)
    for group in {key.partition(".")[0] for key in secrets}:
        hidden[group] = {k: "(hidden)" if f"{group}.{k}" in secrets else v for k, v in entry[group].items()}
    return hidden


def _shown(key: str, value: str, *, hide: bool) -> str:
    """A value, or "(hidden)" for a secret that is written out. A reference such as `Bearer ${TOKEN}` is shown."""
    return "(hidden)" if hide and "${" not in value and is_secret_header(key, value) else value
