"""The open questions of a session as forms for a person at the client, and the answers of that person."""

from __future__ import annotations

from typing import Any

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import PermissionAsked
from friday_cli.core.text.sanitize import mask, sanitize, sanitize_line
from friday_cli.view import PendingAsk, SessionView

from .job import Action, Question

ALLOW, DENY = "allow once", "deny"
SUBJECT_CHARS = 4000
DISMISSED = "The person dismissed the question."


def questions(view: SessionView) -> tuple[Question, ...]:
    """The open questions of all agents of a session, the oldest first."""
    return tuple(Question(ask_id, _message(ask), _form(ask)) for ask_id, ask in view.asks.items())


def answer_of(ask: PendingAsk, action: Action, content: dict[str, Any]) -> ApprovalAnswer | str:
    """The answer of a person to a question. A permission is granted once at most; a form that says something else denies."""
    if isinstance(ask.event, PermissionAsked):
        reason = str(content.get("reason") or "")[:1000]
        if action != "accept":
            return ApprovalAnswer("deny", reason=reason or (DISMISSED if action == "cancel" else ""))
        return ApprovalAnswer("allow") if content.get("decision") == ALLOW else ApprovalAnswer("deny", reason=reason)
    if action != "accept":
        return "The user did not answer this question." if action == "decline" else DISMISSED
    return str(content.get("answer") or DISMISSED)


def _message(ask: PendingAsk) -> str:
    who = f"{ask.agent} ({sanitize_line(ask.profile, 40)})"
    task = f"\nIts task: {sanitize_line(ask.task, 200)}" if ask.task else ""
    if not isinstance(ask.event, PermissionAsked):
        return mask(f"Friday's agent {who} asks:\n{sanitize(ask.event.question)}{task}")
    subject = sanitize(ask.event.subject)
    if (more := len(subject) - SUBJECT_CHARS) > 0:
        subject = f"{subject[:SUBJECT_CHARS]}\n[{more:,} more characters]"
    why = f"\nWhy you are asked: {sanitize_line(ask.event.reason, 300)}" if ask.event.reason else ""
    return mask(f"Friday's agent {who} wants to use {sanitize_line(ask.event.tool, 64)}:\n{subject}{why}{task}")


def _form(ask: PendingAsk) -> dict[str, Any]:
    if isinstance(ask.event, PermissionAsked):
        decision = {"type": "string", "title": "Decision", "enum": [ALLOW, DENY]}
        reason = {"type": "string", "title": "Reason", "description": "For a denial: the agent reads it."}
        return {"type": "object", "properties": {"decision": decision, "reason": reason}, "required": ["decision"]}
    answer: dict[str, Any] = {"type": "string", "title": "Answer"}
    choices = [sanitize_line(choice, 200) for choice in ask.event.choices if choice]
    if choices and "" in ask.event.choices:
        answer["description"] = f"Or one of: {', '.join(choices)}."
    elif choices:
        answer["enum"] = choices
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
