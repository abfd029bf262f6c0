"""The agent loop: how a run continues and how it ends. Every row of the status table in the contract has a case here or in
`test_stopping`, `test_retries` and `test_delegation`."""

from __future__ import annotations

import asyncio
import re

import pytest

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.errors import PROCESS_LIMIT, ProviderError
from friday_cli.core.protocol.messages import LEFT_OUT, Usage
from friday_cli.core.protocol.provider import Request
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.protocol.tool import ToolContext
from tests.engine_fixture import Arguments, Bench, Model, Profile, Say, call, make, others, ran, task_result, until
from tests.strict import strict

LOOK = make("look")


async def test_used_and_free_context_are_known_at_every_turn() -> None:
    usage = Usage(input=1000, output=50)
    model = Model({"a": [Say("", [call("look", text="x" * 400)], usage=usage), Say("done", usage=usage)]}, window=9000)
    bench = await ran(model, [LOOK])
    first, second = bench.of(ev.TurnStarted)
    assert first.context > 0, "an estimate: nothing was counted yet"
    assert 1050 < second.context < 1300, "the last reply's tokens, and an estimate of the result that came since"
    assert [e.context for e in bench.of(ev.TurnFinished)] == [1050, 1050]
    assert {e.window for e in (*bench.of(ev.TurnStarted), *bench.of(ev.TurnFinished))} == {9000}


@pytest.mark.parametrize(("fail", "end"), [(False, ("completed", "done")), (True, ("failed", "reported"))])
async def test_task_result_ends_the_run_with_its_text(fail: bool, end: tuple[str, str]) -> None:
    wishes = [call("look", text="x"), call("task_result", text="all of it", fail=fail)]
    bench = await ran(Model({"a": [Say("on my way", wishes)]}), [LOOK, task_result()])
    assert bench.ended() == (*end, "all of it", False)
    assert bench.results() == ["ok: did x", "ok: Noted."], "the other calls of the reply were run, too"
    assert len(bench.model.requests) == 1


@pytest.mark.parametrize(("wrap", "end"), [
    (Say("so far: 3"), ("completed", "iterations", "so far: 3", False)),
    (Say("", [call("look")]), ("failed", "iterations", "one\n\ntwo", True)),
    (Say("I refuse", stop="refusal"), ("failed", "iterations", "one\n\ntwo\n\nI refuse", True)),
])  # fmt: skip
async def test_turns_used_up(wrap: Say, end: tuple[str, ...]) -> None:
    turns = [Say("one", [call("look", text="1")]), Say("two", [call("look", text="2")]), wrap, wrap]
    bench = await ran(Model({"a": turns}), [LOOK], me=Profile(turns=2, time_s=0, tokens=0))
    assert bench.ended() == end
    assert bench.finished().limit_of == "a"
    twice = ["none"] if wrap.calls else []
    assert [r.tool_choice for r in bench.model.requests] == ["auto", "auto", "auto", *twice], "the cache holds"
    assert all(r.tools == bench.root.conversation.specs for r in bench.model.requests), "the prefix holds"
    assert [e.wrap_up for e in bench.of(ev.TurnStarted)] == [False, False, True, *map(bool, twice)]


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(("tokens", "cost"), [(20_000, None), (0, 0.02)])
async def test_results_are_cut_to_what_the_budget_can_read(tokens: int, cost: float | None, cached: bool) -> None:
    """One reply reads more than all that is left: what was kept for the wrap-up would not pay for sending that."""

    async def read(ctx: ToolContext, args: Arguments) -> str:
        return f"{args.text} begins" + "é" * int(args.text) + "ends"

    turns = [
        Say("", [call("read", text=n) for n in ("20", "40000", "60000")], usage=Usage(input=900, cached=cached)),
        Say("what I have"),
    ]
    bench = await ran(
        Model({"a": turns}, price=1e-6), [make("read", read)], me=Profile(tokens=tokens, cost=cost, time_s=0)
    )
    assert bench.ended() == ("completed", "tokens" if tokens else "cost", "what I have", False)
    small, *large = bench.root.conversation.history[2].results
    assert small.text == f"20 begins{'é' * 20}ends"
    for result in large:
        assert re.fullmatch(
            r"\d+ beginsé+\n\[truncated: the budget cannot pay for the rest of this result\]\né+ends", result.text
        )
    assert len(large[0].text) == pytest.approx(len(large[1].text), abs=4), "each has its share"
    assert 12_500 < bench.of(ev.TurnStarted)[-1].context < 14_500, "most of it is used, and the wrap-up's part is left"


