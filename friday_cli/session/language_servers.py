"""The language servers of a folder: which there are, and a pool of them for a person without a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.config import Settings
from friday_cli.core.protocol.errors import FileError
from friday_cli.extensions import trust
from friday_cli.system.paths import cache_dir, config_dir
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox.detect import detect_sandbox

from .sandbox import sandbox_policy

if TYPE_CHECKING:
    from friday_cli.lsp.entry import LanguageServerTable, ServerFile
    from friday_cli.lsp.pool import LanguageServers

PROJECT_FILE = ".lsp.json"


def language_server_table(project: trust.Trust, env: Mapping[str, str]) -> LanguageServerTable:
    """The servers of your `lsp.json`, of `.lsp.json` of a trusted project, and the known ones. Blocks."""
    from friday_cli.lsp.catalog import KNOWN
    from friday_cli.lsp.entry import ServerFile, read

    files: list[ServerFile] = []
    mine = config_dir(env) / "lsp.json"
    try:
        files.append(ServerFile(str(mine), "user", mine.read_bytes()))
    except FileNotFoundError:
        pass
    except OSError as error:
        files.append(ServerFile(str(mine), "user", FileError(str(mine), f"cannot be read: {error.strerror}.")))
    sha = project.files.get(PROJECT_FILE) if project.ok else None
    if sha is not None:
        path = project.root / PROJECT_FILE
        files.append(ServerFile(str(path), "project", trust.trusted_content(path, sha)))
    return read(tuple(files), KNOWN)


@asynccontextmanager
async def language_servers(
    cwd: Path, settings: Settings, project: trust.Trust, env: Mapping[str, str], report: Callable[[str], None]
) -> AsyncIterator[tuple[LocalWorkspace, LanguageServers]]:
    """A workspace for `cwd` and the servers of its files, which have ended at the end."""
    from friday_cli.lsp.pool import LanguageServers

    choice = await asyncio.to_thread(detect_sandbox, settings.sandbox.kind, env, cache=cache_dir(env), workspace=(cwd,))
    workspace = LocalWorkspace(cwd, environ=env, sandbox=sandbox_policy(settings, choice, env))
    try:
        table = await asyncio.to_thread(language_server_table, project, env)
        servers = LanguageServers(table, settings.lsp, env, report)
        try:
            yield workspace, servers
        finally:
            await servers.close()
    finally:
        await workspace.close()
