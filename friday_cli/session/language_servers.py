"""The language servers of a folder: which there are, those of a session, and those of a command without a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.agents.code_checks import CodeChecks
from friday_cli.config import Settings
from friday_cli.config.loader import text
from friday_cli.core.eventlog.log import Log
from friday_cli.core.protocol.errors import FileError
from friday_cli.core.protocol.events import Notice
from friday_cli.extensions import trust
from friday_cli.system.paths import cache_dir, config_dir
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox.detect import detect_sandbox

from .sandbox import sandbox_policy

if TYPE_CHECKING:
    from friday_cli.lsp.entry import LanguageServerTable
    from friday_cli.lsp.find import FoundServer
    from friday_cli.lsp.pool import LanguageServers

    from .open_context import OpenContext

PROJECT_FILE = ".lsp.json"
MARKERS = {
    "pyproject.toml": ".py", "setup.py": ".py", "requirements.txt": ".py", "tsconfig.json": ".ts", "jsconfig.json": ".js",
    "package.json": ".js", "go.mod": ".go", "go.work": ".go", "Cargo.toml": ".rs", "compile_commands.json": ".c",
}  # fmt: skip
"""Files that say which language a project is in."""


def language_server_table(project: trust.Trust, env: Mapping[str, str]) -> LanguageServerTable:
    """The servers of your `lsp.json`, of plugins, of `.lsp.json` of a trusted project, and the known ones. Blocks."""
    from friday_cli.extensions.plugins.language_servers import server_files
    from friday_cli.lsp.entry import ServerFile, read

    mine = config_dir(env) / "lsp.json"
    try:
        content: bytes | FileError = text(mine).encode()
    except FileError as error:
        content = error
    files = [ServerFile(str(mine), "user", content), *server_files(project, env)]
    sha = project.files.get(PROJECT_FILE) if project.ok else None
    if sha is not None:
        path = project.root / PROJECT_FILE
        files.append(ServerFile(str(path), "project", trust.trusted_content(path, sha)))
    return read(tuple(files))


def code_checks(context: OpenContext, log: Log) -> CodeChecks:
    """What says of the changes of a session what they did to the code, in a trusted folder."""
    settings = context.settings.lsp

    def warn(line: str) -> None:
        log.emit_soon("a", Notice(line, "warning"))

    def make() -> LanguageServers:
        from friday_cli.lsp.pool import LanguageServers

        table = language_server_table(context.trust, context.env)
        for line in table.problems:
            warn(line)
        return LanguageServers(table, settings, context.env, warn)

    has_tool = settings.tool == "on"
    if settings.tool == "auto" and (ends := languages_of(context.cwd)):  # the table is read only where a file says so
        table = language_server_table(context.trust, context.env)
        has_tool = any(servers_of(context.cwd, ends, table, context.env))
    return CodeChecks(make, settings, warn, has_tool=has_tool)


def languages_of(folder: Path) -> list[str]:
    """How the names of files end in the languages that a folder is a project of. Blocks."""
    return sorted({end for name, end in MARKERS.items() if (folder / name).exists()})


def servers_of(
    folder: Path, ends: Sequence[str], table: LanguageServerTable, env: Mapping[str, str]
) -> list[FoundServer | None]:
    """The server for each of these languages; None where none is installed. Blocks."""
    from friday_cli.lsp.find import Folders, servers_for

    found = (servers_for(folder / f"x{end}", Folders(folder, folder), table.entries, env) for end in ends)
    return [next((one for one in some if not one.entry.lints), None) for some in found]


@asynccontextmanager
async def language_servers(
    cwd: Path, settings: Settings, project: trust.Trust, env: Mapping[str, str], report: Callable[[str], None]
) -> AsyncIterator[tuple[LocalWorkspace, LanguageServers]]:
    """A workspace for `cwd` and the servers of its files, which have ended at the end."""
    from friday_cli.lsp.pool import LanguageServers

    choice = await asyncio.to_thread(detect_sandbox, settings.sandbox.kind, env, cache=cache_dir(env), workspace=(cwd,))
    table = await asyncio.to_thread(language_server_table, project, env)
    workspace = LocalWorkspace(cwd, CommandHost(environ=env, sandbox=sandbox_policy(settings, choice, env)))
    servers = LanguageServers(table, settings.lsp, env, report)
    try:
        yield workspace, servers
    finally:
        await servers.close()
        await workspace.close()
