"""Signals that end commands."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from friday_cli.cli.map import watch_signals
from friday_cli.frontends.oneshot.signals import SignalHandler


class Watch:
    """Stands for `BlockedWatch`, which would end the process of the tests."""

    def stopping(self, code: int) -> None:
        """Nothing is blocked here."""


class Batch:
    """Stands for a run of `friday map`, and for what shows it."""

    at_service = 0

    def __init__(self) -> None:
        self.stopped = asyncio.Event()

    def interrupt(self, reason: str) -> None:
        """No item starts any more."""

    def withdraw(self) -> bool:
        """It asks nothing."""
        return False

    async def stop(self) -> None:
        self.stopped.set()


async def ask() -> int:
    handler = SignalHandler()
    handler.watch(lambda code: None)
    try:
        await twice(asyncio.Event())
    except asyncio.CancelledError:
        return handler.code
    raise AssertionError("it was not cancelled")


async def run_batch() -> int:
    batch: Any = Batch()
    code = watch_signals(batch, batch)
    await twice(batch.stopped)
    return int(code())


async def twice(end: asyncio.Event) -> None:
    """As `timeout` does: to the process, and to its group."""
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        await end.wait()


@pytest.mark.parametrize("command", [ask, run_batch])
def test_the_same_signal_at_once_counts_once(command: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "_exit", killed.append)
    monkeypatch.setattr("friday_cli.cli.map.BlockedWatch", Watch)
    assert (asyncio.run(command()), killed) == (143, [])
