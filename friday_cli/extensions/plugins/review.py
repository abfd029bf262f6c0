"""Describes what a plugin brings, for the person who decides about it. All text is sanitized."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping

import msgspec

from friday_cli.core.protocol.errors import FileError, FridayError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line, show_invisible

from .. import commands, trust
from ..profiles import render
from ..profiles.parse import parse as parse_profile
from ..skills.files import SCRIPTS
from ..skills.parse import parse
from .installed import files_of_project
from .plugin import Plugin, PluginFiles, read

MAX_LINES = 400
"""Lines of a diff that are shown; more are counted."""


def rows(plugin: Plugin, env: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """(part, effect) for each part of a plugin, and one row for each part that is not used."""
    found = [(f"skill {folder.rpartition('/')[2]}", _skill(plugin, folder)) for folder in plugin.skills]
    found += [_agent(plugin, name) for name in (*plugin.profiles, *plugin.agents)]
    found += [(f"command /{name}", _command(plugin, name, file)) for name, file in sorted(plugin.commands.items())]
    servers, problems = _servers(plugin, env)
    found += servers
    if plugin.language_servers:
        from friday_cli.lsp.entry import read as read_servers  # few plugins have some

        from .language_servers import server_file

        table = read_servers((server_file(plugin),))
        found += [(f"language server {entry.name}", entry.effect) for entry in table.written]
        problems = [*problems, *table.problems]
    programs = [name for name in plugin.files.files if name.endswith(SCRIPTS)]
    if programs:
        more = f" and {len(programs) - 10} more" if len(programs) > 10 else ""
        found.append(
            ("programs", f"{', '.join(programs[:10])}{more}: run only by its servers, or as other commands are")
        )
    found += [("not used", problem) for problem in (*plugin.problems, *problems)]
    return [(sanitize_line(part, 120), sanitize_line(about, 4_000)) for part, about in found]


def _skill(plugin: Plugin, folder: str) -> str:
    file = f"{folder}/SKILL.md"
    try:
        found = parse(plugin.root / folder, plugin.files.content(file) or b"", plugin.files.files[file], "plugin")
    except FileError as error:
        return f"cannot be used: {error.field} {error.problem}"
    return f"instructions that agents can load: {found.description[:250]}"


def _agent(plugin: Plugin, file: str) -> tuple[str, str]:
    try:
        origin = "user" if file in plugin.profiles else "claude"
        found = parse_profile(file, plugin.files.content(file) or b"", origin=origin)  # type: ignore[arg-type]
    except FileError as error:
        return f"agent {os.path.basename(file)}", f"cannot be used: {error.problem}"
    notes = f" ({' '.join(found.notices)})" if found.notices else ""
    return f"agent {found.name}", f"a profile; tools: {render.tools(found)}; {found.description[:200]}{notes}"


def _command(plugin: Plugin, name: str, file: str) -> str:
    try:
        found = commands.parse(file, name, plugin.files.content(file) or b"", "claude")
    except FileError as error:
        return f"cannot be used: {error.problem}"
    tools = "all that are allowed" if found.tools is None else ", ".join(sorted(found.tools)) or "none"
    return f"a prompt; tools: {tools}; {found.description}"


def _servers(plugin: Plugin, env: Mapping[str, str] | None) -> tuple[list[tuple[str, str]], list[str]]:
    if not plugin.servers and not plugin.inline_servers:
        return [], []
    from friday_cli.mcp import describe

    from .servers import RESERVED, servers

    entries, problems = servers(plugin, os.environ if env is None else env)
    where = "in the sandbox with network access" if plugin.origin == "project" else "not in the sandbox"
    found = []
    for entry in entries:
        if entry.transport == "http":
            found.append((f"MCP server {entry.name}", f"at {describe.address(entry, hide=True)}"))
        else:
            own = {key: value for key, value in entry.env.items() if key.removeprefix("CLAUDE_") not in RESERVED}
            line = describe.command_line(msgspec.structs.replace(entry, env=own), hide=True)
            found.append((f"MCP server {entry.name}", f"run {where}: {line}"))
    return found, problems


def rows_of_project(project: trust.Trust) -> list[tuple[str, str]]:
    """(folder, effect) for each part of the plugins of a project, as if it were trusted."""
    found = []
    for folder, shas in sorted(files_of_project(project).items()):
        try:
            plugin = read(PluginFiles(project.root / folder, shas), "project")
        except FridayError as error:
            found.append((sanitize_line(folder, 200), sanitize_line(f"a plugin that cannot be used: {error}", 400)))
            continue
        head = f"plugin {plugin.name} {plugin.version}".strip()
        found.append((sanitize_line(folder, 200), f"{head}, {pluralize(len(shas), 'file')}"))
        found += [(sanitize_line(f"{folder}: {part}", 300), about) for part, about in rows(plugin)]
    return found


def differences(before: PluginFiles, after: PluginFiles) -> list[str]:
    """What an update changes, as lines of unified diffs. An old file that was changed on disk is only named."""
    out: list[str] = []
    for name in sorted({*before.files, *after.files}):
        if before.files.get(name) == after.files.get(name):
            continue
        mark = "+" if name not in before.files else "-" if name not in after.files else "~"
        out.append(sanitize_line(f"{mark} {name}", 300))
        old, new = _text(before, name).splitlines(), _text(after, name).splitlines()
        changes = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
        out += [f"  {sanitize_line(show_invisible(line), 300)}" for line in changes]
    if len(out) > MAX_LINES:
        out[MAX_LINES:] = [f"({pluralize(len(out) - MAX_LINES, 'more line')})"]
    return out


def _text(files: PluginFiles, name: str) -> str:
    """The text of a file; a short one in its place if it is none or cannot be read."""
    try:
        raw = files.content(name) or b""
    except FridayError:
        return "(it was changed on disk)"
    return "(not text)" if b"\0" in raw[:8_000] else raw.decode("utf-8", "replace").replace("\r\n", "\n")
