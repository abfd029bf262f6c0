"""Runs `friday acp` over standard input and output."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

from friday_cli.diagnostics.log_file import report_defect
from friday_cli.jsonrpc.connection import RpcConnection
from friday_cli.jsonrpc.framing import Lines
from friday_cli.system.paths import working_folder

from ..options import session_options
from .agent import AcpAgent
from .stdio import StdioChannel, claim_stdout

LONGEST = 64 * 1024 * 1024
"""Bytes of one message."""


def acp(values: Mapping[str, Any]) -> int:
    """Serve until standard input ends, or a signal comes; returns the exit code. `values`: those of `options.OPTIONS`."""
    sink = claim_stdout()
    asyncio.run(_serve(AcpAgent(session_options(values, working_folder(None), resume=None)), sink))
    return 0


def connect(agent: AcpAgent, source: BinaryIO, sink: BinaryIO) -> RpcConnection:
    """The connection of `agent` with the client that writes to `source` and reads from `sink`."""
    agent.connection = RpcConnection(
        StdioChannel(source, sink),
        Lines(LONGEST, most_parts=LONGEST),
        handle=agent.handle,
        told=agent.told,
        report_defect=report_defect,
        cancel=("$/cancel_request", "requestId"),
    )
    return agent.connection


async def _serve(agent: AcpAgent, sink: BinaryIO) -> None:
    connection = connect(agent, sys.stdin.buffer, sink)
    loop, signalled = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    serving, waiting = asyncio.create_task(connection.serve()), asyncio.create_task(signalled.wait())
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    for task in (serving, waiting):
        task.cancel()
    await asyncio.gather(serving, waiting, return_exceptions=True)
    await agent.close()
