"""Runs `friday mcp serve` over standard input and output. Standard output carries protocol messages only."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from mcp.server.stdio import stdio_server

from .catalog import Catalog
from .server import build_server
from .tools import FridayTools


def serve(values: Mapping[str, Any]) -> int:
    """Serve until standard input ends or a signal comes; returns the exit code. `values`: those of `options.OPTIONS`.
    Raises FridayError for options and settings that cannot be used."""
    catalog = Catalog.read(values)
    logging.getLogger("mcp").setLevel(logging.ERROR)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(catalog))
    return 0


async def _serve(catalog: Catalog) -> None:
    host = FridayTools(catalog)
    server = build_server(host)
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        async with stdio_server() as (received, sent):
            await server.run(received, sent, server.create_initialization_options())
    except asyncio.CancelledError:
        task.uncancel()
    finally:
        await host.delegations.close()
