"""Sessions that a Python program opens: prompts, events, delegations under one budget, cancellation."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import friday_cli.api as friday
from friday_cli.core.protocol.events import AgentStarted
from friday_cli.system.paths import config_dir
from friday_cli.view import SessionView
from tests.session.harness import Harness, delegates, does, says

USED = {"usage": {"input": 1000, "output": 100}}
WAITS = does(("bash", {"command": "sleep 60"}))
OFF = {"mode": "yolo"}


def given(harness: Harness, **more: Any) -> friday.OpenOptions:
    """The options of a session with the scripted model."""
    return {"cwd": harness.project, "model": f"scripted:{harness.scenario}", **more}  # type: ignore[typeddict-item]


async def given_tool() -> None: ...


async def test_run_returns_the_answer_with_its_tree(harness: Harness) -> None:
    harness.plays(
        {
            "a": [{**delegates("general"), **USED}, {"text": '```json\n{"n": 3}\n```', **USED}],
            "a.1": [{**does(("bash", {"command": "touch x"})), **USED}, {"text": "three", **USED}],
        }
    )
    schema: dict[str, object] = {"type": "object", "required": ["n"]}
    result = await friday.run("Count.", schema=schema, **given(harness))
    assert (result.ok, result.status, result.reason, result.data) == (True, "completed", "done", {"n": 3})
    (child,) = result.agents
    assert (child.agent, child.profile, child.text, child.usage.billed) == ("a.1", "general", "three", 2200)
    assert (result.usage.billed, result.receipt.tools) == (4400, {"delegate_task": 1})
    assert [(denied.agent, denied.tool) for denied in result.denials] == [("a.1", "bash")]
    assert SessionView.of(await harness.log(result.session)).root is not None  # in the same store as every session


async def test_a_prompt_gives_its_events_and_its_result(harness: Harness) -> None:
    harness.plays({"a": [says("one"), says("two")]})
    async with friday.open(**given(harness)) as session:
        assert (await session.prompt("first")).text == "one"
        second = session.prompt("second")
        with pytest.raises(friday.UsageError, match="A prompt is running"):
            session.prompt("third")
        events = [envelope.event async for envelope in second]
        assert [event.run for event in events if isinstance(event, AgentStarted)] == [2]
        assert isinstance(events[-1], friday.events.AgentFinished)
        assert (await second).text == "two"
        assert session.view.agents["a"].run == 2
        name = session.id
    harness.plays({"a": [says("three")]})
    async with friday.open(**given(harness, resume=name[:8])) as session:
        assert ((await session.prompt("more")).text, session.id) == ("three", name)


async def test_delegations_run_side_by_side_without_a_request_of_the_main_agent(harness: Harness) -> None:
    first, second = harness.project / "1", harness.project / "2"

    def meets(own: Any, other: Any) -> dict[str, Any]:
        wait = f"touch {own}; until test -e {other} || test $SECONDS -ge 20; do sleep 0.01; done; test -e {other}"
        return {**does(("bash", {"command": wait})), **USED}

    harness.plays(
        {
            "a.1": [meets(first, second), {"text": "met", **USED}],
            "a.2": [meets(second, first), {"text": "met", **USED}],
            "a": [{"text": "I heard of both.", **USED}],
        }
    )
    async with friday.open(**given(harness, max_tokens=40_000, **OFF)) as session:
        found = await asyncio.gather(*(session.delegate("general", f"meet {n}") for n in (1, 2)))
        assert [(one.agent, one.text, one.receipt.commands[0].exit_code) for one in found] == [
            ("a.1", "met", 0),
            ("a.2", "met", 0),
        ]
        assert (session.view.agents["a"].usage.billed, session.view.agents["a"].run) == (0, 2)
        answer = await session.prompt("What happened?")
        assert (answer.text, answer.usage.billed) == ("I heard of both.", 5500)
        model = session.view.agents["a"].model
    starts = [e.event for e in await harness.log(session.id) if e.agent == "a" and isinstance(e.event, AgentStarted)]
    assert {start.model for start in starts} == {model}


async def test_one_budget_holds_for_all_delegations(harness: Harness) -> None:
    harness.plays({"a.*": [{"text": "part", "usage": {"input": 4_000, "output": 100}}]})
    async with friday.open(**given(harness, max_tokens=20_000)) as session:
        why = ""
        while not why:
            try:
                assert (await session.delegate("general", "look")).usage.billed == 4100
            except friday.UsageError as error:
                why = str(error)
        assert "tokens budget of a is used up" in why
        assert 4100 < session.view.totals.billed <= 20_000


async def test_the_cost_of_one_delegation_is_limited(harness: Harness) -> None:
    turn = {**does(("list_dir", {"path": "."})), "usage": {"input": 4_000}}
    play = {"agents": {"a.*": [turn, {**turn, "calls": [], "text": "done"}]}, "price": {"input": 10.0}}
    harness.scenario.write_text(json.dumps(play), encoding="utf-8")
    async with friday.open(**given(harness, max_cost=5.0)) as session:
        cheap = await session.delegate("general", "look", max_cost=0.05)
        assert (cheap.reason, cheap.cost) == ("cost", 0.04)
        assert (await session.delegate("general", "look")).text == "done"  # the limit was that of the first


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"profile": "nobody"}, "nobody"),
        ({"profile": "", "resume": "a.7"}, "no sub-agent 'a.7'"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"schema": {"type": "nonsense"}}, "JSON schema is not valid"),
    ],
    ids=["profile", "resume", "limit", "schema"],
)
async def test_a_delegation_that_cannot_start_says_why(harness: Harness, more: dict[str, Any], error: str) -> None:
    async with friday.open(**given(harness)) as session:
        with pytest.raises(friday.UsageError, match=error):
            await session.delegate(**{"profile": "general", "task": "look", **more})


async def test_a_sub_agent_is_resumed_with_data(harness: Harness) -> None:
    harness.plays({"a.1": [says("noted"), says('{"word": "blue"}')]})
    async with friday.open(**given(harness)) as session:
        child = await session.delegate("general", "Remember blue.")
        again = await session.delegate("", "Which word?", resume=child.agent, schema={"type": "object"})
        assert (again.agent, again.data) == ("a.1", {"word": "blue"})


@pytest.mark.parametrize("what", ["prompt", "events", "delegate", "leave"])
async def test_cancelling_leaves_nothing(harness: Harness, what: str) -> None:
    harness.plays({"a": [WAITS], "a.1": [WAITS]})
    before = asyncio.all_tasks()
    async with friday.open(**given(harness, **OFF)) as session:

        async def work() -> object:
            if what == "delegate":
                return await session.delegate("general", "wait")
            if what == "events":
                return [envelope async for envelope in session.prompt("wait")]
            return await session.prompt("wait")

        task = asyncio.create_task(work())
        async for envelope in session.events():
            if isinstance(envelope.event, friday.events.ToolStarted) and envelope.event.tool == "bash":
                break
        if what != "leave":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert session.view.agents["a.1" if what == "delegate" else "a"].ended
            assert not list(session.view.working)
    if what == "leave":
        assert (await asyncio.wait_for(task, 20)).status == "cancelled"  # type: ignore[attr-defined]
    assert asyncio.all_tasks() == before


async def test_a_prompt_can_be_stopped_before_its_run_begins(harness: Harness) -> None:
    harness.plays({"a": [WAITS], "a.1": [says("part")]})
    async with friday.open(**given(harness, **OFF)) as session:
        first = session.prompt("wait")
        await session.stop()
        assert (await asyncio.wait_for(first, 20)).status == "cancelled"
        delegation = asyncio.create_task(session.delegate("general", "look"))
        await asyncio.sleep(0)
        second = session.prompt("wait")  # begins when the sub-agent was started
        await session.stop()
        assert (await asyncio.wait_for(second, 20)).status == "cancelled"
        await asyncio.gather(delegation, return_exceptions=True)


async def test_a_delegation_that_waits_for_a_permission_can_be_cancelled(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("friday_cli.api.open_session.START_S", 0.01)
    config_dir().mkdir(parents=True)
    (config_dir() / "config.toml").write_text('permissions.ask = ["delegate_task"]\n', encoding="utf-8")
    async with friday.open(**given(harness, attended=True)) as session:
        task = asyncio.create_task(session.delegate("general", "look"))
        async for envelope in session.events():
            if isinstance(envelope.event, friday.events.PermissionAsked):
                break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    with pytest.raises(friday.UsageError, match="is closed"):
        session.prompt("go")
    with pytest.raises(friday.UsageError, match="is closed"):
        await session.delegate("general", "look")


async def test_a_program_can_answer_as_the_person(harness: Harness) -> None:
    harness.plays({"a": [does(("bash", {"command": "touch x"}), ("ask_user", {"question": "Which?"})), says("done")]})
    async with friday.open(**given(harness, attended=True)) as session:
        run = session.prompt("go")
        async for envelope in run:
            match envelope.event:
                case friday.events.PermissionAsked(id=ask):
                    with pytest.raises(friday.UsageError):
                        await session.answer(ask, "perhaps")
                    assert await session.answer(ask, "allow")
                case friday.events.QuestionAsked(id=ask):
                    assert await session.answer(ask, "the blue one")
        assert (await run).ok
    results = await harness.results(session.id, "a")
    assert [status for status, _ in results] == ["ok", "ok"]
    assert "the blue one" in results[1][1]
    assert (harness.project / "x").exists()


async def test_twenty_sessions_in_one_process(harness: Harness) -> None:
    harness.plays(
        {"a": [{**delegates("general"), **USED}, {"text": "done", **USED}], "a.1": [{"text": "part", **USED}]}
    )
    results = await asyncio.gather(*(friday.run(f"Task {n}.", **given(harness)) for n in range(20)))
    assert {(one.text, one.usage.billed, len(one.agents)) for one in results} == {("done", 3300, 1)}
    assert len({one.session for one in results}) == 20


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"modell": "x"}, "There is no option 'modell'"),
        ({"allow": "bash"}, "allow: expected a list"),
        ({"mode": "yollo"}, "'yollo' is not one of ask, "),
        ({"deny": ["bsh"]}, "Did you mean bash"),
        ({"resume": "00000000"}, "00000000"),
        ({"hooks": {"PreTool": []}}, "Did you mean PreToolUse"),
        ({"hooks": {"PreToolUse": print}}, "PreToolUse needs a list"),
        ({"tools": [print]}, "made by `tool`"),
        ({"tools": [friday.tool(description="x")(given_tool)] * 2}, "the same name"),
    ],
)
async def test_a_wrong_option_is_named(harness: Harness, options: dict[str, Any], error: str) -> None:
    with pytest.raises(friday.UsageError, match=error):
        await friday.run("go", **given(harness, **options))


def test_scripts_need_no_event_loop(harness: Harness) -> None:
    harness.plays({"a": [says("one")], "a.1": [says("part")]})
    assert friday.sync.run("go", **given(harness)).text == "one"
    with friday.sync.open(**given(harness)) as session:
        assert session.delegate("general", "look").text == "part"
        assert session.prompt("go").text == "one"


async def test_a_script_in_an_event_loop_is_told(harness: Harness) -> None:
    with pytest.raises(friday.UsageError, match="An event loop runs here"):
        friday.sync.run("go", **given(harness))
    with pytest.raises(friday.UsageError, match="An event loop runs here"), friday.sync.open(**given(harness)):
        pass
