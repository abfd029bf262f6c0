"""Making room once: the task and the children stay word for word, and what does not fit ends in clear words."""

from __future__ import annotations

from typing import Any

import pytest

from friday_cli.core.agent.agent import Policy
from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import Compacted, InboxMessage, MessageAdded, Prefix
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Request
from tests.engine_fixture import Bench, Model, Profile, Say, call, delegate, make, ran
from tests.strict import strict

LOOK = make("look")


def is_summary(request: Request) -> bool:
    return any("Write a summary" in message.text for message in request.messages[-3:])


class Talkative(Model):
    """Every turn adds `grow` tokens of context; a summary is short. `fail_at`: the context is full from so many tokens."""

    def __init__(self, turns: int, *, window: int = 20_000, grow: int = 4000, summary: Say | None = None) -> None:
        super().__init__(self._say, window=window)
        self._turns, self._grow, self._summary = turns, grow, summary or Say("I looked at five files.")
        self.summaries = 0
        self.normal = 0

    def _say(self, request: Request, count: int) -> Say:
        if is_summary(request):
            self.summaries += 1
            return self._summary
        self.normal += 1
        size = sum(len(m.text) + sum(len(r.text) for r in m.results) for m in request.messages) // 4
        usage = Usage(input=size, output=10, cached=False)
        if self.normal > self._turns:
            return Say("done", usage=usage)
        return Say(f"turn {self.normal}", [call("look", text=f"{self.normal}:" + "x" * self._grow * 4)], usage=usage)


async def test_near_the_end_of_the_window_the_history_becomes_a_summary_once() -> None:
    model = Talkative(12, grow=1500)
    bench = Bench(model, [LOOK])
    assert (await bench.prompt("find the bug in parser.py")).status == "completed"
    (event,) = bench.of(Compacted)
    assert model.summaries == 1
    assert event.before > 0.85 * 20_000 > event.after
    after = next(r for n, r in enumerate(model.requests) if n and is_summary(model.requests[n - 1]))
    assert after.messages == event.messages
    assert "I looked at five files." in after.messages[0].text
    assert (after.messages[1].text, after.messages[1].source) == ("find the bug in parser.py", "person")
    assert len(bench.of(Prefix)) == 2
    assert len(bench.of(MessageAdded)) > 10, "the full history stays in the log"
    index = next(i for i, r in enumerate(model.requests) if is_summary(r))
    before, asked = model.requests[index - 1], model.requests[index]
    assert (asked.system, asked.tools, asked.tool_choice) == (before.system, before.tools, "auto")
    assert asked.messages[: len(before.messages)] == before.messages
    assert strict(asked.messages) == []


async def test_after_a_compaction_the_model_is_told_what_is_left_of_its_budget() -> None:
    model = Talkative(12, grow=1500)
    bench = Bench(model, [LOOK], me=Profile(tokens=300_000, time_s=0, turns=50))
    assert (await bench.prompt("find the bug")).status == "completed"
    at = next(n for n, request in enumerate(model.requests) if is_summary(request))
    assert {(r.task_tokens, r.task_left) for r in model.requests[: at + 1]} == {(300_000, 0)}
    ((total, left),) = {(r.task_tokens, r.task_left) for r in model.requests[at + 1 :]}
    assert (total, 0 < left < 300_000) == (300_000, True)


async def test_the_users_words_survive_any_number_of_compactions() -> None:
    model = Talkative(30)
    bench = Bench(model, [LOOK], me=Profile(turns=99, time_s=0, tokens=0))
    await bench.prompt("find the bug, but touch nothing under vendor/")
    assert len(bench.of(Compacted)) > 2
    for event in bench.of(Compacted):
        words = [m.text for m in event.messages]
        assert words.count("find the bug, but touch nothing under vendor/") == 1
    record = replay(bench.envelopes)["a"]
    assert record.history == bench.root.conversation.history
    assert strict(record.history) == []


async def test_a_child_makes_room_too_and_keeps_its_task() -> None:
    class Busy(Talkative):
        def _say(self, request: Request, count: int) -> Say:
            if request.agent == "a":
                return Say("", [delegate("worker", "count the commas")]) if count == 0 else Say("thanks")
            return super()._say(request, count)

    bench = await ran(Busy(6), [LOOK])
    (event,) = bench.of(Compacted, "a.1")
    assert "count the commas" in "".join(m.text for m in event.messages)
    assert bench.finished("a.1").status == "completed"


class Full(Model):
    """Says "context full" where more than `most` messages come (its own window figure being wrong)."""

    def __init__(self, most: int, *, stop: bool = False, always: bool = False) -> None:
        super().__init__(self._say)
        self._most, self._stop, self._always = most, stop, always

    def _say(self, request: Request, count: int) -> Say:
        if is_summary(request) and not self._always:
            return Say("a summary")
        if len(request.messages) > self._most or self._always:
            return Say("", stop="context") if self._stop else Say(fail=ProviderError("context", "too long", status=413))
        return Say("done") if count > 5 else Say("", [call("look", text=str(count))])


