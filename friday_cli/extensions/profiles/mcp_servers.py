"""Reads `mcpServers` of a profile: names of servers, and servers that the profile defines itself as in mcp.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from friday_cli.core.protocol.errors import FileError
from friday_cli.mcp.names import server_name
from friday_cli.mcp.parse import check

from . import claude_import
from .schema import ProfileFields

KEY = "mcp_servers"


def servers(fields: ProfileFields) -> tuple[tuple[str, ...], dict[str, dict[str, Any]]]:
    """The names of all servers, and the definitions of those that are defined here. Raises FileError; in a file of another
    tool a definition that cannot be used is a notice."""
    names: list[str] = []
    inline: dict[str, dict[str, Any]] = {}
    for written, definition in _items(fields.values.get(KEY)):
        name = server_name(written) if isinstance(written, str) else ""
        if not name or len(str(written).split()) > 1:
            raise fields.fail(KEY, "expected names of MCP servers.", "Write [a, b], or one `- name` per line.")
        if definition is not None:
            try:
                check(fields.path, name, definition)
            except FileError as error:
                problem = f"the server {name}: {error.problem}"
                if not fields.imported:
                    raise fields.fail(KEY, problem, error.hint) from None
                fields.note(f"{fields.written[KEY]}: {problem} It is ignored.")
                continue
            inline[name] = definition
        names.append(name)
    return tuple(dict.fromkeys(names)), inline


def _items(value: object) -> Iterator[tuple[object, Any]]:
    """(name, definition or None) for each server: a list of names and objects, one object, or names in a text."""
    if isinstance(value, str):
        value = claude_import.items(value)
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, dict):
            yield from entry.items()
        else:
            yield entry, None
