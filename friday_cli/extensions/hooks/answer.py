"""What a hook answers, by its exit code and output, and how the answers of several are composed."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, Literal

import msgspec

from friday_cli.core.protocol.limits import Limits
from friday_cli.core.text.sanitize import sanitize, sanitize_line

from .hook import NAME_CHARS, Hook

BLOCKED = 2
"""The exit code of a hook that denies; its errors are the reason."""
PLAIN_CONTEXT = frozenset(("SessionStart", "UserPromptSubmit"))
"""Events whose hooks add their output as context if it is not JSON."""
CONTEXT_CHARS = 10_000
"""Characters of context that a hook can add."""
REASON_CHARS = 2_000
Decision = Literal["", "allow", "ask", "deny"]
LIMIT_NAMES = {"max_turns": "turns", "max_tokens": "tokens", "timeout_s": "time_s", "max_cost": "cost"}
"""How hooks name the limits of a run."""
_ORDER: tuple[Decision, ...] = ("", "allow", "ask", "deny")


class Answer(msgspec.Struct, frozen=True):
    """The answer of one hook. `problem` says why it does not count, "" if it does. `stop` ends the run, `message` is for the
    person. `hook` asked for it."""

    hook: Hook
    decision: Decision = ""
    reason: str = ""
    context: str = ""
    arguments: dict[str, Any] | None = None
    output: str | None = None
    stop: str = ""
    message: str = ""
    limits: Limits = Limits()
    problem: str = ""


class _Specific(msgspec.Struct, frozen=True, rename="camel"):
    hook_event_name: str = ""
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None = None
    permission_decision_reason: str | None = None
    updated_input: dict[str, Any] | None = None
    additional_context: str | None = None
    updated_tool_output: Any = None
    decision: dict[str, Any] | None = None
    limits: dict[str, float] | None = None


class _Output(msgspec.Struct, frozen=True, rename="camel"):
    continue_: bool = msgspec.field(default=True, name="continue")
    stop_reason: str | None = None
    system_message: str | None = None
    suppress_output: bool = False
    decision: Literal["approve", "block", "allow", "deny", "ask"] | None = None
    reason: str | None = None
    hook_specific_output: _Specific | None = None


_DECISIONS: dict[str | None, Decision] = {
    "approve": "allow", "allow": "allow", "block": "deny", "deny": "deny", "ask": "ask",
}  # fmt: skip


def read_answer(hook: Hook, exit_code: int, out: bytes, err: bytes) -> Answer:
    """The answer of a hook that ended by itself."""
    if exit_code == BLOCKED:
        reason = _text(err) or _text(out) or "it gave no reason"
        return Answer(hook, "deny", reason[:REASON_CHARS])
    if exit_code != 0:
        words = sanitize_line(_text(err), 200)
        return Answer(hook, problem=f"it ended with exit code {exit_code}{f': {words}' if words else ''}")
    text = _text(out)
    if not text:
        return Answer(hook)
    if not text.startswith("{"):
        return Answer(hook, context=text[:CONTEXT_CHARS] if hook.event in PLAIN_CONTEXT else "")
    try:
        found = msgspec.json.decode(out, type=_Output)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Answer(hook, problem=f"its answer cannot be read: {sanitize_line(str(error), 200)}")
    return _answer(hook, found)


def _answer(hook: Hook, found: _Output) -> Answer:
    inner = found.hook_specific_output or _Specific()
    if inner.hook_event_name not in ("", hook.event):
        return Answer(hook, problem=f"it answered for {sanitize_line(inner.hook_event_name, 60)}, not for {hook.event}")
    decision = _DECISIONS.get(inner.permission_decision) or _DECISIONS.get(found.decision, "")
    reason, arguments = inner.permission_decision_reason or found.reason or "", inner.updated_input
    if inner.decision is not None:  # of PermissionRequest
        decision = _DECISIONS.get(str(inner.decision.get("behavior")), "")
        reason = str(inner.decision.get("message") or "")
    output = inner.updated_tool_output
    if output is not None and not isinstance(output, str):
        output = msgspec.json.encode(output).decode()
    return Answer(
        hook,
        decision,
        sanitize(reason)[:REASON_CHARS],
        context=sanitize(inner.additional_context or "")[:CONTEXT_CHARS],
        arguments=arguments,
        output=None if output is None else sanitize(output),
        stop="" if found.continue_ else sanitize(found.stop_reason or "a hook stopped it")[:REASON_CHARS],
        message=sanitize(found.system_message or ""),
        limits=_limits(inner.limits or {}),
    )


def _text(data: bytes) -> str:
    return sanitize(data.decode("utf-8", "replace")).strip()


def _limits(given: dict[str, float]) -> Limits:
    """The limits that a hook gives. Those that are not above 0 do not count."""
    found = {field: given[name] for name, field in LIMIT_NAMES.items() if given.get(name, 0) > 0}
    whole = {field: ceil(found[field]) for field in ("turns", "tokens") if field in found}
    return Limits(**(found | whole))  # type: ignore[arg-type]  # tokens and turns are whole numbers


def only_tightening(answer: Answer) -> Answer:
    """The part of an answer that a project's hook may give: it denies, asks and adds context."""
    wanted = [
        words
        for words, given in (
            ("allow", answer.decision == "allow"),
            ("rewrite the call", answer.arguments is not None),
            ("replace the result", answer.output is not None),
        )
        if given
    ]
    if not wanted:
        return answer
    problem = f"a project's hook may not {' or '.join(wanted)}"
    decision: Decision = "" if answer.decision == "allow" else answer.decision
    return msgspec.structs.replace(answer, decision=decision, arguments=None, output=None, problem=problem)


def failed(answer: Answer) -> Answer:
    """An answer with a problem: a denial if the hook's `onFailure` says so."""
    if answer.problem and answer.hook.blocks and answer.decision != "deny":
        return msgspec.structs.replace(answer, decision="deny", reason=f"it failed: {answer.problem}")
    return answer


def strictest(answers: Sequence[Answer]) -> tuple[Decision, str]:
    """The strictest decision, with the reasons of the hooks that gave it: deny over ask over allow."""
    decision: Decision = max((answer.decision for answer in answers), key=_ORDER.index, default="")
    if not decision:
        return "", ""
    given = [answer for answer in answers if answer.decision == decision]
    return decision, "; ".join(said_by(decision, answer.hook.name, answer.reason) for answer in given)


def said_by(decision: Decision, name: str, reason: str) -> str:
    """The reason of a hook with its name."""
    verb = {"deny": "denied", "ask": "approval required", "allow": "allowed"}[decision]
    return f"{verb} by the hook {sanitize_line(name, NAME_CHARS)}{f': {reason}' if reason else ''}"
