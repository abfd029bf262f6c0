"""The MCP servers of a session in a folder. None is started or contacted."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.config import Settings
from friday_cli.extensions import profiles, trust
from friday_cli.session.mcp_settings import PROJECT_FILE, read_servers

from .fact import Fact, Facts

if TYPE_CHECKING:
    from friday_cli.mcp.entry import ServerEntry


def configured(cwd: Path, settings: Settings, project: trust.Trust, env: Mapping[str, str]) -> Facts:
    """Each server with its program or host, a program that is missing, and the problems in their files."""
    found = profiles.load(settings.agents.delegation.profiles.directory, project, env=env).found.values()
    entries, problems = read_servers(cwd, env, project=project, profiles=found)
    for entry in entries:
        yield _fact(entry, env)
    for problem in problems:
        yield Fact("problem", problem, "note")
    if not project.ok and PROJECT_FILE in project.files:
        yield Fact("not used", f"{project.root / PROJECT_FILE}: {project.reason}", "note", "Run `friday trust`.")
    elif not entries and not problems:
        yield Fact("configured", "none")


def _fact(entry: ServerEntry, env: Mapping[str, str]) -> Fact:
    from friday_cli.mcp.describe import address, command_line

    where = address(entry, hide=True) if entry.transport == "http" else command_line(entry, hide=True)
    if not entry.enabled:
        return Fact(entry.name, f"off: {where}")
    if entry.transport == "stdio" and shutil.which(_program(entry), path=env.get("PATH")) is None:
        hint = f"Install {entry.command}, or correct command in {entry.file}."
        return Fact(entry.name, f"{where}: no such program", "note", hint)
    return Fact(entry.name, where)


def _program(entry: ServerEntry) -> str:
    """The program as it is searched: a path is relative to the folder of the server."""
    if "/" not in entry.command:
        return entry.command
    return str(Path(entry.cwd, entry.command)) if entry.cwd else entry.command