@pytest.mark.parametrize("stop", [False, True])
async def test_a_provider_that_says_full_is_believed_and_the_request_is_sent_again(stop: bool) -> None:
    bench = Bench(Full(4, stop=stop), [LOOK])
    outcome = await bench.prompt()
    assert (outcome.status, outcome.text) == ("completed", "done")
    assert bench.of(Compacted)
    assert all(strict(r.messages) == [] for r in bench.model.requests)


@pytest.mark.parametrize("stop", [False, True])
async def test_what_does_not_fit_even_then_ends_in_clear_words_and_no_loop(stop: bool) -> None:
    bench = Bench(Full(0, stop=stop, always=True), [LOOK])
    outcome = await bench.prompt()
    assert (outcome.status, outcome.stop_reason) == ("failed", "context")
    assert "context" in outcome.error.lower() or "too long" in outcome.error
    assert len(bench.model.requests) <= 4


async def test_a_summary_that_is_itself_too_long_ends_the_run() -> None:
    """The first one is refused, so half the window is left for the second; the message beside it takes as much."""

    class Long(Talkative):
        def _say(self, request: Request, count: int) -> Say:
            said = super()._say(request, count)
            refused = is_summary(request) and self.summaries == 1
            return Say(fail=ProviderError("context", "too long")) if refused else said

    model = Long(9, summary=Say("word " * 8000))
    bench = Bench(model, [LOOK])
    outcome = await bench.prompt("x" * 38_000)
    assert (outcome.status, outcome.stop_reason) == ("failed", "context")
    assert "does not fit" in outcome.error
    assert model.summaries == 2


async def test_a_model_that_gives_no_summary_ends_the_run_and_loses_nothing() -> None:
    bench = Bench(Talkative(9, summary=Say("", [call("look")])), [LOOK])
    outcome = await bench.prompt()
    assert (outcome.status, outcome.stop_reason) == ("failed", "context")
    assert "turn 1" in outcome.text
    assert bench.of(Compacted) == []
    assert replay(bench.envelopes)["a"].history == bench.root.conversation.history


async def test_a_first_message_that_is_too_long_is_not_compacted_for_ever() -> None:
    bench = Bench(Model({}, window=5000), [LOOK])
    outcome = await bench.prompt("x" * 400_000)
    assert (outcome.status, outcome.stop_reason) == ("failed", "context")
    assert len(bench.model.requests) <= 2


class Counting(Talkative):
    """Its service counts `tokens` in every request, or with None refuses to count."""

    def __init__(self, turns: int, tokens: int | None, **more: Any) -> None:
        super().__init__(turns, **more)
        self.counted: list[Request] = []
        self._tokens = tokens

    async def count_tokens(self, request: Request) -> int:
        self.counted.append(request)
        if self._tokens is None:
            raise ProviderError("not_found", "no such address")
        return self._tokens


@pytest.mark.parametrize(("tokens", "compacted"), [(14_000, 0), (19_000, 1), (None, 1)])
async def test_where_the_estimate_decides_the_service_is_asked_to_count(tokens: int | None, compacted: int) -> None:
    """One result of 18,500 tokens, by the estimate, is what would make the conversation too long."""
    model = Counting(1, tokens, grow=18_500)
    bench = Bench(model, [LOOK])
    assert (await bench.prompt()).status == "completed"
    assert (len(bench.of(Compacted)), model.summaries) == (compacted, compacted)
    asked = model.counted[0]
    assert (asked.system, asked.tools) == (model.requests[0].system, model.requests[0].tools)
    assert asked.messages == tuple(event.message for event in bench.of(MessageAdded)[:3])


async def test_what_the_last_reply_told_is_not_counted_again() -> None:
    model = Counting(14, 10_000, grow=1500)
    bench = await ran(model, [LOOK])
    assert len(bench.of(Compacted)) == 1
    assert len(model.counted) == 1, "once above the mark by the estimate, then by what the service itself had told"


async def test_a_long_first_message_is_sent_where_the_service_counts_that_it_fits() -> None:
    for tokens, end in ((10_000, "completed"), (24_000, "failed")):
        model = Counting(0, tokens)
        outcome = await Bench(model, [LOOK]).prompt("x" * 100_000)
        assert outcome.status == end, outcome
        assert model.counted
    assert "The message does not fit the window of fake/m: 24000 tokens" in outcome.error
    assert model.requests == []


async def test_the_cost_of_summaries_is_counted_in_memory_and_in_the_log() -> None:
    model = Talkative(6, summary=Say("short", usage=Usage(input=1000, output=100, cached=False)))
    bench = await ran(model, [LOOK])
    assert bench.of(Compacted)[0].usage.billed == 1100
    whole = bench.finished().usage
    cut = [e for e in bench.envelopes if type(e.event).__name__ != "AgentFinished"]
    assert replay(cut)["a"].usage == whole


async def test_compaction_can_be_set_earlier() -> None:
    bench = await ran(Talkative(3), [LOOK], policy=Policy(compact_at=0.3))
    assert bench.of(Compacted)


async def test_compaction_keeps_a_steering_message_as_the_request() -> None:
    bench = Bench(Talkative(8), [LOOK])
    node = bench.begin("the first wish")
    await bench.root.inbox.put(InboxMessage("no: the second wish", "person"))
    await node.finished()
    assert "no: the second wish" in "".join(m.text for m in bench.of(Compacted)[0].messages)
