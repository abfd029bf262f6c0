"""Calls of tools of MCP servers as people see them: which tool is meant, and its name and arguments in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from friday_cli.core.text.lazy_regex import pattern

from .tool_info import SERVER_PREFIX

LIST, READ = "mcp_list", "mcp_read"
"""Names of the tools for resources, also below the name of each server: `mcp__SERVER__mcp_read`."""
CALL = "mcp_call"
"""The tool that calls a tool of a server that no prompt describes."""
_SERVER = pattern(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")
_SHOWN = 2_000


def server_tool_name(server: str, tool: str) -> str:
    """The name of a server's tool here, from the name that `mcp_search` shows, or from the one here."""
    prefix = f"{SERVER_PREFIX}{server}__"
    return tool if tool.startswith(prefix) else prefix + re.sub(r"[^A-Za-z0-9_-]", "_", tool)


def meant_call(name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The server's tool, and its arguments, that a call by a helper such as `mcp_call` means. Any other call as it is."""
    if name not in (CALL, LIST, READ):
        return name, dict(arguments)
    server, tool, given = arguments.get("server"), arguments.get("tool"), arguments.get("arguments", {})
    if isinstance(server, str) and _SERVER().fullmatch(server):
        if name == CALL and isinstance(tool, str) and tool and isinstance(given, dict):
            return server_tool_name(server, tool), given
        if name != CALL:
            return server_tool_name(server, name), {key: value for key, value in arguments.items() if key != "server"}
    return name, dict(arguments)


def server_and_tool(name: str) -> tuple[str, str]:
    """The server and its tool in the name of a tool; ("", name) for the tools of Friday."""
    server, found, tool = name.removeprefix(SERVER_PREFIX).partition("__")
    return (server, tool) if found and name.startswith(SERVER_PREFIX) else ("", name)


def server_of(name: str) -> str:
    """The server in the name of a tool or in a rule for a whole server (`mcp__SERVER`); "" for other names."""
    return name.removeprefix(SERVER_PREFIX).partition("__")[0] if name.startswith(SERVER_PREFIX) else ""


def tool_label(name: str) -> str:
    """The name of a tool for a person: `SERVER·TOOL` for one of a server."""
    server, tool = server_and_tool(name)
    return f"{server}·{tool}" if server else tool


def arguments_line(arguments: Mapping[str, Any]) -> str:
    """The arguments of a server's tool for a person: one text as it is, else `name: value, name: value`."""
    shown = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in arguments.values()]
    if len(shown) == 1 and isinstance(next(iter(arguments.values())), str):
        return shown[0][:_SHOWN]
    return ", ".join(f"{name}: {value}" for name, value in zip(arguments, shown, strict=True))[:_SHOWN]
