"""The language servers of plugins for Claude Code: `lspServers` of the manifest, or `.lsp.json`. They always run in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping

from friday_cli.core.protocol.errors import FileError
from friday_cli.lsp.entry import ServerFile
from friday_cli.system.paths import text_of

from ..trust import Trust
from .find import find_plugins
from .plugin import Plugin


def server_files(project: Trust, env: Mapping[str, str]) -> list[ServerFile]:
    """The files with servers of all plugins of a session. Blocks."""
    plugins = find_plugins(project, env)
    return [server_file(plugin) for plugin in (plugins.found if plugins else ()) if plugin.language_servers]


def server_file(plugin: Plugin) -> ServerFile:
    """The file with the servers of a plugin; an error if it changed since the person saw it."""
    name = text_of(plugin.root / plugin.language_servers)
    try:
        return ServerFile(name, "plugin", plugin.files.content(plugin.language_servers) or b"")
    except FileError as error:
        return ServerFile(name, "plugin", error)
