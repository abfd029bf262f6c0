"""A hundred children on five places in one session, kept on disk: memory stays flat, and every result is there."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, StatusChanged
from friday_cli.core.protocol.provider import Chunk, Request
from tests.delegation.harness import Actors, Harness, until
from tests.engine_fixture import Say, batch, call

HEAVY = 32_000
"""Bytes of a file that every child reads, and has in its conversation as long as it lives."""


@pytest.fixture
def disk(tmp_path: Path) -> Harness:
    """A harness whose sessions are kept in the real store."""
    harness = Harness(tmp_path)
    harness.config("[agents.delegation]\nask_above = 1000\n")
    harness.file("heavy.txt", ("0123456789abcde" * 10 + "\n") * (HEAVY // 151))
    return harness


async def test_a_hundred_children_on_five_places(disk: Harness) -> None:
    used: list[int] = []

    def play(request: Request, count: int) -> Say:
        if request.agent != "a":
            number = request.agent.partition(".")[2]
            return Say("", [call("read_file", path="heavy.txt")]) if count == 0 else Say(f"child {number} has read it")
        model.requests.clear()
        gc.collect()
        used.append(tracemalloc.get_traced_memory()[0])
        tasks = [{"profile": "researcher", "task": f"read it, number {count * 10 + n}"} for n in range(1, 11)]
        return Say("", [batch(*tasks)]) if count < 10 else Say("all read")

    class Together(Actors):
        """The first five answer only when all of them were asked."""

        async def stream(self, request: Request) -> AsyncIterator[Chunk]:
            async for chunk in super().stream(request):
                if request.agent in ("a.1", "a.2", "a.3", "a.4", "a.5"):
                    await until(lambda: self.most_at_once >= 5)
                yield chunk

    model = Together(play)
    async with disk.open(model) as s:
        tracemalloc.start(1)
        try:
            outcome = await s.session.prompt("go")
        finally:
            tracemalloc.stop()
        assert outcome.text == "all read"
        assert model.most_at_once >= 5
        first, last = used[1], used[-1]
        assert last - first < 10 * HEAVY, (
            f"{(last - first) / 1000:.0f} kB more for ninety children: they are not let go of"
        )

        known = s.tree.below("a")
        assert [k.path for k in known] == [f"a.{n}" for n in range(1, 101)]
        assert [k.end and k.end.text for k in known] == [f"child {n} has read it" for n in range(1, 101)]
        envelopes = await s.session.history()

    started = [e.agent for e in envelopes if isinstance(e.event, AgentStarted)]
    ended = [e.agent for e in envelopes if isinstance(e.event, AgentFinished)]
    assert sorted(started) == sorted(ended) == sorted(["a", *(f"a.{n}" for n in range(1, 101))])
    assert any(isinstance(e.event, StatusChanged) and depth_of(e.agent) for e in envelopes)
    results = [r.text for m in replay(envelopes)["a"].history for r in m.results]
    assert all(f"child {n} has read it" in results[(n - 1) // 10] for n in range(1, 101))

    again = Actors({"a": [Say("", [call("get_delegation_result", id=f"a.{n}") for n in range(1, 101)]), Say("fin")]})
    async with disk.open(again, resume=s.session.id) as s:
        await s.session.prompt("all of them, please")
        texts = [r.text for r in again.requests[-1].messages[-1].results]
        assert all(f"child {n} has read it" in text for n, text in enumerate(texts, 1)), "a later process has them, too"
