"""What the fuzz found and is not mended yet; each fails until it is."""

from __future__ import annotations

import pytest

from friday_cli.core.events import AgentFinished
from friday_cli.store.reconcile import closing
from tests.engine import Bench, Model, Say, delegate
from tests.virtual import virtual

from .scene import Scene


@pytest.mark.xfail(strict=True, reason="the end and its news are two writes; a death between them loses the news")
@virtual
async def test_news_of_an_end_survive_a_death_right_after_it() -> None:
    script = {
        "a": [Say("", [delegate("worker", background=True)]), Say("meanwhile")],
        "a.1": [Say("found", delay_s=50)],
    }
    bench = Bench(Model(script))
    await bench.prompt()
    child = bench.tree.node("a.1").task
    assert child
    await child
    log = bench.envelopes
    died = next(n for n, e in enumerate(log, 1) if e.agent == "a.1" and isinstance(e.event, AgentFinished))
    kept = [*log[:died], *closing(log[:died], now=100.0)]
    scene = Scene(1)
    again = Scene(1, kept=kept, before=scene)
    await again.reopen()
    told = [*again.session._notes, *(text for text, _ in again.bench.root.inbox._waiting)]
    assert any("a.1" in text for text in told)
