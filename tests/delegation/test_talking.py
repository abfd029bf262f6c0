"""Talking to children that work, and stopping them: from the model, and from a person."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentFinished, InboxMessage
from tests.delegation.harness import Actors, Harness, until
from tests.engine_fixture import Say, call, delegate


def behind(profile: str, task: str) -> object:
    return delegate(profile, task, background=True)


async def test_a_model_tells_a_child_something_and_it_reads_it_at_its_next_turn(harness: Harness) -> None:
    harness.file("x.txt", "x\n")
    script = {
        "a": [
            Say("", [behind("researcher", "look")]),
            Say("", [call("message_sub_agent", id="a.1", text="only in src")]),
            Say("x"),
            Say("y"),
        ],
        "a.1": [Say("", [call("read_file", path="x.txt")], delay_s=20), Say("looked in src only")],
    }
    s = await harness.ran(script)
    assert s.results()[1] == "ok: Sent. a.1 reads it at its next turn."
    assert s.heard("a.1") == ["parent: look", "parent: only in src"]
    assert s.of(InboxMessage, "a.1") == [InboxMessage("only in src", "parent")]
    assert s.requests("a.1")[1].messages[-1].text == "only in src"


async def test_a_person_tells_a_child_something(harness: Harness) -> None:
    """The parent's model is told of it at its next turn."""
    model = Actors(
        {"a": [Say("", [delegate("researcher", "look")]), Say("so be it")], "a.1": [Say("first"), Say("as you wish")]}
    )
    held = model.hold("a.1")
    async with harness.open(model) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.tree.known("a.1") is not None)
        await s.session.send("a.1", "in English,\nplease")
        held.set()
        await asking
        assert s.heard("a.1")[1] == "person: in English,\nplease"
        assert s.finished("a.1").result == "as you wish", "it came before the end: it is answered"
        told = f"harness: {NOTE} The user has told your sub-agent a.1 (researcher): in English, please"
        assert s.heard() == ["person: go", told]
        assert s.requests()[1].messages[-1].text.startswith(NOTE), "before it goes on, after the result of the call"
        assert s.of(InboxMessage, "a")[0].quiet
        with pytest.raises(UsageError, match=r"a\.1 is not at work"):
            await s.session.send("a.1", "too late")


@pytest.mark.parametrize(
    ("level", "how", "result"),
    [
        ("cancel", "and asked it for what it has", "half"),
        ("abort", "at once", ""),
    ],
)
async def test_the_model_is_told_that_a_person_stopped_its_child(
    harness: Harness, level: Any, how: str, result: str
) -> None:
    script = {
        "a": [Say("", [delegate("researcher", "look"), delegate("researcher", "two")]), Say("so be it")],
        "a.1": [Say("never", delay_s=1000), Say("half")],
        "a.2": [Say("found", delay_s=10)],
    }
    async with harness.open(script) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.requests("a.1"))
        assert await s.session.stop("a.1", level=level) == 1
        assert (await asking).text == "so be it", "the parent goes on and decides"
    assert s.heard()[1] == (
        f"harness: {NOTE} The user has stopped your sub-agent a.1 (researcher) {how}. Do not start it again unless you are asked to."
    )
    assert s.end("a.1") == ("cancelled", "cancelled" if level == "cancel" else "aborted")
    assert s.finished("a.1").result == result
    assert [r.split(":")[0] for r in s.results()] == ["error", "ok"]


async def test_what_a_person_does_with_a_child_goes_to_its_own_parent(harness: Harness) -> None:
    harness.profile("lead", "subAgents: [researcher]")
    script = {
        "a": [Say("", [delegate("lead", "lead")]), Say("so")],
        "a.1": [Say("", [delegate("researcher", "look")]), Say("I see")],
        "a.1.1": [Say("x", delay_s=50), Say("y")],
    }
    async with harness.open(script) as s:
        asking = asyncio.ensure_future(s.session.prompt("go"))
        await until(lambda: s.requests("a.1.1"))
        await s.session.send("a.1.1", "hurry")
        await asking
        assert "a.1.1 (researcher): hurry" in s.heard("a.1")[-1]
        assert s.heard() == ["person: go"]


async def test_a_child_that_has_ended_is_neither_told_anything_nor_stopped_again(harness: Harness) -> None:
    late = [call("message_sub_agent", id="a.1", text="one more"), call("cancel_sub_agent", id="a.1")]
    s = await harness.ran({"a": [Say("", [delegate("researcher", "look")]), Say("", late)]})
    assert s.results()[1:] == [
        "error: a.1 is not at work. Continue it with a new task instead.",
        "ok: a.1 has already ended: completed.",
    ]
    assert len(s.of(AgentFinished, "a.1")) == 1


async def test_a_model_cancels_a_child_which_hands_back_what_it_has(harness: Harness) -> None:
    """What is below it is aborted."""
    harness.profile("lead", "subAgents: [researcher]")
    script = {
        "a": [
            Say("", [behind("lead", "all")]),
            Say("", [call("cancel_sub_agent", id="a.1")], delay_s=5),
            Say("enough"),
        ],
        "a.1": [Say("", [delegate("researcher", "deep")]), Say("I have the first half")],
        "a.1.1": [Say("never", delay_s=1000)],
    }
    async with harness.open(script) as s:
        await s.session.prompt("go")
        assert (s.end("a.1"), s.end("a.1.1")) == (("cancelled", "cancelled"), ("cancelled", "parent"))
        told = "ok: Stopped 2 agents.\n## Result from 'lead' (a.1): stopped\n> I have the first half\n"
        assert s.results()[1].startswith(told)
        assert s.heard() == ["person: go"], "it has the report: no note tells of the end once more"
        assert asyncio.get_running_loop().time() < 40


async def test_a_model_aborts_a_child_at_once_and_keeps_what_was_said(harness: Harness) -> None:
    harness.file("x.txt", "x\n")
    script = {
        "a": [
            Say("", [behind("researcher", "look")]),
            Say("", [call("cancel_sub_agent", id="a.1", mode="abort")], delay_s=5),
            Say("enough"),
        ],
        "a.1": [Say("begun", [call("read_file", path="x.txt")]), Say("never", delay_s=1000)],
    }
    async with harness.open(script) as s:
        await s.session.prompt("go")
        assert s.end("a.1") == ("cancelled", "aborted")
        assert s.finished("a.1").partial
        assert "stopped\n> begun\n" in s.results()[1]
        assert s.heard() == ["person: go"]
        assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.1)
