"""Reads which MCP servers a session has. Nothing of `friday_cli.mcp` is imported where none is configured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.extensions import trust
from friday_cli.extensions.plugins.find import find_plugins
from friday_cli.extensions.profiles import Profile
from friday_cli.system.paths import config_dir

if TYPE_CHECKING:
    from friday_cli.extensions.plugins.installed import Plugins
    from friday_cli.mcp.entry import ServerEntry

PROJECT_FILE = ".mcp.json"


def read_servers(
    cwd: Path,
    env: Mapping[str, str],
    *,
    project: trust.Trust,
    profiles: Iterable[Profile],
    given: Sequence[str] = (),
    files: bool = True,
) -> tuple[tuple[ServerEntry, ...], tuple[str, ...]]:
    """The MCP servers of a session, sorted by name, with disabled ones, and one line for each problem. `project`: its
    `.mcp.json` is read if it is trusted. `profiles`: those that may define servers themselves. `given`: the values of
    `--mcp-config`. `files` False: only these. Raises UsageError for a value of `--mcp-config` that cannot be read."""
    sha = project.files.get(PROJECT_FILE) if project.ok else None
    defined = [profile for profile in profiles if profile.mcp_inline]
    plugins = find_plugins(project, env) if files else None
    if not given and not (files and (sha or defined or plugins or (config_dir(env) / "mcp.json").exists())):
        return (), ()
    from friday_cli.mcp import read  # most sessions have no servers
    from friday_cli.mcp.parse import EntrySource

    file = None
    if sha is not None:
        file = read.ProjectFile(project.root, trust.trusted_content(project.root / PROJECT_FILE, sha))
    inline = [
        (
            EntrySource(profile.path, "profile", str(project.root), profile.origin in ("project", "claude")),
            profile.mcp_inline,
        )
        for profile in defined
    ]
    entries, problems = _of_plugins(plugins, env) if plugins else ([], [])
    configured = read.Configured(file, inline, entries) if files else None
    servers = read.read(cwd, env, configured, given=given)
    return servers.entries, (*servers.problems, *problems)


def _of_plugins(plugins: Plugins, env: Mapping[str, str]) -> tuple[list[ServerEntry], list[str]]:
    """The servers of plugins, and one line for each problem. A plugin with a changed file gives none: its programs may be other ones."""
    from friday_cli.extensions.plugins.servers import servers

    found: list[ServerEntry] = []
    problems: list[str] = []
    for plugin in plugins.found:
        if not plugin.servers and not plugin.inline_servers:
            continue
        if changed := plugin.files.changed():
            problems.append(
                f"the servers of the plugin {plugin.name} are not used: {changed[0]} has changed since you saw it."
            )
            continue
        entries, bad = servers(plugin, env)
        found += entries
        problems += [f"plugin {plugin.name}: {problem}" for problem in bad]
    return found, problems
