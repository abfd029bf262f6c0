"""Reads what a person has configured in OpenCode."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.tool_catalog import TOOLS

from .. import frontmatter
from ..profiles.parse import parse as parse_profile
from .claude import table_of, text_file
from .found import DECISIONS, Found, markdown, markdown_files

_TOOLS = {"bash": ("Bash",), "edit": ("Edit", "Write"), "write": ("Write",), "patch": ("Edit",), "apply_patch": ("Edit",),
          "read": ("Read",), "grep": ("Grep",), "glob": ("Glob",), "list": ("LS",), "webfetch": ("WebFetch",),
          "websearch": ("WebSearch",), "task": ("Task",), "todowrite": ("TodoWrite",), "todoread": ("TodoRead",),
          "question": ("AskUserQuestion",), "skill": ("Skill",)}  # fmt: skip
_AGENT_KEYS = {
    "description": "description",
    "model": "model",
    "temperature": "temperature",
    "steps": "maxIterations",
    "maxSteps": "maxIterations",
}
_READ_AGENT_KEYS = {*_AGENT_KEYS, "mode", "tools", "permission", "prompt", "color", "hidden", "name", "disable"}
_LINE_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.S)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')


def read(home: Path, env: Mapping[str, str], project: Path) -> Found:
    """Read the files below the home folder."""
    found = Found()
    folder = Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
    for name in ("opencode.jsonc", "opencode.json", "config.json"):
        _settings(folder / name, found)
    for part in ("agent", "agents"):
        for relative, path, raw in markdown_files(folder / part):
            found.add_profile(path, partial(_agent_file, path, relative.removesuffix(".md"), raw))
    for part in ("command", "commands"):
        found.add_commands(folder / part)
    for part in ("plugin", "plugins"):
        for path in sorted((folder / part).glob("*.[jt]s")):
            found.leave(path, "a plugin is code of OpenCode; write its checks as hooks (`friday hooks --help`).")
    found.instructions = text_file(folder / "AGENTS.md")
    return found


def _settings(path: Path, found: Found) -> None:
    data = table_of(path, found, lambda text: json.loads(_LAST_COMMA.sub(r"\1", _LINE_COMMENT.sub(r"\1", text))))
    tables = {key: value for key, value in data.items() if isinstance(value, dict)}
    for name, entry in tables.get("mcp", {}).items():
        if isinstance(entry, dict):
            found.servers.setdefault(name, _server(f"{path}: mcp.{name}", entry, found))
    for rule, decision in _rules(path, tables.get("permission", {}), found):
        found.add_rule(path, decision, rule)
    for name, entry in tables.get("agent", {}).items():
        if isinstance(entry, dict) and isinstance(entry.get("prompt"), str):
            found.add_profile(path, partial(_agent, path, name, entry, entry["prompt"]))
        elif isinstance(entry, dict):
            found.leave(path, f"agent.{name} has no prompt: it changes an agent of OpenCode.")
    for name, entry in tables.get("command", {}).items():
        if isinstance(entry, dict) and isinstance(entry.get("template"), str):
            front = {key: value for key, value in entry.items() if key != "template"}
            found.add_command(path, name.lower(), markdown(front, entry["template"]).encode())


def _with_variables(value: Any) -> Any:
    """`{env:NAME}` as `${NAME}`, in texts, lists and tables."""
    if isinstance(value, str):
        return re.sub(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}", r"${\1}", value)
    if isinstance(value, list):
        return [_with_variables(one) for one in value]
    return {key: _with_variables(one) for key, one in value.items()} if isinstance(value, dict) else value


def _server(where: str, table: Mapping[str, Any], found: Found) -> dict[str, Any]:
    """The entry of mcp.json for a server."""
    entry: dict[str, Any] = {}
    command = table.get("command")
    if isinstance(command, list) and command:
        entry |= {"command": command[0], "args": command[1:]}
    elif command:
        entry["command"] = command
    pairs = (("url", "url"), ("headers", "headers"), ("environment", "env"), ("cwd", "cwd"), ("enabled", "enabled"))
    entry |= {ours: table[key] for key, ours in pairs if table.get(key) not in (None, {})}
    if isinstance(table.get("timeout"), (int, float)):
        entry["timeout"] = table["timeout"]  # both are milliseconds
    for key in sorted(table.keys() - {"type", "command", "timeout", *(key for key, _ in pairs)}):
        found.leave(where, f"{key} has no effect in Friday.")
    translated: dict[str, Any] = _with_variables(entry)
    return translated


def _rules(path: Path, permission: Mapping[str, Any], found: Found) -> Iterator[tuple[str, str]]:
    """(rule, decision) for each permission. The last one that matches wins there; here deny wins over ask and ask over allow, so a
    stricter general rule beside looser special ones has no counterpart."""
    for tool, value in permission.items():
        names = tuple(dict.fromkeys(ours for alias in _TOOLS.get(tool, ()) for ours in TOOLS.named(alias)))
        patterns = value if isinstance(value, dict) else {"*": value}
        if not names:
            found.leave(path, f"permission.{tool} has no counterpart in Friday.")
            continue
        for pattern, decision in patterns.items():
            if decision not in DECISIONS:
                continue
            ranks = [DECISIONS.index(other) for other in patterns.values() if other in DECISIONS]
            if pattern == "*" and min(ranks) < DECISIONS.index(decision):
                why = f"{decision} for all other calls has no counterpart beside looser rules; the mode decides."
                found.leave(path, f"permission.{tool}: {why}")
                continue
            for name in names[:1] if tool == "bash" else names:
                yield (name if pattern == "*" else f"{name}({pattern})"), decision


def _agent_file(path: Path, name: str, raw: bytes) -> tuple[str, str, list[str]]:
    page = frontmatter.read(str(path), frontmatter.decode(str(path), raw), known=_READ_AGENT_KEYS)
    return _agent(path, name, page.keys, page.body)


def _agent(path: Path, name: str, table: Mapping[str, Any], prompt: str) -> tuple[str, str, list[str]]:
    """The profile for an agent. Raises FileError."""
    if "{file:" in prompt:
        raise FileError(str(path), f"the prompt of {name} is in another file.", hint="Copy it by hand.")
    if table.get("disable") is True:
        raise FileError(str(path), f"{name} is disabled there.")
    front: dict[str, Any] = {"name": re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")}
    front |= {ours: table[key] for key, ours in _AGENT_KEYS.items() if table.get(key) not in (None, "")}
    front.setdefault("description", prompt.strip().partition("\n")[0][:200])
    front |= {"allowedTools": ["*"], "projectContext": True}
    notices = []
    tools, permission = table.get("tools"), table.get("permission")
    refused = [tool for tool, value in (tools if isinstance(tools, dict) else {}).items() if value is False]
    for tool, value in (permission if isinstance(permission, dict) else {}).items():
        if value == "deny":
            refused.append(tool)
        elif value != "allow":
            notices.append(f"permission.{tool} of the agent has no effect: the rules of the session decide.")
    names = [ours for tool in refused for alias in _TOOLS.get(tool, ()) for ours in TOOLS.named(alias)]
    notices += [f"the tool {tool} is unknown and ignored." for tool in refused if tool not in _TOOLS]
    if names:
        front["disallowedTools"] = list(dict.fromkeys(names))
    if table.get("mode") == "primary":
        notices.append("a primary agent there, a sub-agent here.")
    notices += [f"{key} has no effect in Friday." for key in sorted(table.keys() - _READ_AGENT_KEYS)]
    text = markdown(front, prompt)
    return parse_profile(str(path), text.encode(), origin="user").name, text, notices
