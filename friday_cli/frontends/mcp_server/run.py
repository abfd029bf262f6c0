"""Runs `friday mcp serve` over standard input and output. Standard output carries protocol messages only."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterable, Mapping
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from friday_cli.system import event_loop
from friday_cli.system.blocked_process import BlockedWatch

from .serve_settings import ServeSettings
from .server import build_server
from .tools import FridayTools


def serve(values: Mapping[str, Any]) -> int:
    """Serve until standard input ends; returns the exit code. `values`: those of `options.OPTIONS`. A signal ends the process
    with code 0, after the sessions are closed. Raises FridayError for options and settings that cannot be used."""
    settings = ServeSettings.read(values)
    logging.getLogger("mcp").setLevel(logging.ERROR)
    event_loop.run(_serve(settings))
    return 0


async def _serve(settings: ServeSettings) -> None:
    host = FridayTools(settings)
    loop, signalled = asyncio.get_running_loop(), asyncio.Event()
    watch = BlockedWatch()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    serving = asyncio.create_task(_over_stdio(host))
    waiting = asyncio.create_task(signalled.wait())
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    watch.stopping(1)
    await host.delegations.close()
    if signalled.is_set():
        os._exit(0)  # the library reads standard input in a thread that nothing can interrupt
    waiting.cancel()
    await serving


async def _over_stdio(host: FridayTools) -> None:
    server = build_server(host)
    async with stdio_server() as (received, sent), anyio.create_task_group() as tasks:
        forward, checked = anyio.create_memory_object_stream[SessionMessage | Exception]()
        tasks.start_soon(_forward, received, forward)
        await server.run(checked, sent, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _forward(
    received: AsyncIterable[SessionMessage | Exception], forward: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    """Hand on what the client sends. An answer that is none, such as one without a result, becomes an error: the library
    drops it, and what was asked would wait for ever."""
    async with forward:
        async for message in received:
            wrong = _answered_id(message) if isinstance(message, Exception) else None
            if wrong is not None:
                error = types.ErrorData(code=types.INVALID_REQUEST, message="The answer has no result.")
                message = SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=wrong, error=error))
            await forward.send(message)


def _answered_id(invalid: Exception) -> int | str | None:
    """The id of the request that an invalid message answers; None if it answers none."""
    problems = invalid.errors() if hasattr(invalid, "errors") else []  # of pydantic, which only the library imports
    for problem in problems:
        found = problem["input"]
        if isinstance(found, dict) and "method" not in found and isinstance(found.get("id"), int | str):
            answered: int | str = found["id"]
            return answered
    return None
