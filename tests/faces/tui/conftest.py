"""Pilots that know when the app has come to rest."""

from __future__ import annotations

import asyncio

import pytest
import textual.app
import textual.pilot

from friday_cli.faces.tui import agents

ROUNDS = 3
"""Rounds of the event loop without anything to do, after which the app rests."""


@pytest.fixture(autouse=True)
def _at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual takes it for rest when the process takes little time of the processor, which it does not on a busy machine
    either, and waits up to a second where a thread works: here the event loop tells. A second press counts as one
    however late it comes."""
    for module in (textual.app, textual.pilot):
        monkeypatch.setattr(module, "wait_for_idle", rest)
    monkeypatch.setattr(agents, "AGAIN_S", 60.0)


async def rest(min_sleep: float = 0.0, max_sleep: float = 0.0) -> None:
    """Returns when nothing is left to be done, and a moment has passed for what comes by timers."""
    await asyncio.sleep(0.01)
    loop, idle = asyncio.get_running_loop(), 0
    while idle < ROUNDS:
        await asyncio.sleep(0)
        idle = 0 if loop._ready else idle + 1  # type: ignore[attr-defined]
