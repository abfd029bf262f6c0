"""A command that passes because it only reads runs read-only; when it wanted more, it is asked about."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import Denied, PermissionAsked, ToolFinished, ToolStarted
from friday_cli.session.session import Session
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.session.harness import Harness, does, says
from tests.workspace.sandbox.conftest import choice

__all__ = ["choice"]

COUNT = "find . -type f -exec wc -l {} +"
"""Passes because it only counts, but opens every file: beside a `.env` it wants more than looking allows."""


async def play(
    harness: Harness, kind: str, *commands: str, mode: str = "ask", answer: Literal["allow", "deny"] | None = None
) -> tuple[Session, list[str]]:
    """A session in which these commands are called; its questions are answered with `answer` (None: nobody can). Returns it
    and the reasons of the questions."""
    (harness.project / ".env").write_text("KEY=1\n")
    harness.plays({"a": [*(does(("bash", {"command": command})) for command in commands), says("done")]})
    flags = {"sandbox.kind": kind}
    async with harness.session(attended=answer is not None, mode=mode, flags=flags) as session:
        answering = asyncio.create_task(_answers(session, answer or "deny"))
        await session.prompt("go")
    return session, await answering


async def _answers(session: Session, answer: Literal["allow", "deny"]) -> list[str]:
    reasons = []
    async for envelope in session.events():
        if isinstance(envelope.event, PermissionAsked):
            reasons.append(envelope.event.reason)
            await session.answer(envelope.event.id, ApprovalAnswer(answer))
    return reasons


async def events(harness: Harness, session: Session, *kinds: type) -> list[object]:
    return [e.event for e in await harness.log(session.id) if isinstance(e.event, kinds)]


async def test_on_yes_it_runs_again_as_usual(harness: Harness, choice: SandboxChoice) -> None:
    session, asked = await play(harness, choice.kind, "ls -a", COUNT, answer="allow")
    assert [status for status, _ in await harness.results(session.id, "a")] == ["ok", "ok"]
    assert "1 ./.env" in (await harness.results(session.id, "a"))[1][1]
    assert len(asked) == 1
    assert "it ran read-only, and failed: wc: ./.env: Permission denied" in asked[0]
    started = await events(harness, session, ToolStarted)
    assert [event.read_only for event in started if isinstance(event, ToolStarted)] == [True, True, False]
    assert len(await events(harness, session, ToolFinished)) == 2


@pytest.mark.parametrize(("mode", "answer", "words"), [
    ("ask", "deny", "The user denied"), ("ask", None, "no person can be asked"), ("edits", None, "no person can be asked"),
    ("plan", "allow", "mode plan: bash is refused (it ran read-only"),
])  # fmt: skip
async def test_otherwise_it_is_denied_with_the_reason(
    harness: Harness, choice: SandboxChoice, mode: str, answer: Literal["allow", "deny"] | None, words: str
) -> None:
    session, asked = await play(harness, choice.kind, COUNT, mode=mode, answer=answer)
    (status, text), *_ = await harness.results(session.id, "a")
    assert status == "denied"
    assert words in text
    assert "wc: ./.env: Permission denied" in text.partition("What it printed read-only:")[2]
    assert len(asked) == (1 if answer == "deny" else 0)
    assert len(await events(harness, session, Denied)) == (0 if answer == "deny" else 1)


async def test_a_rule_or_mode_that_allows_commands_makes_none_read_only(
    harness: Harness, choice: SandboxChoice
) -> None:
    for mode in ("auto", "yolo"):
        session, _ = await play(harness, choice.kind, COUNT, mode=mode)
        assert [status for status, _ in await harness.results(session.id, "a")] == ["ok"]
        assert [event.read_only for event in await events(harness, session, ToolStarted)] == [False]  # type: ignore[attr-defined]


async def test_without_a_sandbox_only_literal_commands_pass(harness: Harness) -> None:
    session, _ = await play(harness, "none", "ls -a", "ls *.md", COUNT, "f() { ls; }; f")
    assert [status for status, _ in await harness.results(session.id, "a")] == ["ok", "denied", "denied", "denied"]
    denied = (await events(harness, session, Denied))[0]
    assert "no sandbox works here, and this is more than programs with literal arguments" in str(denied)
