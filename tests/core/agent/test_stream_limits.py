"""A reply without end is cut near the maximum of its request, and what a broken one costs is what the service told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import Notice
from friday_cli.core.protocol.messages import Message, Text, Usage
from friday_cli.core.protocol.provider import (
    CallChunk,
    Chunk,
    ReplyDone,
    Request,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from tests.engine_fixture import Bench, Model, Profile, Say, call, make, ran, until

BUDGET = 100_000
CUT = "m sent more than the 32,000 tokens that it was allowed. Its reply was cut there."


class Endless(Model):
    """Sends chunks of a kind for ever: 100 tokens each. Two calls at once for `calls`."""

    def __init__(self, kind: str) -> None:
        super().__init__({}, price=1e-6)
        self._kind = kind
        self.sent = 0

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        for number in range(1, 1_000_000):
            self.sent += 100
            if self._kind == "text":
                yield TextChunk("a word " * 85 + "a new")
            elif self._kind == "bytes":
                yield TextChunk("é" * 300)
            elif self._kind == "thinking":
                yield ThinkingChunk("hm, " * 150)
            else:
                yield CallChunk(number % 2, "look", 600 * ((number + 1) // 2))
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("kind", ["text", "bytes", "thinking", "calls"])
@pytest.mark.parametrize("tokens", [BUDGET, 0])
async def test_a_reply_without_end_is_cut_and_the_run_ends(kind: str, tokens: int) -> None:
    model = Endless(kind)
    bench = await ran(model, me=Profile(tokens=tokens, time_s=0))
    end = bench.finished()
    assert bench.of(Notice)[0] == Notice(f"fake/{CUT}", "warning")
    assert len(model.requests) <= 5, "the first, three continuations, and a wrap-up"
    assert model.sent <= 1.11 * sum(request.max_output for request in model.requests)
    assert end.usage.output == pytest.approx(model.sent, rel=0.01)
    assert not tokens or end.usage.billed <= 1.11 * tokens
    assert (end.status, end.partial) == ("failed", True)
    if kind in ("text", "bytes"):
        assert len(end.result.encode()) > 100_000, "what came is kept"
        assert model.requests[1].messages[-2].role == "assistant"


class Told(Model):
    """Tells its input first, most of it read from a cache; then half of its reply, and `end`."""

    def __init__(self, end: str) -> None:
        super().__init__({})
        self._end = end

    def cost(self, usage: Usage) -> float:
        return usage.input * 1e-6 + usage.cache_read * 1e-7 + usage.output * 5e-6

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        yield UsageChunk(Usage(input=50, cache_read=20_000, output=1))
        yield TextChunk("x" * 400)
        if self._end == "cut":
            yield TextChunk("x" * 6 * 36_000)
        elif self._end == "lost":
            raise ProviderError("invalid", "broken")
        await asyncio.sleep(100)
        yield ReplyDone(Message("assistant", (Text("done"),)), Usage(), "end_turn")


@pytest.mark.parametrize(("end", "output"), [("stopped", 100), ("lost", 100), ("cut", 35_200)])
async def test_a_broken_reply_costs_the_input_that_was_told_and_an_estimate_of_what_came(end: str, output: int) -> None:
    model = Told(end)
    bench = Bench(model, me=Profile(time_s=0, tokens=0))
    bench.root.conversation.system = "y" * 80_000
    node = bench.begin()
    await until(lambda: bool(bench.root.usage.context) if end == "cut" else bool(model.requests) or bench.root.turn > 0)
    await bench.tree.stop("a")
    await until(lambda: node.ended)
    times = bench.root.usage.input // 50
    expected = Usage(input=50, cache_read=20_000, output=output, estimated=True)
    assert bench.root.usage.context == times * expected.context
    assert bench.root.usage.cost_usd == pytest.approx(times * model.cost(expected))
    assert bench.root.usage.estimated


@pytest.mark.parametrize(("usage", "words"), [
    (Usage(input=10**9, output=5), "1,000,000,005 tokens"), (Usage(input=10, cache_read=10**9), "1,000,000,010 tokens"),
    (Usage(input=10, output=10**9), "1,000,000,010 tokens"), (Usage(input=10, output=5, searches=10**9), "1,000,000,000 web searches"),
])  # fmt: skip
@pytest.mark.parametrize("fails", [False, True])
async def test_a_usage_that_is_not_possible_is_estimated_and_reported_once(
    usage: Usage, words: str, fails: bool
) -> None:
    failure = ProviderError("invalid", "broken", usage=usage) if fails else None
    replies = [Say("", [call("look")], usage=usage), Say("done", usage=usage, fail=failure)]
    bench = await ran(Model({"a": replies}, price=1e-6), [make("look")], me=Profile(tokens=BUDGET, time_s=0))
    end = bench.finished()
    assert (end.status, end.result) == ("failed" if fails else "completed", "done")
    assert end.usage.estimated
    assert end.usage.context < 5000, "two short requests, estimated"
    assert end.usage.searches == 0
    assert bench.root.budget.tokens.spent == end.usage.billed
    told = f"fake/m reported impossible usage: {words} for one request. Friday estimates the usage instead."
    assert bench.of(Notice) == [Notice(told, "warning")]


async def test_a_usage_of_the_whole_window_and_reply_is_believed() -> None:
    usage = Usage(input=200_000, output=32_000)
    bench = await ran(Model({"a": [Say("done", usage=usage)]}), me=Profile(tokens=0, time_s=0))
    assert (bench.finished().usage.context, bench.of(Notice)) == (232_000, [])


class Silent(Model):
    """Takes the request and says nothing."""

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        await asyncio.sleep(1_000)
        yield ReplyDone(Message("assistant", ()), Usage(), "end_turn")


async def test_a_request_that_is_stopped_before_its_first_byte_is_charged_by_estimate() -> None:
    model = Silent({}, price=1e-6)
    bench = Bench(model, me=Profile(time_s=0, tokens=0))
    bench.root.conversation.system = "y" * 80_000
    node = bench.begin()
    await until(lambda: bool(model.requests))
    await bench.tree.stop("a")
    await until(lambda: node.ended)
    usage = bench.root.usage
    assert usage.estimated
    assert 15_000 < usage.input < 30_000
    assert usage.output == 0
    assert usage.cost_usd > 0
