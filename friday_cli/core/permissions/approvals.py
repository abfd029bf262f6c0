"""The desk where what agents ask of a person lies until it is answered: permissions and questions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from ..eventlog.log import Log
from ..protocol.errors import ToolError
from ..protocol.events import (
    AnyEvent,
    AskWithdrawn,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from .rule import Rule, RuleInput, parse_rule
from .rules import suggested_rule


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """A person's word on a permission. `reason` goes to the model when it is no."""

    decision: Literal["allow", "deny"]
    scope: Literal["once", "session", "always"] = "once"
    reason: str = ""


async def _ignore_grant(rule: Rule, scope: str) -> None:
    """Default `on_rule_granted`: do nothing."""


class ApprovalQueue:
    """Open questions of all agents, side by side. The first answer wins; a question dies with the call that asked.

    No lock is held while a person thinks. `interactive` is False where nobody can answer. `on_rule_granted(rule, scope)`
    keeps what a person allowed for longer than once; other open permissions that it covers are answered by it, too.
    """

    def __init__(
        self,
        log: Log,
        *,
        interactive: bool,
        on_rule_granted: Callable[[Rule, str], Awaitable[None]] = _ignore_grant,
    ) -> None:
        self.interactive = interactive
        self._log = log
        self._open: dict[str, tuple[str, asyncio.Future[ApprovalAnswer | str]]] = {}
        self._again: dict[str, Callable[[], bool]] = {}
        """Of open permissions: whether they would pass now."""
        self._on_rule_granted = on_rule_granted

    @property
    def pending(self) -> dict[str, str]:
        """Open questions: id -> path of the asker."""
        return {ask_id: path for ask_id, (path, _) in self._open.items()}

    async def permission(
        self, path: str, call_id: str, call: RuleInput, *, reason: str, again: Callable[[], bool] = lambda: False
    ) -> ApprovalAnswer:
        """Wait for a person's decision on `call`. `again` tells whether it would pass without one by now: it is asked when
        a rule was allowed."""
        rule = suggested_rule(call)
        ask_id = self._new_id("p")
        asked = PermissionAsked(ask_id, call_id, call.tool, "\n".join(call.subjects), reason, rule)
        self._again[ask_id] = again
        try:
            answer = await self._put(path, ask_id, asked)
        finally:
            del self._again[ask_id]
        assert isinstance(answer, ApprovalAnswer)
        if answer.decision == "deny" or not rule:
            answer = msgspec.structs.replace(answer, scope="once")
        if answer.scope != "once":
            await self._grant(rule.splitlines(), answer.scope)
        return answer

    async def _grant(self, rules: list[str], scope: str) -> None:
        """Keep what was allowed. Whatever would have passed before, as after a change of the mode, is not its to answer."""
        held = [ask_id for ask_id, passes in self._again.items() if not passes()]
        for text in rules:
            await self._on_rule_granted(parse_rule(text, "allow"), scope)
        for ask_id in held:
            if ask_id in self._again and self._again[ask_id]():
                await self.answer(ask_id, ApprovalAnswer("allow", reason=f"covered by {', '.join(rules)}"))

    async def question(self, path: str, call_id: str, question: str, choices: Sequence[str]) -> str:
        """Wait for a person's answer in words. Raises ToolError where nobody can answer."""
        if not self.interactive:
            raise ToolError("Nobody can answer questions here. Decide yourself and say what you assumed.")
        ask_id = self._new_id("q")
        answer = await self._put(path, ask_id, QuestionAsked(ask_id, call_id, question, tuple(choices)))
        assert isinstance(answer, str)
        return answer

    async def answer(self, ask_id: str, answer: ApprovalAnswer | str) -> bool:
        """Answer an open question; False when it is not open any more or wants another kind of answer."""
        entry = self._open.get(ask_id)
        if entry is None or entry[1].done():
            return False
        if isinstance(answer, str) is ask_id.startswith("p"):
            return False
        entry[1].set_result(answer)
        return True

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}{self._log.last + 1}"  # the number of the event that asks: unique over resumes

    async def _put(self, path: str, ask_id: str, asked: AnyEvent) -> ApprovalAnswer | str:
        future: asyncio.Future[ApprovalAnswer | str] = asyncio.get_running_loop().create_future()
        self._open[ask_id] = (path, future)
        closing: AnyEvent = AskWithdrawn(ask_id, "the asker was stopped")
        try:
            await self._log.emit(path, asked)
            answer = await future
            if isinstance(answer, ApprovalAnswer):
                closing = PermissionAnswered(ask_id, answer.decision, answer.scope, answer.reason)
            else:
                closing = QuestionAnswered(ask_id, answer)
            return answer
        finally:
            self._open.pop(ask_id, None)
            await self._log.emit(path, closing)
