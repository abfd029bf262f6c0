"""Permissions and questions of agents that wait for the answer of a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from ..eventlog.log import Log
from ..protocol.displays import DiffDisplay
from ..protocol.errors import ToolError
from ..protocol.events import (
    AnyEvent,
    AskWithdrawn,
    Notice,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from ..protocol.format import pluralize
from ..protocol.plan import PLAN_CHOICES, PLAN_MODES
from .decision import Mode
from .rule import Rule, RuleInput, parse_rule

if TYPE_CHECKING:
    from .call_check import CallCheck


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """A person's answer to a permission question. The model reads the `reason` of a denial. `mode`: the session has this
    mode from now on; "" for no change. `command`: the one that the person wants in place of the model's, which is judged
    as that was."""

    decision: Literal["allow", "deny"]
    scope: Literal["once", "session", "always"] = "once"
    reason: str = ""
    mode: Mode | Literal[""] = ""
    command: str = ""


async def _ignore_mode(mode: Mode) -> None:
    """Default `on_mode_chosen`: do nothing."""


async def _ignore_grant(rule: Rule, scope: str) -> None:
    """Default `on_rule_granted`: do nothing."""


class ShownCall(NamedTuple):
    """What a person sees of a call, beside its subjects."""

    arguments: dict[str, Any] | None = None
    """In place of those that the model sent."""
    change: DiffDisplay | None = None
    """What it would change."""


AS_SENT = ShownCall()


class ApprovalQueue:
    """The open questions of all agents. The first answer counts; a question is cancelled with the call that asked.
    Questions do not block each other. `interactive` is False when no person can answer. `on_rule_granted(rule, scope)`
    stores a rule that a person allowed for longer than once; other open permissions that pass then are granted too.
    `on_mode_chosen` gives the session the mode that a person chose."""

    def __init__(
        self,
        log: Log,
        *,
        interactive: bool,
        on_rule_granted: Callable[[Rule, str], Awaitable[None]] = _ignore_grant,
        on_mode_chosen: Callable[[Mode], Awaitable[None]] = _ignore_mode,
    ) -> None:
        self.interactive = interactive
        self._log = log
        self._open: dict[str, tuple[str, asyncio.Future[ApprovalAnswer | str]]] = {}
        self._checks: dict[str, tuple[CallCheck, str]] = {}
        """For each open permission: the decision on its call, and why a person is asked."""
        self._on_rule_granted, self._on_mode_chosen = on_rule_granted, on_mode_chosen

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
        check: CallCheck | None = None,
        shown: ShownCall = AS_SENT,
    ) -> ApprovalAnswer:
        """Wait for a person's decision on `call`. `check` decides on it again, after a rule was added or the mode changed;
        without one only the person's answer counts."""
        from .suggest import lets_through, suggested_rule  # most runs ask nothing

        asks = check is not None and bool(check.decide_now().rule)
        rule = "" if asks else suggested_rule(call)  # a rule that asks wins over one that allows
        ask_id = self._new_id("p")
        fits = check is not None and call.effect == "write" and check.decide_now("edits").decision == "allow"
        asked = PermissionAsked(
            ask_id,
            call_id,
            call.tool,
            "\n".join(call.subjects),
            reason,
            rule,
            arguments=shown.arguments,
            change=shown.change,
            mode="edits" if fits else "",
            allows=lets_through(call, rule),
        )
        if check is not None:
            self._checks[ask_id] = check, reason
        try:
            answer = await self._put(path, ask_id, asked)
        finally:
            self._checks.pop(ask_id, None)
        assert isinstance(answer, ApprovalAnswer)
        if answer.decision == "deny" or not rule:
            answer = msgspec.structs.replace(answer, scope="once")
        if answer.scope != "once":
            for text in rule.splitlines():
                await self._on_rule_granted(parse_rule(text, "allow"), answer.scope)
            await self.answer_passing(f"covered by {', '.join(rule.splitlines())}")
        return answer

    async def answer_passing(self, reason: str) -> list[str]:
        """Grant the open permissions that need no person any more, because of `reason`. Returns their ids."""
        passing = [ask_id for ask_id, (check, _) in self._checks.items() if check.passes]
        for ask_id in passing:
            await self.answer(ask_id, ApprovalAnswer("allow", reason=reason))
        return passing

    def explain(self, ask_id: str) -> list[str]:
        """What an open permission is about: what would run, what it reaches, which rule or mode asked. Lines of untrusted text; none
        if it is not open or has no check."""
        check, reason = self._checks.get(ask_id, (None, ""))
        return check.explain(reason) if check is not None else []

    async def question(self, path: str, call_id: str, question: str, choices: Sequence[str]) -> str:
        """Wait for a person's answer as text. Raises ToolError when no person can answer."""
        if not self.interactive:
            raise ToolError("No person can answer questions here. Decide yourself and report what you assumed.")
        ask_id = self._new_id("q")
        answer = await self._put(path, ask_id, QuestionAsked(ask_id, call_id, question, tuple(choices)))
        assert isinstance(answer, str)
        return answer

    async def plan(self, path: str, call_id: str, plan: str) -> str:
        """Show a person a plan (Markdown) of the agent at `path`, and wait for one of `PLAN_CHOICES` or for words. The mode that
        the main agent's plan leads to holds when this returns. Raises ToolError when no person can answer."""
        answer = await self.question(path, call_id, plan, PLAN_CHOICES)
        if path == "a" and answer in PLAN_MODES:
            await self.choose_mode(PLAN_MODES[answer])
        return answer

    async def choose_mode(self, mode: Mode) -> None:
        """Give the session the mode that a person chose. Open permissions that pass in it are granted, which a notice says."""
        await self._on_mode_chosen(mode)
        if answered := await self.answer_passing(f"passes in mode {mode}"):
            what = pluralize(len(answered), "open question")
            await self._log.emit("a", Notice(f"Mode {mode}: answered {what} with yes.", "info"))

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
                closing = PermissionAnswered(
                    ask_id, answer.decision, answer.scope, answer.reason, command=answer.command
                )
            else:
                closing = QuestionAnswered(ask_id, answer)
            return answer
        finally:
            self._open.pop(ask_id, None)
            await self._log.emit(path, closing)
