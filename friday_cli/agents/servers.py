"""The MCP servers of a session, and where their programs run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.core.eventlog.log import Log
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.events import Notice
from friday_cli.system.paths import writable_below
from friday_cli.workspace.process.environment import DEPTH, nesting_depth

if TYPE_CHECKING:
    from friday_cli.mcp.connection import ServerStream
    from friday_cli.mcp.entry import ServerEntry
    from friday_cli.mcp.pool import ServerPool

    from .project_programs import ProjectPrograms
    from .server_effects import ServerEffects

PASSED = ("PATH", "HOME", "LANG", "TERM", "TMPDIR")
"""Variables of ours that a server gets."""


def open_servers(
    entries: Sequence[ServerEntry], programs: ProjectPrograms, log: Log, *, output_chars: int
) -> ServerPool:
    """The servers of a session. `programs` says which of a project's may be started. Nothing is started or connected."""
    from friday_cli.mcp.catalog import CatalogCache  # most sessions have no servers
    from friday_cli.mcp.connection import ConnectionHost
    from friday_cli.mcp.pool import ServerPool

    from .server_effects import ServerEffects

    programs.begin((), entries)
    reporting: set[asyncio.Task[None]] = set()

    async def write(text: str) -> None:
        with suppress(FridayError):  # the session is being closed
            await log.emit("a", Notice(text, "warning"))

    def report(text: str) -> None:
        task = asyncio.create_task(write(text))
        reporting.add(task)
        task.add_done_callback(reporting.discard)

    roots = [root.as_uri() for root in programs.workspace.roots]
    effects = ServerEffects(programs.workspace, report)
    host = ConnectionHost(server_starter(programs, effects), roots=roots, report=report, observed=effects.observed)
    return ServerPool(entries, host, CatalogCache(programs.env), output_chars=output_chars)


def server_starter(
    programs: ProjectPrograms, effects: ServerEffects | None = None
) -> Callable[[ServerEntry], Awaitable[ServerStream]]:
    """A function that starts the program of a stdio server, which ends with the workspace. `effects` looks at what it does to files."""
    workspace, env = programs.workspace, programs.env

    async def start(entry: ServerEntry) -> ServerStream:
        from friday_cli.workspace.process.server import ServerProgram

        await asyncio.to_thread(programs.require, entry)
        passed = {name: env[name] for name in PASSED if name in env}
        environ = passed | entry.env | {DEPTH: str(nesting_depth(env) + 1)}
        cwd = Path(entry.cwd) if entry.cwd else None
        data = Path(entry.env["PLUGIN_DATA"]) if entry.origin == "plugin" else None
        program = ServerProgram(
            (entry.command, *entry.args),
            environ,
            cwd,
            confined=entry.sandbox,
            network=entry.network,
            data=data,
            writes=await asyncio.to_thread(writable_below, workspace.root, entry.writes) if entry.of_project else None,
        )
        if effects is not None:
            await effects.begun(entry)
        ended = None if effects is None else partial(effects.ended, entry)
        return await workspace.serve(program, f"mcp {entry.name}", ended=ended)

    return start