async def test_tokens_used_up_and_none_left_for_a_wrap_up() -> None:
    big = Say("a start", [call("look")], usage=Usage(input=10, output=50_000))
    bench = await ran(Model({"a": [big]}), [LOOK], me=Profile(tokens=20_000, time_s=0))
    assert bench.ended() == ("failed", "tokens", "a start", True)
    assert bench.finished().error.startswith("No wrap-up")


@pytest.mark.parametrize(("delay_s", "result", "wall_s"), [(20, "the rest", 30), (31, "trying", 40)])
async def test_active_time_used_up_stops_a_tool(delay_s: float, result: str, wall_s: float) -> None:
    turns = [Say("trying", [call("look", text="x", seconds=100)]), Say("the rest", delay_s=delay_s)]
    bench = await ran(Model({"a": turns}), [LOOK], me=Profile(time_s=10, tokens=0))
    assert bench.ended() == ("timeout", "time", result, result == "trying")
    assert bench.results() == ["cancelled: Stopped before it was done."]
    assert (bench.finished().limit_of, bench.finished().wall_s) == ("a", pytest.approx(wall_s))


async def test_time_used_up_while_the_model_writes_keeps_what_it_wrote() -> None:
    class Slow(Model):
        async def stream(self, request: Request):  # type: ignore[no-untyped-def]
            async for chunk in super().stream(request):
                yield chunk
                await asyncio.sleep(6)

    bench = await ran(
        Slow({"a": [Say("half an answer"), Say("", [call("x")]), Say("", [call("x")])]}), me=Profile(time_s=7, tokens=0)
    )
    assert bench.ended() == ("timeout", "time", "half an answer", True)
    assert [m.role for m in bench.root.conversation.history] == [
        "user",
        "assistant",
        "user",
        *["assistant", "tool"] * 2,
    ]


async def test_a_refusal_is_said_and_not_tried_again() -> None:
    bench = await ran(Model({"a": [Say("I will not", [call("look")], stop="refusal", note="policy: weapons")]}), [LOOK])
    assert bench.ended() == ("failed", "refusal", "I will not", True)
    assert bench.of(ev.ToolStarted) == [], "its calls are not run"
    assert [m.text for m in bench.root.conversation.history] == [LEFT_OUT], "every later request would be refused, too"
    assert replay(bench.envelopes)["a"].history == bench.root.conversation.history
    assert "policy: weapons" in bench.finished().error
    assert len(bench.model.requests) == 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ZeroDivisionError("oh"), "Friday itself failed: ZeroDivisionError: oh"),
        (RuntimeError("can't start new thread"), PROCESS_LIMIT),
    ],
)
async def test_friday_itself_fails(error: Exception, words: str) -> None:
    bench = await ran(Model({"a": [Say("so far", fail=error)]}))
    assert bench.ended()[:2] == ("interrupted", "process")
    assert bench.finished().error == words
    assert await others() == []


async def test_a_refusal_without_text_leaves_no_empty_message_in_the_history() -> None:
    bench = await ran(Model({"a": [Say("", stop="refusal"), Say("gladly")]}))
    assert (await bench.prompt("something else")).text == "gladly"
    assert strict(bench.model.requests[1].messages) == []


async def test_a_pause_of_the_server_is_continued() -> None:
    bench = await ran(Model({"a": [Say("searching", stop="pause_turn"), Say("found")]}))
    assert bench.ended() == ("completed", "done", "found", False)
    assert [m.role for m in bench.model.requests[1].messages] == ["user", "assistant"]


