"""The bug classes of the field's deepest peer, from its change log: each is a test here, or one that
docs/requirements.md names. The number is the row of its table of bug classes."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sqlite3
import subprocess
import time
from contextlib import closing as closing_at_end
from contextlib import suppress
from typing import Any, get_args

import pytest

from friday_cli.core.eventlog.log import Subscription
from friday_cli.core.eventlog.replay import replay
from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import ErrorKind, ProviderError
from friday_cli.core.protocol.events import AgentStarted, Compacted, PermissionAsked, TextDelta, ToolStarted
from friday_cli.core.protocol.messages import ToolCall, Usage
from friday_cli.core.protocol.provider import Request
from friday_cli.core.protocol.run_result import ENDED
from friday_cli.store.crash_recovery import recovery_events
from friday_cli.view import SessionView
from tests.delegation.harness import Actors, Harness, until
from tests.e2e.conftest import friday
from tests.e2e.friday import Friday
from tests.engine_fixture import Say, batch, call, delegate

__all__ = ["friday"]


def behind(profile: str, task: str) -> ToolCall:
    return delegate(profile, task, background=True)


@pytest.mark.parametrize("kind", get_args(ErrorKind))
async def test_1_a_failure_is_never_reported_as_success(harness: Harness, kind: ErrorKind) -> None:
    def play(request: Request, count: int) -> Say:
        if request.agent == "a":
            return Say("", [delegate("researcher", "look")]) if count == 0 else Say("I see")
        if count == 0:
            return Say("first finding", [call("todo", items=[])])
        return Say("second find", fail=ProviderError(kind, "the service said no"))

    s = await harness.ran(play)
    end = s.finished("a.1")
    assert end.status == "failed"
    assert end.stop_reason in ("provider", "context", "refusal")
    assert (end.partial, bool(end.error)) == (True, True)
    (read,) = s.results()
    assert read.startswith("error: ## Result from 'researcher' (a.1): failed (")
    assert "first finding" in read
    assert "second find" in read
    assert "error: " in read.splitlines()[1]


async def test_1_nothing_is_made_up_for_a_child_that_still_works(harness: Harness) -> None:
    script = {
        "a": [
            Say("", [behind("researcher", "look")]),
            Say("", [call("get_delegation_result", id="a.1")]),
            Say("w"),
            Say("fin"),
        ],
        "a.1": [Say("the truth", delay_s=50)],
    }
    s = await harness.ran(script)
    assert s.results()[1] == "ok: a.1 (researcher) has no result yet: running."


ENDS = {"provider": "failed", "iterations": "failed", "tokens": "failed", "time": "timeout", "cancelled": "cancelled",
        "aborted": "cancelled", "parent": "cancelled", "loop": "failed", "reported": "failed", "supervision": "failed",
        "process": "interrupted"}  # fmt: skip
"""Every way not to succeed, where the wrap-up fails as well."""


@pytest.mark.parametrize("reason", ENDS)
async def test_2_partial_work_is_never_lost(harness: Harness, reason: str) -> None:
    supervised = reason == "supervision"
    harness.profile(
        "worker",
        "maxIterations: 3" if reason == "iterations" else "maxIterations: 50",
        "timeout: 30",
        "maxTokenBudget: 15000",
        *(["supervision: supervised"] if supervised else []),
    )

    def play(request: Request, count: int) -> Say:
        if request.agent == "a":
            seen = Say("I see", delay_s=0 if reason != "parent" else 99)
            return seen if count else Say("", [delegate("worker", "look")])
        if supervised:
            return Say("the finding, I changed it", usage=Usage(input=10)) if count else Say("{}")
        if count == 0:
            return Say("the finding", [call("todo", items=[{"text": "x"}])])
        if request.text_only:
            return Say("", fail=ProviderError("auth", "no wrap-up"))
        step = [call("todo", items=[{"text": f"step {count}"}])]
        match reason:
            case "provider":
                return Say("", fail=ProviderError("auth", "no"))
            case "tokens":
                return Say("", step, usage=Usage(input=10, output=3000, cache_read=1))
            case "loop":
                return Say("", [call("todo", items=[{"text": "again"}])])
            case "reported":
                return Say("", [call("task_result", result="the finding is all I got", status="error")])
            case "iterations":
                return Say("", step)
        return Say("", step, delay_s=1000)

    async with harness.open(play) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        if reason in ("cancelled", "aborted", "parent", "process"):
            await until(lambda: len(s.requests("a.1")) == 2)
            match reason:
                case "cancelled":
                    await s.session.stop("a.1", level="cancel")
                case "aborted":
                    await s.session.stop("a.1")
                case "parent":
                    await s.session.stop("a")
                case _:
                    s.crash()
                    await s.session.close()
        await asking
    asks = {"a": [Say("", [call("get_delegation_result", id="a.1")]), Say("fin")]}
    async with harness.open(asks, resume=s.session.id) as s:
        end = s.finished("a.1")
        assert (end.status, end.stop_reason) == (ENDS[reason], reason)
        assert "the finding" in end.result
        await s.session.prompt("what was it?")
        again = s.results()[-1]
        assert "the finding" in again, "the result can be had again in a later process"
        assert "delegate_id: a.1" in again, "with the id by which its whole conversation is shown and continued"
        assert any("the finding" in m.text or "the finding" in str(m.calls) for m in s.record("a.1").history)


@pytest.mark.parametrize("top", ["a", "a.1"])
async def test_3_a_stop_is_final_cascades_and_survives_a_restart(harness: Harness, top: str) -> None:
    harness.profile("lead", 'subAgents: "*"', "allowedTools: []")
    harness.profile("deep", 'subAgents: "*"', "allowedTools: []")

    def play(request: Request, count: int) -> Say:
        if request.agent == "a":
            return Say("", [behind("lead", "for ever")], delay_s=0.5) if count == 0 else Say("begun")
        other = "deep" if request.agent.count(".") % 2 else "lead"
        return Say("", [behind(other, f"child {count} of the tree, born late"), call("todo", items=[])], delay_s=0.5)

    async with harness.open(play) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: len(s.agents()) > 6)
        living = len(s.tree.running(top))
        assert await s.session.stop(top) == living > 1
        below = [p for p in s.agents() if is_under(p, top)]
        assert all(s.finished(p).status == "cancelled" for p in below if s.finished(p).stop_reason == "parent")
        assert s.tree.running(top) == []
        count, born = len(s.requests()), len(s.agents())
        calls = len([r for r in s.model.requests if is_under(r.agent, "a.1")])
        await asyncio.sleep(100_000)
        await asking
        assert len(s.agents()) == born, "no grandchild is born late"
        assert len([r for r in s.model.requests if is_under(r.agent, "a.1")]) == calls
        assert len(s.requests()) - count <= (1 if top == "a.1" else 0), "only a parent that lives is told"
    async with harness.open({}, resume=s.session.id) as s:
        await asyncio.sleep(100_000)
        assert s.model.requests == []
        assert all(k.status in ENDED for k in s.tree.below("a"))


async def test_4_no_agent_is_left_running_wherever_the_process_dies(harness: Harness) -> None:
    harness.file("x.txt", "x\n")
    harness.profile("lead", 'subAgents: "*"', "supervision: supervised")
    script = {
        "a": [Say("", [delegate("lead", "x"), behind("researcher", "y")]), Say("a"), Say("b")],
        "a.1": [
            Say("{}"),
            Say("", [delegate("researcher", "deep"), call("read_file", path="x.txt")]),
            Say("lead"),
            Say('{"verdict": "accept"}'),
        ],
        "*": [Say("", [call("read_file", path="x.txt")], delay_s=2), Say("found", delay_s=2)],
    }
    s = await harness.ran(script)
    envelopes = list(s.envelopes)
    for length in range(1, len(envelopes)):
        log = [*envelopes[:length]]
        log += recovery_events(log, now=1e9)
        for record in replay(log).values():
            assert record.end is not None
            assert record.status in ENDED
            assert record.asks == {}
        assert all(agent.ended for agent in SessionView.of(log).agents.values() if agent.run), "people see the same"


async def test_4_no_exception_leaves_a_row_open(harness: Harness) -> None:
    raised: dict[str, Any] = {
        "a.2": KeyError("unheard of"),
        "a.3": ProviderError("auth", "no"),
        "a.4": asyncio.CancelledError(),
        "a.5": TimeoutError(),
    }

    def play(request: Request, count: int) -> Say:
        if request.agent == "a":
            parts = [{"profile": "researcher", "task": f"part {n}"} for n in range(6)]
            return Say("", [batch(*parts)]) if count == 0 else Say("fin")
        if request.agent == "a.1":
            raise RuntimeError("a defect of the provider")
        return Say("fine", fail=raised.get(request.agent))

    s = await harness.ran(play)
    ends = ["interrupted", "interrupted", "failed", "cancelled", "interrupted", "completed"]
    assert [s.finished(p).status for p in s.agents()] == ends
    assert s.end("a") == ("completed", "done")
    assert "fine" in s.results()[0]


async def test_6_questions_of_many_children_queue_by_name_and_a_no_stops_nobody(harness: Harness) -> None:
    harness.profile("worker", "allowedTools: [write_file]")
    script = {
        "a": [Say("", [batch(*[{"profile": "worker", "task": f"write {n}"} for n in range(4)])]), Say("fin")],
        **{
            f"a.{n}": [Say("", [call("write_file", path=f"{n}.txt", content="x")]), Say(f"end of {n}")]
            for n in range(1, 5)
        },
    }
    async with harness.open(script, mode="ask", attended=True) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: len(s.asked()) == 4)
        askers = {e.agent: e.event for e in s.envelopes if isinstance(e.event, PermissionAsked)}
        assert sorted(askers) == ["a.1", "a.2", "a.3", "a.4"], "all stand open together, each with its asker"
        assert {e.subject for e in askers.values()} == {"1.txt", "2.txt", "3.txt", "4.txt"}
        came = [e.agent for e in s.envelopes if isinstance(e.event, PermissionAsked)]
        assert [a.agent for a in SessionView.of(s.envelopes).asks.values()] == came, "in the order in which they came"
        for path, event in sorted(askers.items(), reverse=True):
            assert isinstance(event, PermissionAsked)
            await s.session.answer(
                event.id, ApprovalAnswer("deny", reason="not this one") if path == "a.2" else ApprovalAnswer("allow")
            )
        await asking
        assert {s.end(p) for p in askers} == {("completed", "done")}
        assert s.results("a.2")[0].startswith("denied: The user denied this write_file call: not this one")
        assert sorted(p.name for p in harness.project.iterdir()) == ["1.txt", "3.txt", "4.txt"]


TOOLS = ["read_file", "list_dir", "write_file", "edit_file", "web_fetch", "memory_save", "todo"]
ARGUMENTS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "x.txt"}, "list_dir": {"path": "."},
    "write_file": {"path": "y.txt", "content": "y"}, "edit_file": {"path": "x.txt", "edits": [{"old": "x", "new": "z"}]},
    "web_fetch": {"url": "http://127.0.0.1:9/"}, "memory_save": {"text": "x"}, "todo": {"items": []},
}  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
async def test_7_every_call_of_a_child_is_within_its_parents_and_its_profiles_rights(
    harness: Harness, seed: int
) -> None:
    rng = random.Random(seed)
    harness.file("x.txt", "x\n")
    allowed = {n: rng.sample(TOOLS, rng.randint(2, 6)) for n in (1, 2, 3)}
    denied = rng.choice(TOOLS)
    for depth in (1, 2, 3):
        below = [f"subAgents: [p{depth + 1}]"] if depth < 3 else []
        harness.profile(f"p{depth}", f"allowedTools: {json.dumps(allowed[depth])}", "memory: tagged", *below)

    def play(request: Request, count: int) -> Say:
        depth = request.agent.count(".")
        if depth == 0:
            return Say("", [delegate("p1", "go down")]) if count == 0 else Say("fin")
        if count == 0:
            return Say(
                "",
                [
                    ToolCall(f"{request.agent}-{n}", name, arguments)
                    for n, (name, arguments) in enumerate(ARGUMENTS.items())
                ],
            )
        if count == 1 and depth < 3:
            return Say("", [delegate(f"p{depth + 1}", "go further down, please")])
        return Say("ok")

    s = await harness.ran(play, deny=(denied,))
    for envelope in s.envelopes:
        if isinstance(envelope.event, ToolStarted) and envelope.event.tool in ARGUMENTS:
            depth = envelope.agent.count(".")
            for level in range(1, depth + 1):
                assert envelope.event.tool in allowed[level] or envelope.event.tool == "todo" in allowed[level]
            assert envelope.event.tool != denied
    for path in s.agents():
        start = s.of(AgentStarted, path)[0]
        above = s.of(AgentStarted, path.rpartition(".")[0])[0]
        assert set(start.tools) - {"task_result"} <= set(above.tools)


async def test_8_compaction_keeps_the_ids_of_living_and_unread_children(harness: Harness) -> None:
    def play(request: Request, count: int) -> Say:
        if request.agent != "a":
            return Say("found", delay_s=3000 if request.agent == "a.1" else 1)
        if "Write a summary" in request.messages[-1].text:
            return Say("We sent helpers.")
        if count == 0:
            return Say("", [behind("general", "the long one"), behind("researcher", "the short one")])
        return (
            Say(
                "",
                [call("todo", items=[{"text": f"{count} " + "x" * 250}])],
                usage=Usage(input=count * 2000),
                delay_s=1,
            )
            if count < 8
            else Say("fin")
        )

    harness.profile("general", "timeout: 5000")
    async with harness.open(Actors(play, window=16_000, max_output=2000)) as s:
        s.session.start("go")
        await until(lambda: s.of(Compacted, "a"))
        texts = "\n".join(m.text for m in s.of(Compacted, "a")[0].messages)
        for words in ("a.1 (general): running. Task: the long one", "a.2 (researcher): ", "Task: the short one"):
            assert words in texts
        await until(lambda: s.tree.node("a").ended)
        await s.session.stop("a")


async def test_10_fifty_children_with_two_thousand_events_each_leave_little_behind(harness: Harness) -> None:
    chunks = 2000
    harness.config("[agents.delegation]\nask_above = 1000\n")

    class Chatty(Actors):
        async def stream(self, request: Request) -> Any:
            from friday_cli.core.protocol.provider import TextChunk

            if request.agent != "a":
                for number in range(chunks):
                    yield TextChunk(f"{number} ")
                    if number % 50 == 0:
                        await asyncio.sleep(0.01)
            async for chunk in super().stream(request):
                yield chunk

    tasks = [batch(*[{"profile": "researcher", "task": f"{n}.{m}"} for m in range(10)]) for n in range(5)]
    model = Chatty({"a": [Say("", [t]) for t in tasks] + [Say("fin")], "*": [Say("the end")]})
    async with harness.open(model) as s:
        slow = Subscription()  # a reader that never comes to read
        s.session._log._readers.append(slow)
        state = SessionView()
        live = 0

        async def pump() -> None:
            nonlocal live
            async for envelope in s.session.events():
                state.apply(envelope)
                live += isinstance(envelope.event, TextDelta)

        pumping = asyncio.ensure_future(pump())
        await s.session.prompt("go")
        durable = len(s.envelopes)
        assert len(slow._queue) <= durable + 50 * (1 + chunks * 5 // 16_000 + 1), (
            "what waits for a slow reader is merged"
        )
        assert durable < 50 * 30, "and what is kept does not grow with the chunks"
        await s.session._log.flush()
        await asyncio.sleep(1)
        assert live >= 50
        assert all(state.agents[p].reply is None for p in s.agents()), "nothing of the deltas stays in what is shown"
        s.session._log._readers.remove(slow)
        await s.session.close()
        await pumping


PLAY = """
agents:
  a:
    - calls: [{name: delegate_task, arguments: {profile: researcher, task: noisy, background: true}},
              {name: delegate_tasks, arguments: {tasks: [{profile: researcher, task: one}, {profile: ghost, task: two}, {profile: researcher, task: three}]}}]
    - text: first answer
    - text: last answer
  a.1:
    - {text: "chatter <b>on</b> stdout?", calls: [{name: list_dir, arguments: {path: .}}], chunk_delay_s: 0.01}
    - {text: noisy end, delay_s: 0.1}
  a.2:
    - {text: half, fail: {kind: auth, message: no key}}
  a.3:
    - {text: three}
