"""Runs `friday mcp serve` over standard input and output. Standard output carries protocol messages only."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping
from typing import Any

from mcp.server.stdio import stdio_server

from .serve_settings import ServeSettings
from .server import build_server
from .tools import FridayTools


def serve(values: Mapping[str, Any]) -> int:
    """Serve until standard input ends; returns the exit code. `values`: those of `options.OPTIONS`. A signal ends the process
    with code 0, after the sessions are closed. Raises FridayError for options and settings that cannot be used."""
    settings = ServeSettings.read(values)
    logging.getLogger("mcp").setLevel(logging.ERROR)
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: ServeSettings) -> None:
    host = FridayTools(settings)
    loop, signalled = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    serving = asyncio.create_task(_over_stdio(host))
    waiting = asyncio.create_task(signalled.wait())
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    await host.delegations.close()
    if signalled.is_set():
        os._exit(0)  # the library reads standard input in a thread that nothing can interrupt
    waiting.cancel()
    await serving


async def _over_stdio(host: FridayTools) -> None:
    server = build_server(host)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
