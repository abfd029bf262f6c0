"""A connection to one MCP server for a person, without a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from friday_cli.agents.project_programs import ProjectPrograms
from friday_cli.agents.servers import server_starter
from friday_cli.config import Settings
from friday_cli.extensions.trust import is_trusted
from friday_cli.mcp.connection import ConnectionHost, ServerConnection
from friday_cli.mcp.entry import ServerEntry
from friday_cli.system.paths import cache_dir
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox.detect import detect_sandbox

from .sandbox import sandbox_policy


@asynccontextmanager
async def server_connection(
    entry: ServerEntry, cwd: Path, settings: Settings, env: Mapping[str, str], report: Callable[[str], None]
) -> AsyncIterator[ServerConnection]:
    """A connection to the server as a session in `cwd` would have it; `report` shows one line. It is opened by the first
    request, and closed at the end with the server's process. Raises UsageError for a sandbox that does not work here."""
    sandbox = None
    if entry.sandbox:
        choice = await asyncio.to_thread(
            detect_sandbox, settings.sandbox.kind, env, cache=cache_dir(env), workspace=(cwd,)
        )
        sandbox = sandbox_policy(settings, choice, env)
    workspace = LocalWorkspace(cwd, CommandHost(environ=env, sandbox=sandbox))
    try:
        project = await asyncio.to_thread(is_trusted, cwd, env=env)
        programs = ProjectPrograms(project, workspace, env, unconfined=sandbox is None)
        host = ConnectionHost(server_starter(programs), roots=[cwd.as_uri()], report=report)
        connection = ServerConnection(entry, host)
        try:
            yield connection
        finally:
            await connection.close()
    finally:
        await workspace.close()
