"""Reads what a person has configured in Claude Code. What is in a project, Friday reads there itself once it is trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from .. import profiles
from ..profiles.parse import parse as parse_profile
from .found import DECISIONS, Found, markdown_files, profile_text, rules_of


def read(home: Path, env: Mapping[str, str], project: Path) -> Found:
    """Read the files below the home folder. `project`: its own servers in the file of all projects are found too."""
    found = Found()
    folder = Path(env.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    state = folder / ".claude.json" if env.get("CLAUDE_CONFIG_DIR") else home / ".claude.json"
    everything = table_of(state, found)
    mine = everything.get("projects", {})
    for table in (mine.get(str(project), {}) if isinstance(mine, dict) else {}, everything):
        servers = table.get("mcpServers") if isinstance(table, dict) else None
        for name, entry in servers.items() if isinstance(servers, dict) else ():
            if isinstance(entry, dict):
                found.servers.setdefault(name, {key: value for key, value in entry.items() if value not in ({}, [])})
    settings = table_of(folder / "settings.json", found)
    found.add_hooks(folder / "settings.json", settings.get("hooks"))
    permissions = settings.get("permissions")
    for decision in DECISIONS:
        entries = permissions.get(decision) if isinstance(permissions, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            for rule in rules_of(str(entry), decision):
                found.add_rule(folder / "settings.json", decision, rule)
    for _, path, raw in markdown_files(folder / "agents"):
        if profiles.lookup.is_profile(raw):
            found.add_profile(path, partial(_agent, path, raw))
    found.add_commands(folder / "commands")
    found.instructions = text_file(folder / "CLAUDE.md")
    return found


def _agent(path: Path, raw: bytes) -> tuple[str, str, list[str]]:
    profile = parse_profile(str(path), raw, origin="claude")
    return profile.name, profile_text(profile), list(profile.notices)


def table_of(path: Path, found: Found, parse: Callable[[str], Any] = json.loads) -> dict[str, Any]:
    """The object in a file, {} if there is none. A file that cannot be read becomes a line."""
    try:
        data = parse(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        found.leave(path, f"it cannot be read: {error}.")
        return {}
    return data if isinstance(data, dict) else {}


def text_file(path: Path) -> str:
    """The text of a file, "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace").strip()
    except OSError:
        return ""
