"""Questions about calls: what a person is shown, and what an answer covers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from friday_cli.command_safety import network_targets
from friday_cli.core.eventlog.log import Log, MemoryJournal
from friday_cli.core.permissions.approvals import ApprovalAnswer, ApprovalQueue
from friday_cli.core.permissions.call_check import CallCheck
from friday_cli.core.permissions.rule import Rule, RuleInput
from friday_cli.core.permissions.taint import TaintTracker
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.events import PermissionAnswered, PermissionAsked, QuestionAnswered
from tests.core.permissions.test_rules import bash, edit, rights


def approval_queue(*, attended: bool = True, **calls: Any) -> tuple[ApprovalQueue, MemoryJournal]:
    journal = MemoryJournal()
    return ApprovalQueue(Log(journal), interactive=attended, **calls), journal


async def test_a_question_tells_what_exactly_is_to_be_done_and_the_first_answer_counts() -> None:
    table, journal = approval_queue()
    asking = asyncio.create_task(table.permission("a.2", "c1", bash("make all"), reason="mode ask"))
    await asyncio.sleep(0.1)
    assert table.pending == {"p1": "a.2"}
    assert not await table.answer("p1", "yes"), "words are no answer to a permission"
    assert not await table.answer("p9", ApprovalAnswer("allow"))
    assert await table.answer("p1", ApprovalAnswer("deny", "always", "not now"))
    assert not await table.answer("p1", ApprovalAnswer("allow"))
    assert await asking == ApprovalAnswer("deny", "once", "not now"), "a no is for this call"
    asked, answered = [e.event for e in journal.envelopes]
    assert asked == PermissionAsked("p1", "c1", "bash", "make all", "mode ask", "bash(make all)")
    assert isinstance(answered, PermissionAnswered)
    assert (answered.id, answered.decision, answered.reason) == ("p1", "deny", "not now")
    assert table.pending == {}


@pytest.mark.parametrize(("command", "scope", "granted"), [
    ("make all", "session", ["bash(make all) session"]), ("make all", "always", ["bash(make all) always"]),
    ("make all", "once", []), ("python -c x", "always", []),
])  # fmt: skip
async def test_a_yes_for_longer_is_kept_where_a_rule_was_offered(command: str, scope: str, granted: list[str]) -> None:
    kept: list[str] = []

    async def keep(rule: Rule, scope: str) -> None:
        kept.append(f"{rule} {scope}")

    table, _ = approval_queue(on_rule_granted=keep)
    asking = asyncio.create_task(table.permission("a", "c1", bash(command), reason=""))
    await asyncio.sleep(0.1)
    await table.answer("p1", ApprovalAnswer("allow", scope))  # type: ignore[arg-type]
    assert (await asking).decision == "allow"
    assert kept == granted


async def test_a_yes_for_longer_answers_what_its_rule_covers_and_nothing_else() -> None:
    rules = rights()

    async def keep(rule: Rule, scope: str) -> None:
        rules.rules.append(rule)

    def check(wanted: RuleInput) -> CallCheck:
        return CallCheck(wanted, {}, rules, TaintTracker(network_targets))

    table, journal = approval_queue(on_rule_granted=keep)
    calls = {"a.1": bash("make all"), "a.2": bash("make all"), "a.3": bash("make none"), "a.4": edit("x.py")}
    asking = [asyncio.create_task(table.permission(p, "c", w, reason="", check=check(w))) for p, w in calls.items()]
    await asyncio.sleep(0.1)
    first = next(ask_id for ask_id, path in table.pending.items() if path == "a.1")
    await table.answer(first, ApprovalAnswer("allow", "session"))
    await asyncio.sleep(0.1)
    assert set(table.pending.values()) == {"a.3", "a.4"}
    answered = {e.agent: e.event for e in journal.envelopes if isinstance(e.event, PermissionAnswered)}
    assert answered["a.2"].reason == "covered by bash(make all)"
    rules.mode = "edits"
    assert len(await table.answer_passing("passes in mode edits")) == 1
    await asyncio.sleep(0.1)
    assert set(table.pending.values()) == {"a.3"}
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)


async def test_a_question_in_words_is_answered_in_words() -> None:
    table, journal = approval_queue()
    asking = asyncio.create_task(table.question("a", "c1", "Which?", ["this", "that"]))
    await asyncio.sleep(0.1)
    assert not await table.answer("q1", ApprovalAnswer("allow"))
    assert await table.answer("q1", "this")
    assert await asking == "this"
    assert isinstance(journal.envelopes[-1].event, QuestionAnswered)


async def test_without_a_person_there_is_no_question() -> None:
    table, journal = approval_queue(attended=False)
    with pytest.raises(ToolError, match="No person can answer questions here"):
        await table.question("a", "c1", "Which?", [])
    assert journal.envelopes == []
