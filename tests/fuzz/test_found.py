"""Bugs that the fuzz found, each reproduced in a few lines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from friday_cli.core.eventlog.log import MemoryJournal
from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import AgentFinished, Detached, Envelope, InboxMessage, Notice
from friday_cli.core.protocol.messages import Thinking
from friday_cli.core.subagents.node import SubagentTask
from friday_cli.store.crash_recovery import recovery_events
from tests.engine_fixture import Bench, Model, Say, call, delegate, make, ran, until
from tests.fuzz.scenario import Scene
from tests.virtual import virtual


async def reopened(log: list[Envelope], died: int) -> Scene:
    """The session of the next process, from the first `died` events of a log."""
    kept = [*log[:died], *recovery_events(log[:died], now=100.0)]
    scene = Scene(1, kept=kept, before=Scene(1))
    await scene.reopen()
    return scene


def told(scene: Scene) -> list[InboxMessage]:
    """The waiting messages of the root about a.1."""
    return [waiting for waiting in scene.bench.root.inbox._waiting if "a.1" in waiting.text]


def end_of(log: list[Envelope], path: str) -> int:
    """The length of the log up to the newest end of an agent."""
    return max(n for n, e in enumerate(log, 1) if e.agent == path and isinstance(e.event, AgentFinished))


async def behind_its_back(*, detached: bool) -> list[Envelope]:
    """The log of a session whose only child ended in the background."""
    script = {
        "a": [Say("", [delegate("worker", background=not detached)]), Say("meanwhile"), Say("so it found it")],
        "a.1": [Say("found", delay_s=50)],
    }
    bench = Bench(Model(script))
    node = bench.begin()
    if detached:
        await until(lambda: bench.requests("a.1") != [])
        await bench.tree.detach("a.1")
    await node.finished()
    child = bench.node("a.1").task
    assert child
    await child
    again = bench.node("a").task
    assert again
    await again
    assert len(bench.of(Detached)) == detached
    return bench.envelopes


@pytest.mark.parametrize("detached", [False, True])
@virtual
async def test_news_of_an_end_survive_a_death_right_after_it(detached: bool) -> None:
    log = await behind_its_back(detached=detached)
    scene = await reopened(log, end_of(log, "a.1"))
    (news,) = told(scene)
    assert "The background sub-agent a.1 (worker) has ended: completed (done)" in news.text


@virtual
async def test_they_are_told_once_wherever_the_process_dies() -> None:
    log = await behind_its_back(detached=False)
    begun = end_of(log, "a.1")
    for died in range(begun, len(log) + 1):
        scene = await reopened(log, died)
        heard = [m.text for m in scene.bench.root.conversation.history if m.role == "user" and "a.1" in m.text]
        assert len(heard) + len(told(scene)) == 1, f"died at {died}"
        whole = scene.bench.envelopes
        twice = await reopened(whole, len(whole))
        assert len(heard) + len(told(twice)) == 1, f"died at {died}, and again"


@virtual
async def test_news_that_an_agent_did_not_live_to_pass_on_reach_the_root_of_the_next_process() -> None:
    script = {
        "a": [Say("", [delegate("worker")]), Say("so be it")],
        "a.1": [Say("", [delegate("worker", "count", background=True)]), Say("mine", delay_s=50)],
        "a.1.1": [Say("found", delay_s=20)],
    }
    bench = Bench(Model(script))
    bench.profiles["worker"].offers = ("worker",)
    bench.profiles["worker"].turns = 2
    await bench.prompt()
    log = bench.envelopes
    (inbox,) = [n for n, e in enumerate(log) if e.agent == "a.1" and isinstance(e.event, InboxMessage)]
    died = end_of(log, "a.1")
    assert inbox < died
    scene = await reopened(log, died)
    (news,) = [waiting for waiting in scene.bench.root.inbox._waiting if "a.1.1" in waiting.text]
    assert "has ended: completed" in news.text


@virtual
async def test_thinking_that_was_dropped_with_a_model_does_not_come_back_when_a_child_is_continued_again() -> None:
    """The second run uses another model, as after a fallback; the third finds the prefix of that model in the log."""
    bench = await ran(Model({"a": [Say("", [delegate("worker")]), Say("so")], "a.1": [Say("found", thinking="hm")]}))
    bench.model = other = Model({}, model="other")
    for text in ("again", "and again"):
        node = await bench.tree.resumer.resume("a.1", SubagentTask("worker", text), by=None)
        await node.finished()
    second, third = other.requests
    assert third.messages[: len(second.messages)] == second.messages
    record = replay(bench.envelopes)["a.1"]
    assert record.history == bench.agents["a.1"].conversation.history


class Slow(MemoryJournal):
    """Takes a second to store an event about a fallback."""

    def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        kept = super().append(envelopes)
        if not any(isinstance(e.event, Notice) and "fallback" in e.event.text for e in envelopes):
            return kept
        later: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(1.0, later.set_result, None)
        return later


@virtual
async def test_a_stop_in_the_middle_of_a_change_to_the_fallback_model_leaves_no_thinking_of_the_old_one() -> None:
    failing = [Say(fail=ProviderError("overloaded", "busy")) for _ in range(6)]
    spare = Model({"a": [Say("all I have")]}, model="spare")
    bench = Bench(
        Model({"a": [Say("", [call("look")], thinking="hm"), *failing]}), [make("look")], fallback=spare, journal=Slow()
    )
    node = bench.begin()
    await until(lambda: any("fallback" in n.text for n in bench.of(Notice)))
    await bench.tree.stop("a", level="cancel", why="cancelled")
    assert node.outcome.text == "all I have"
    assert not [p for r in spare.requests for m in r.messages for p in m.parts if isinstance(p, Thinking)]
    assert replay(bench.envelopes)["a"].history == bench.root.conversation.history


@virtual
async def test_the_end_of_a_child_that_a_person_continued_is_told_after_a_death_too_and_wakes_nobody() -> None:
    bench = await ran(Model({"a": [Say("", [delegate("worker")]), Say("so")], "a.1": [Say("found"), Say("more")]}))
    node = await bench.tree.resumer.resume("a.1", SubagentTask("worker", "look again"), by=None)
    await node.finished()
    log = bench.envelopes
    scene = await reopened(log, end_of(log, "a.1"))
    begun, ended = told(scene)
    assert begun.quiet
    assert ended.quiet
    assert "which the user continued, has ended: completed (done)" in ended.text
    assert not scene.bench.root.inbox.needs_turn
