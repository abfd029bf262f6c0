"""Reads what a person has configured in Codex."""

from __future__ import annotations

import ast
import itertools
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from friday_cli.core.protocol.errors import FileError

from ..profiles.parse import parse as parse_profile
from .claude import table_of, text_file
from .found import Found, markdown

_DECISIONS = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
_SERVER_KEYS = {"command": "command", "args": "args", "env": "env", "cwd": "cwd", "url": "url", "http_headers": "headers",
                "startup_timeout_sec": "startup_timeout_s", "tool_timeout_sec": "timeout_s", "enabled": "enabled",
                "enabled_tools": "enabledTools", "disabled_tools": "disabledTools"}  # fmt: skip
_AGENT_KEYS = {"name": "name", "description": "description", "model": "model", "model_reasoning_effort": "effort"}
_MAX_COMBINATIONS = 50
"""Rules that one `prefix_rule` with alternatives may become."""


def read(home: Path, env: Mapping[str, str], project: Path) -> Found:
    """Read the files below the home folder."""
    found = Found()
    folder = Path(env.get("CODEX_HOME") or home / ".codex")
    settings = table_of(folder / "config.toml", found, tomllib.loads)
    servers = settings.get("mcp_servers")
    for name, table in servers.items() if isinstance(servers, dict) else ():
        if isinstance(table, dict):
            found.servers[name] = _server(f"{folder / 'config.toml'}: mcp_servers.{name}", table, found)
    found.add_hooks(folder / "config.toml", settings.get("hooks"))
    hooks = table_of(folder / "hooks.json", found)
    found.add_hooks(folder / "hooks.json", hooks.get("hooks", hooks))
    for path in sorted((folder / "rules").glob("*.rules")):
        for rule, decision in _rules(path, found):
            found.add_rule(path, decision, rule)
    for path in sorted((folder / "agents").rglob("*.toml")):
        table = table_of(path, found, tomllib.loads)
        found.add_profile(path, partial(_agent, path, table))
    found.add_commands(folder / "prompts")
    found.instructions = text_file(folder / "AGENTS.override.md") or text_file(folder / "AGENTS.md")
    return found


def _server(where: str, table: Mapping[str, Any], found: Found) -> dict[str, Any]:
    """The entry of mcp.json for a server. A variable that holds a secret stays a variable."""
    entry = {ours: table[key] for key, ours in _SERVER_KEYS.items() if table.get(key) not in (None, {}, [])}
    headers = dict(entry.get("headers", {}))
    if variable := table.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    headers |= {key: f"${{{variable}}}" for key, variable in (table.get("env_http_headers") or {}).items()}
    if headers:
        entry["headers"] = headers
    passed = [name for name in table.get("env_vars") or () if isinstance(name, str)]
    if passed:
        entry["env"] = {**{name: f"${{{name}:-}}" for name in passed}, **entry.get("env", {})}
    handled = {*_SERVER_KEYS, "bearer_token_env_var", "env_http_headers", "env_vars"}
    for key in sorted(table.keys() - handled):
        found.leave(where, f"{key} has no effect in Friday.")
    return entry


def _rules(path: Path, found: Found) -> Iterator[tuple[str, str]]:
    """(rule, decision) for each `prefix_rule` of a file. Its language is a subset of Python's syntax; nothing of it is run."""
    try:
        calls = [
            node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8-sig"))) if isinstance(node, ast.Call)
        ]
    except (OSError, ValueError, SyntaxError, RecursionError) as error:
        found.leave(path, f"its rules cannot be read: {error}.")
        return
    for call in calls:
        if not isinstance(call.func, ast.Name) or call.func.id != "prefix_rule":
            continue
        try:
            given = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
            choices = [word if isinstance(word, list) else [word] for word in given["pattern"]]
            commands = [
                " ".join(words) for words in itertools.islice(itertools.product(*choices), _MAX_COMBINATIONS + 1)
            ]
            decision = _DECISIONS[given.get("decision", "allow")]
        except (ValueError, KeyError, TypeError):
            found.leave(path, f"the rule in line {call.lineno} cannot be read.")
            continue
        if len(commands) > _MAX_COMBINATIONS or any(set(command) & set("*?()") for command in commands):
            found.leave(path, f"the rule in line {call.lineno} has no counterpart in Friday.")
            continue
        yield from ((f"bash({command} *)", decision) for command in commands if command)


def _agent(path: Path, table: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    """The profile for an agent. Raises FileError."""
    if not isinstance(table.get("name"), str) or not isinstance(table.get("developer_instructions"), str):
        raise FileError(str(path), "name and developer_instructions are needed.")
    front: dict[str, Any] = {ours: table[key] for key, ours in _AGENT_KEYS.items() if table.get(key)}
    notices = []
    front["name"] = table["name"].lower().replace(" ", "-")
    front["allowedTools"] = ["*"]
    if table.get("sandbox_mode") == "read-only":
        front["mode"] = "plan"
    front["projectContext"] = True
    for key in sorted(table.keys() - {*_AGENT_KEYS, "developer_instructions", "sandbox_mode", "nickname_candidates"}):
        notices.append(f"{key} has no effect in Friday.")
    text = markdown(front, table["developer_instructions"])
    return parse_profile(str(path), text.encode(), origin="user").name, text, notices
