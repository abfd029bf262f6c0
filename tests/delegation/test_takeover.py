"""A person takes a sub-agent over: it works with them, its parent waits, and the receipt says so."""

from __future__ import annotations

import pytest

from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import (
    AgentFinished,
    HandedBack,
    InboxMessage,
    MessageAdded,
    TakenOver,
    TurnStarted,
)
from friday_cli.session.commands import HandBack, Stop, TakeOver, Tell
from tests.delegation.harness import Harness, until
from tests.engine_fixture import Say, call, delegate

CHILD = [Say("", [call("todo", items=[])], delay_s=5), Say("the answer"), Say("its result")]


@pytest.mark.parametrize(("given", "result"), [("", "the answer"), ("mine", "mine")])
async def test_a_child_waits_for_the_person_and_is_handed_back(harness: Harness, given: str, result: str) -> None:
    script = {"a": [Say("", [delegate("researcher")]), Say("end")], "a.1": CHILD}
    async with harness.open(script) as s:
        s.session.start("go")
        await until(lambda: bool(s.of(TurnStarted, "a.1")))
        await s.session.do(TakeOver("a.1"))
        with pytest.raises(UsageError, match="already"):
            await s.session.do(TakeOver("a.1"))
        await until(lambda: s.tree.node("a.1").agent.slot.status == "waiting_user")
        assert len(s.of(TurnStarted, "a.1")) == 1, "it finished its turn and began no other"
        await s.session.do(Tell("a.1", "look there"))
        await until(lambda: len(s.of(TurnStarted, "a.1")) == 2)
        await until(lambda: s.tree.node("a.1").agent.slot.status == "waiting_user")
        assert not s.of(AgentFinished, "a.1"), "its answer to the person is not its end"
        await s.session.do(HandBack("a.1", given))
        await until(lambda: bool(s.of(AgentFinished, "a")))
        end = s.finished("a.1")
        (part,) = end.receipt.taken_over
        assert (end.status, end.result, part.said, part.own_result) == (
            "completed",
            result,
            ("look there",),
            bool(given),
        )
        assert "the user said: look there" in s.results()[0]
        assert result in s.results()[0]
        assert any("look there" in event.message.text for event in s.of(MessageAdded, "a.1"))
        assert len(s.of(TakenOver, "a.1")) == len(s.of(HandedBack, "a.1")) == 1


async def test_handed_back_in_the_middle_it_goes_on_with_its_task(harness: Harness) -> None:
    script = {"a": [Say("", [delegate("researcher")]), Say("end")], "a.1": CHILD}
    async with harness.open(script) as s:
        s.session.start("go")
        await until(lambda: bool(s.of(TurnStarted, "a.1")))
        await s.session.do(TakeOver("a.1"))
        await until(lambda: s.tree.node("a.1").agent.slot.status == "waiting_user")
        await s.session.do(HandBack("a.1"))
        await until(lambda: bool(s.of(AgentFinished, "a")))
        assert s.finished("a.1").result == "the answer"
        with pytest.raises(UsageError, match="not"):
            await s.session.do(HandBack("a.1"))


@pytest.mark.parametrize("stopped", ["a", "a.1"])
async def test_a_stop_ends_it_and_the_receipt_keeps_what_was_said(harness: Harness, stopped: str) -> None:
    script = {"a": [Say("", [delegate("researcher")]), Say("end")], "a.1": CHILD}
    async with harness.open(script) as s:
        s.session.start("go")
        await until(lambda: bool(s.of(TurnStarted, "a.1")))
        await s.session.do(TakeOver("a.1"))
        await until(lambda: s.tree.node("a.1").agent.slot.status == "waiting_user")
        await s.session.do(Stop(stopped))
        end = s.finished("a.1")
        assert end.status == "cancelled"
        assert end.receipt.taken_over[0].until > 0
        assert len(s.of(HandedBack, "a.1")) == 1


async def test_one_that_has_ended_is_resumed_and_sends_nothing_before_the_person_does(harness: Harness) -> None:
    script = {"a": [Say("", [delegate("researcher")]), Say("end")], "a.1": [Say("first"), Say("second")]}
    async with harness.open(script) as s:
        await s.session.prompt("go")
        with pytest.raises(UsageError, match="main agent"):
            await s.session.do(TakeOver("a"))
        await s.session.do(TakeOver("a.1"))
        await until(lambda: s.tree.node("a.1").agent.slot.status == "waiting_user")
        assert len(s.of(TurnStarted, "a.1")) == 1
        await s.session.do(Tell("a.1", "more"))
        await until(lambda: len(s.of(TurnStarted, "a.1")) == 2)
        await until(lambda: s.tree.node("a.1").agent.slot.status == "waiting_user")
        await s.session.do(HandBack("a.1"))
        await until(lambda: len(s.of(AgentFinished, "a.1")) == 2)
        assert s.finished("a.1").result == "second"
        await until(lambda: len(s.of(InboxMessage, "a")) == 3)
        assert [event.text.split("\n")[0] for event in s.of(InboxMessage, "a")] == [
            f"{NOTE} The user has taken over your sub-agent a.1 (researcher).",
            f"{NOTE} The user has told your sub-agent a.1 (researcher): more",
            f"{NOTE} The sub-agent a.1 (researcher), which the user continued, has ended: completed (done).",
        ]
