"""Permissions and questions of agents that wait for the answer of a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

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
from .suggest import suggested_rule


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """A person's answer to a permission question. The model reads the `reason` of a denial."""

    decision: Literal["allow", "deny"]
    scope: Literal["once", "session", "always"] = "once"
    reason: str = ""


async def _ignore_grant(rule: Rule, scope: str) -> None:
    """Default `on_rule_granted`: do nothing."""


class ApprovalQueue:
    """The open questions of all agents. The first answer counts; a question is cancelled with the call that asked.
    Questions do not block each other. `interactive` is False when no person can answer. `on_rule_granted(rule, scope)`
    stores a rule that a person allowed for longer than once; other open permissions that it covers are granted too."""

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
        """For each open permission: whether it would be allowed now without a person."""
        self._on_rule_granted = on_rule_granted

    @property
    def pending(self) -> dict[str, str]:
        """Open questions: id -> path of the agent."""
        return {ask_id: path for ask_id, (path, _) in self._open.items()}

    async def permission(
        self,
        path: str,
        call_id: str,
        call: RuleInput,
        *,
        reason: str,
        arguments: dict[str, Any] | None = None,
        again: Callable[[], bool] = lambda: False,
    ) -> ApprovalAnswer:
        """Wait for a person's decision on `call`. `arguments` are shown in place of those that the model sent. `again` says
        whether it is allowed by now without one; it is called after a rule was added."""
        rule = suggested_rule(call)
        ask_id = self._new_id("p")
        asked = PermissionAsked(ask_id, call_id, call.tool, "\n".join(call.subjects), reason, rule, arguments=arguments)
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
        """Store the allowed rules and grant the permissions that they cover. Those that were allowed before them, such as
        after a change of the mode, are not changed."""
        held = [ask_id for ask_id, passes in self._again.items() if not passes()]
        for text in rules:
            await self._on_rule_granted(parse_rule(text, "allow"), scope)
        for ask_id in held:
            if ask_id in self._again and self._again[ask_id]():
                await self.answer(ask_id, ApprovalAnswer("allow", reason=f"covered by {', '.join(rules)}"))

    async def question(self, path: str, call_id: str, question: str, choices: Sequence[str]) -> str:
        """Wait for a person's answer as text. Raises ToolError when no person can answer."""
        if not self.interactive:
            raise ToolError("No person can answer questions here. Decide yourself and report what you assumed.")
        ask_id = self._new_id("q")
        answer = await self._put(path, ask_id, QuestionAsked(ask_id, call_id, question, tuple(choices)))
        assert isinstance(answer, str)
        return answer

    async def answer(self, ask_id: str, answer: ApprovalAnswer | str) -> bool:
        """Answer an open question. False when it is not open or needs another kind of answer."""
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
