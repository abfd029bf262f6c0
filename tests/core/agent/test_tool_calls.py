"""The calls of a turn: each leaves one result, in call order; and an agent that goes in circles is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from friday_cli.core.eventlog.log import MemoryJournal
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.events import AgentFinished, Envelope, Notice, ToolFinished, ToolStarted
from friday_cli.core.protocol.messages import ToolCall
from friday_cli.core.protocol.provider import Request
from friday_cli.core.protocol.tool import Output, ToolContext
from tests.engine_fixture import Arguments, Bench, Model, Profile, Say, call, make, ran

LOOK = make("look")


async def test_every_call_has_one_result_in_call_order_whatever_became_of_it() -> None:
    async def defect(ctx: ToolContext, args: Arguments) -> str:
        raise KeyError("x")

    async def own_cancel(ctx: ToolContext, args: Arguments) -> str:
        helper = asyncio.ensure_future(asyncio.sleep(9))
        asyncio.get_running_loop().call_later(1, helper.cancel)
        await helper
        return "never"

    wishes = [
        call("look", text="slow", seconds=5),
        call("look", text="it", fail=True),
        call("defect"),
        call("lok"),
        ToolCall("bad", "look", {}, "it is no JSON", "{"),
        call("look", seconds="many"),
        call("own_cancel"),
        call("look"),
    ]
    bench = await ran(
        Model({"a": [Say("", wishes)]}), [LOOK, make("defect", defect), make("own_cancel", own_cancel, effect="net")]
    )
    assert bench.ended()[:2] == ("completed", "done")
    assert [r.call_id for r in bench.root.conversation.history[2].results] == [w.id for w in wishes]
    results = bench.results()
    assert results[:4] == [
        "ok: did slow",
        "error: no it",
        "error: defect failed unexpectedly: KeyError: 'x'",
        "denied: There is no tool 'lok'. Did you mean look?",
    ]
    assert results[4] == "error: The arguments of look could not be read: it is no JSON. Send them again."
    assert results[5].startswith("error: look: bad arguments: Expected `float`")
    assert results[6] == "error: own_cancel failed: a task that it waited for was cancelled."
    assert results[7] == "ok: did "
    assert bench.root.receipt.tools == {"look": 3, "defect": 1, "own_cancel": 1}
    assert bench.root.receipt.failed == 3


async def test_of_very_many_calls_in_one_reply_the_first_are_run_and_the_others_get_an_error() -> None:
    wishes = [call("look", text=str(number)) for number in range(1000)]
    bench = await ran(Model({"a": [Say("", wishes), Say("done")]}), [LOOK])
    assert bench.ended()[:2] == ("completed", "done")
    assert [r.call_id for r in bench.root.conversation.history[2].results] == [w.id for w in wishes]
    results = bench.results()
    assert results[:128] == [f"ok: did {number}" for number in range(128)]
    assert set(results[128:]) == {
        "error: Not run: one reply may have at most 128 tool calls. Send it again if it is still needed."
    }
    assert len(bench.of(ToolStarted)) == 128
    told = "fake/m sent 1,000 tool calls in one reply. Only the first 128 are run."
    assert bench.of(Notice) == [Notice(told, "warning")]


class Disk(MemoryJournal):
    """Knows how much of it a power cut would leave."""

    safe = 0

    def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        done = super().append(envelopes)
        if durable:
            self.safe = len(self.envelopes)
        return done


async def test_what_led_to_a_change_is_safe_from_a_power_cut_before_it_is_made_and_so_is_the_end() -> None:
    disk, seen = Disk(), []

    async def change(ctx: ToolContext, args: Arguments) -> str:
        seen.append((args.text, len(disk.envelopes) - disk.safe))
        return "done"

    tools = [LOOK, make("write", change, effect="write"), make("run", change, effect="run"), make("peek", change)]
    wishes = [call("write", text="write"), call("run", text="run")]
    await ran(Model({"a": [Say("", [call("peek", text="peek")]), Say("I change", wishes)]}), tools, journal=disk)
    assert [name for name, _ in seen] == ["peek", "write", "run"]
    assert seen[0][1] > 0, "looking waits for no disk"
    assert [unsafe for _, unsafe in seen[1:]] == [0, 0]
    assert isinstance(disk.envelopes[disk.safe - 1].event, AgentFinished)


async def test_a_change_that_fails_lets_the_next_one_run() -> None:
    wishes = [call("change", text="x", fail=True), call("change", text="y")]
    bench = await ran(Model({"a": [Say("", wishes)]}), [make("change", effect="write")])
    assert bench.results() == ["error: no x", "ok: did y"]


async def test_calls_in_the_wrap_up_are_not_run_and_its_text_counts() -> None:
    turns = [
        Say("one", [call("look", text="1")]),
        Say("the rest" * 70, [call("look", text="2"), call("look", text="3")]),
    ]
    bench = await ran(Model({"a": turns}), [LOOK], me=Profile(turns=1, time_s=0, tokens=0))
    assert bench.ended() == ("completed", "iterations", "the rest" * 70, False)
    assert len(bench.of(ToolStarted)) == 1
    assert [r.split(":")[0] for r in bench.results()] == ["ok", "cancelled", "cancelled"]


async def test_a_tool_shows_its_output_while_it_runs_and_finishes_once() -> None:
    async def chatty(ctx: ToolContext, args: Arguments) -> Output:
        ctx.emit("one ")
        ctx.emit("two")
        return Output("done", error=True)

    seen = []
    bench = Bench(Model({"a": [Say("", [call("chatty", "c1")])]}), [make("chatty", chatty)])

    async def read() -> None:
        async for envelope in bench.log.events():
            seen.append(envelope.event)

    reader = asyncio.create_task(read())
    await bench.prompt()
    await bench.log.close()
    await reader
    texts = [(e.offset, e.text) for e in seen if type(e).__name__ == "ToolOutput"]
    assert texts in ([(0, "one two")], [(0, "one "), (4, "two")])
    assert [(e.call_id, e.status) for e in seen if isinstance(e, ToolFinished)] == [("c1", "error")]


@pytest.mark.parametrize(("size", "kept"), [(900_000, True), (50_000_000, False)])
async def test_a_very_long_result_becomes_a_file_and_the_model_is_told_its_path(size: int, kept: bool) -> None:
    async def read(ctx: ToolContext, args: Arguments) -> str:
        return "begins" + "é" * (size // 2) + "ends"

    files: list[bytes] = []

    async def keep_output(data: bytes) -> str:
        files.append(data)
        return "/spill/result-1.txt"

    bench = Bench(Model({"a": [Say("", [call("read")]), Say("done")]}), [make("read", read)])
    bench.workspace.keep_output = keep_output  # type: ignore[attr-defined]
    await bench.prompt()
    (result,) = bench.root.conversation.history[2].results
    (finished,) = bench.of(ToolFinished)
    assert finished.text == result.text
    assert result.text.startswith("begins")
    assert result.text.endswith("ends")
    if kept:
        assert files == []
    else:
        assert len(files[0]) == size + 10
        assert len(result.text.encode()) < 101_000
        assert "bytes left out. The full result is in /spill/result-1.txt ...]" in result.text


async def test_a_result_that_cannot_be_saved_is_cut_and_that_is_said() -> None:
    async def read(ctx: ToolContext, args: Arguments) -> str:
        return "x" * 2_000_000

    async def keep_output(data: bytes) -> str:
        raise ToolError("It could not be saved: No space left on device.")

    bench = Bench(Model({"a": [Say("", [call("read")]), Say("done")]}), [make("read", read)])
    bench.workspace.keep_output = keep_output  # type: ignore[attr-defined]
    await bench.prompt()
    assert "It could not be saved: No space left on device. ...]" in bench.root.conversation.history[2].results[0].text


async def test_the_same_calls_with_the_same_results_are_warned_about_and_then_stopped() -> None:
    bench = await ran(Model(lambda request, count: Say("again", [call("look", text="x")])), [LOOK])
    assert bench.ended()[:2] == ("failed", "loop")
    assert len(bench.model.requests) == 5
    notes = [m.text for m in bench.root.conversation.history if m.role == "user" and m.source == "harness"]
    assert len(notes) == 2
    assert "the same calls 3 times" in notes[0]


@pytest.mark.parametrize(("size", "turns"), [(2, 8), (3, 12), (4, 16), (8, 32)])
async def test_calls_that_alternate_with_the_same_results_are_a_loop(size: int, turns: int) -> None:
    bench = await ran(
        Model(lambda request, count: Say("again", [call("look", text="abcdefgh"[count % size])])),
        [LOOK],
        me=Profile(turns=200),
    )
    assert bench.ended()[:2] == ("failed", "loop")
    assert f"same {size} turns of calls" in bench.outcome("a").error
    assert len(bench.model.requests) == turns
    notes = [m.text for m in bench.root.conversation.history if m.role == "user" and m.source == "harness"]
    assert [f"the same {size} turns of calls 3 times" in note for note in notes] == [True], "one warning a round"


@pytest.mark.parametrize(("texts", "turns"), [
    (["page {n}"], 8), (["page {n}", "file\n  a"], 16), (["wait  {n}.5", "wait {n}", "a", "b"], 32),
])  # fmt: skip
async def test_calls_that_differ_in_a_number_or_in_spaces_are_a_loop(texts: list[str], turns: int) -> None:
    def again(request: Request, count: int) -> Say:
        text = texts[count % len(texts)].format(n=count + 7)
        return Say("again", [call("look", text=text.replace(" ", " " * (1 + count % 3)))])

    async def nothing(ctx: ToolContext, args: Arguments) -> str:
        return "no matches"

    bench = await ran(Model(again), [make("look", nothing)], me=Profile(turns=200))
    assert bench.ended()[:2] == ("failed", "loop")
    assert len(bench.model.requests) == turns
    assert "nearly the same" in bench.outcome("a").error
    warned = [m.text for m in bench.root.conversation.history if m.role == "user" and m.source == "harness"]
    assert ["5 times" in note for note in warned] == [True, False, False], "three rounds before it is stopped"


POLL, *LOOKS = (Say("", [call(name, text=text)]) for name, text in (("poll", ""), *(("look", t) for t in "xyz")))


@pytest.mark.parametrize(
    "turns",
    [
        [POLL] * 18,
        [POLL, LOOKS[0]] * 9,
        [*LOOKS[:2] * 3, LOOKS[2], *LOOKS[:2] * 3],
        [Say("", [call("poll", text=f"job 7, wait {n}")]) for n in range(50, 66)],
        [Say("", [call("change", text=f"file {n}")]) for n in range(16)],
        [Say("", [call("look", text=str(n))]) for n in range(16)],
    ],
    ids=[
        "other results",
        "other results in a circle",
        "a circle that is left",
        "other results and numbers",
        "files",
        "pages",
    ],
)
async def test_turns_that_make_progress_are_not_a_loop(turns: list[Say]) -> None:
    lines = iter(range(100))

    async def poll(ctx: ToolContext, args: Arguments) -> str:
        return f"line {next(lines)}"

    async def write(ctx: ToolContext, args: Arguments) -> str:
        return "written"

    bench = await ran(
        Model({"a": [*turns, Say("ready")]}), [make("poll", poll), LOOK, make("change", write, effect="write")]
    )
    assert bench.ended()[:2] == ("completed", "done")


async def test_half_a_character_in_a_result_does_not_end_the_run() -> None:
    """JSON can name one, in a notebook for instance."""

    async def half(ctx: ToolContext, args: Arguments) -> str:
        return "a\ud800b"

    bench = await ran(Model({"a": [Say("", [call("half")]), Say("Seen.")]}), [make("half", half)])
    assert bench.ended()[:2] == ("completed", "done")
    assert bench.results() == ["ok: a?b"]
