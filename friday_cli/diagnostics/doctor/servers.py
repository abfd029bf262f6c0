"""The language servers and MCP servers for a folder. None is started or contacted."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.config import Settings
from friday_cli.extensions import profiles, trust
from friday_cli.session.language_servers import language_server_table, languages_of, servers_of
from friday_cli.session.mcp_settings import PROJECT_FILE, read_servers
from friday_cli.system.paths import with_tilde

from .fact import Fact, Facts
from .machine import version_of

if TYPE_CHECKING:
    from friday_cli.mcp.entry import ServerEntry


def language_servers(cwd: Path, settings: Settings, project: trust.Trust, env: Mapping[str, str]) -> Facts:
    """The server of each language that the folder is a project of, where its program is, and what it is told of; what is missing."""
    if not settings.lsp.enabled:
        yield Fact("used", "no: lsp.enabled is false")
        return
    table = language_server_table(project, env)
    ends = languages_of(cwd)
    servers = servers_of(cwd, ends, table, env)
    for end, one in zip(ends, servers, strict=True):
        if one is not None:
            venv = f", told of {with_tilde(one.venv)}" if one.venv else ""
            confined = "in the sandbox" if one.entry.sandbox or one.in_project else "without the sandbox"
            # a project's program runs in the sandbox only
            version = "" if one.in_project else f" {version_of(one.program)}"
            yield Fact(one.entry.name, f"{with_tilde(one.program)}{version}, {confined}{venv}")
        else:
            known = next((e.install for e in table.entries if end in e.languages and e.install), "")
            yield Fact(f"*{end}", "no language server is installed", "note", f"For example: {known}" if known else "")
    for problem in table.problems:
        yield Fact("problem", problem, "note")
    if any(servers) and not project.ok:
        yield Fact("not used", f"{project.reason} None is started here.", "note", "Run `friday trust`.")
    elif not ends and not table.problems:
        yield Fact("needed", "none: no project of a known language here")


def mcp_servers(cwd: Path, settings: Settings, project: trust.Trust, env: Mapping[str, str]) -> Facts:
    """Each server with its program or host, a program that is missing, and the problems in their files."""
    found = profiles.load(settings.agents.delegation.profiles.directory, project, env=env).found.values()
    entries, problems = read_servers(cwd, env, project=project, profiles=found)
    for entry in entries:
        yield _mcp_server(entry, env)
    for problem in problems:
        yield Fact("problem", problem, "note")
    if not project.ok and PROJECT_FILE in project.files:
        yield Fact("not used", f"{project.root / PROJECT_FILE}: {project.reason}", "note", "Run `friday trust`.")
    elif not entries and not problems:
        yield Fact("configured", "none")


def _mcp_server(entry: ServerEntry, env: Mapping[str, str]) -> Fact:
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