"""


def test_11_the_json_of_a_run_with_children_is_one_document(friday: Friday) -> None:
    friday.plays(PLAY)
    ran = friday.json("go")
    assert ran.code == 0
    document = ran.document
    assert document["result"] == "last answer"
    assert {a["path"]: a["status"] for a in document["agents"]} == {
        "a": "completed",
        "a.1": "completed",
        "a.2": "failed",
        "a.3": "completed",
    }
    agents = {a["path"]: a for a in document["agents"]}
    three, broken = agents["a.3"], agents["a.2"]
    assert three["id"] == f"{document['session_id']}:a.3"
    assert (three["result"], three["result_chars"], three["partial"], three["error"]) == ("three", 5, False, None)
    assert broken["partial"]
    assert "no key" in broken["error"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_11_nor_does_killing_it_with_children_at_work_break_it_or_hang(
    friday: Friday, number: signal.Signals, code: int
) -> None:
    friday.plays(
        PLAY.replace("noisy end, delay_s: 0.1", "never, delay_s: 600").replace(
            "text: three}", "text: never, delay_s: 600}"
        ),
    )
    process = friday.start("go", "--output-format", "json", stderr=subprocess.PIPE)
    _wait_for(friday, "a.3")
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == code
    document = json.loads(out)
    assert out.count(b"\n") == 1
    ends = {a["path"]: a["status"] for a in document["agents"] if a["path"] != "a.2"}  # which may have failed already
    assert ends == {"a": "cancelled", "a.1": "cancelled", "a.3": "cancelled"}


def _wait_for(friday: Friday, agent: str) -> None:
    """Until the log of the running session says that an agent has started."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for file in friday.home.rglob("friday.db"):
            with (
                suppress(sqlite3.OperationalError),
                closing_at_end(sqlite3.connect(file)) as db,
            ):
                # it has no tables yet
                if (agent,) in db.execute("SELECT path FROM agents").fetchall():
                    return
        time.sleep(0.05)
    raise AssertionError(f"{agent} did not start")