async def test_a_message_in_the_last_turn_waits_for_a_separate_run() -> None:
    bench = Bench(Model({"a": [Say("the answer", delay_s=2)]}), me=Profile(turns=1, time_s=0, tokens=0))
    bench.begin()
    await asyncio.sleep(1)
    await bench.root.inbox.put(ev.InboxMessage("and the other?", "person"))
    await until(lambda: len(bench.of(ev.AgentFinished, "a")) == 2)
    assert [(e.run, e.status, e.stop_reason, e.result) for e in bench.of(ev.AgentFinished, "a")] == [
        (1, "completed", "done", "the answer"),
        (2, "completed", "done", "done"),
    ]
    assert bench.requests()[-1].messages[-1].text == "and the other?"


async def test_what_is_said_is_in_the_log_before_it_is_acted_upon() -> None:
    bench = await ran(Model({"a": [Say("x", [call("look", "c1")]), Say("y")]}), [LOOK])
    kinds = [type(e.event).__name__ for e in bench.envelopes]
    assert kinds == [
        "AgentStarted", "Prefix", "MessageAdded", "TurnStarted", "Requested", "MessageAdded", "TurnFinished", "ToolStarted",
        "ToolFinished", "MessageAdded", "TurnStarted", "Requested", "MessageAdded", "TurnFinished", "AgentFinished",
    ]  # fmt: skip
    assert [e.message for e in bench.of(ev.MessageAdded)] == bench.root.conversation.history
    assert [e.turn for e in bench.of(ev.TurnFinished)] == [1, 2]


async def test_each_run_has_its_own_turns_and_reserve_and_the_same_history() -> None:
    bench = Bench(Model(lambda request, count: Say(f"answer {count}")), me=Profile(turns=1, tokens=20_000, time_s=0))
    for number in range(3):
        assert (await bench.prompt(f"question {number}")).text == f"answer {number}"
        assert bench.root.budget.tokens.holdback == 0
    ends = bench.of(ev.AgentFinished)
    assert [(e.run, e.status, e.stop_reason) for e in ends] == [(n, "completed", "done") for n in (1, 2, 3)]
    assert len(bench.model.requests[2].messages) == 5
    assert [e.usage.input for e in ends] == [10, 20, 30], "usage counts over the agent's life"


async def test_the_wrap_up_of_a_later_run_is_paid_for_too() -> None:
    def play(request: Request, count: int) -> Say:
        if count == 0:
            return Say("hello")
        return Say(
            "x", [call("look", text=str(count))], usage=Usage(output=min(request.max_output, 1500)), wrap_up="the rest"
        )

    bench = await ran(Model(play), [LOOK], me=Profile(turns=99, tokens=20_000, time_s=0))
    await bench.prompt()
    assert bench.outcome("a") == RunResult("completed", "tokens", "the rest", "", "a")


async def test_an_end_is_written_even_where_the_machine_fails() -> None:
    bench = Bench(Model({"a": [Say("done")]}))

    async def release(agent: str) -> tuple[str, ...]:
        raise OSError("no such process")

    bench.workspace.release = release  # type: ignore[method-assign]
    await bench.prompt()
    assert bench.ended()[:2] == ("completed", "done")
    assert [e.text for e in bench.of(ev.Notice)] == ["Processes of a may be left: no such process"]


async def test_what_was_said_before_a_failure_stays_in_the_conversation() -> None:
    broken = ProviderError("invalid", "it broke")
    bench = Bench(Model({"a": [Say("half of it", fail=broken), Say("the rest")]}))
    assert (await bench.prompt()).text == "half of it"
    assert (await bench.prompt("go on")).text == "the rest"
    assert [m.text for m in bench.requests("a")[-1].messages] == ["go", "half of it", "go on"]
    assert [e.message.text for e in bench.of(ev.MessageAdded)] == ["go", "half of it", "go on", "the rest"]
