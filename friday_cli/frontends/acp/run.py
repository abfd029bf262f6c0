"""Runs `friday acp` over standard input and output."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from typing import Any

from friday_cli.system.paths import working_folder

from ..options import session_options
from .agent import AcpAgent
from .wire import RpcConnection, claim_stdout


def acp(values: Mapping[str, Any]) -> int:
    """Serve until standard input ends, or a signal comes; returns the exit code. `values`: those of `options.OPTIONS`."""
    sink = claim_stdout()
    asyncio.run(_serve(AcpAgent(session_options(values, working_folder(None), resume=None)), sink))
    return 0


async def _serve(agent: AcpAgent, sink: Any) -> None:
    agent.connection = RpcConnection(sys.stdin.buffer, sink, handle=agent.handle, told=agent.told)
    loop, signalled = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    serving, waiting = asyncio.create_task(agent.connection.serve()), asyncio.create_task(signalled.wait())
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    for task in (serving, waiting):
        task.cancel()
    await asyncio.gather(serving, waiting, return_exceptions=True)
    await agent.close()
