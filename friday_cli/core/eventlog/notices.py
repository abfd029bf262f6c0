"""Notices of the harness to agents about other agents. Replay compares their texts, so they are built only here."""

from __future__ import annotations

from ..protocol.events import AgentFinished, AgentStarted, InboxMessage
from ..protocol.run_result import Status, StopReason
from ..protocol.tool_info import DELEGATION_RESULT

NOTE = "[Note of the harness; no person wrote this]"
DIED = "The friday process that ran this agent ended."
"""The error of an agent that died with its process."""


def ended(
    path: str, profile: str, task: str, status: Status, reason: StopReason | None, *, by_person: bool = False
) -> InboxMessage:
    """A notice that a run ended that no agent waits for. `by_person`: a person resumed it."""
    who = (
        f"The sub-agent {path} ({profile}), which the user continued,"
        if by_person
        else f"The background sub-agent {path} ({profile})"
    )
    return InboxMessage(
        f"{NOTE} {who} has ended: {status} ({reason}). Its task was: {_line(task)}\n"
        f"Read its result with {DELEGATION_RESULT}(id={path!r}).",
        "harness",
        quiet=by_person,
    )


def pending_end_notice(
    path: str, started: AgentStarted, end: AgentFinished, *, background: bool
) -> InboxMessage | None:
    """The notice that an ancestor must get of an end, by the log; None for none."""
    by_person = started.parent != "" and started.run > 1 and not started.call_id and not background
    if not (background or by_person) or end.stop_reason == "parent" or end.error == DIED:
        return None
    return ended(path, started.profile, started.task, end.status, end.stop_reason, by_person=by_person)


def continued(path: str, profile: str, task: str) -> str:
    """A notice that a person resumed an agent."""
    return (
        f"{NOTE} The user has continued your sub-agent {path} ({profile}) and told it: {_line(task)}\n"
        "Leave that to them; you will be told when it has ended."
    )


def steered(path: str, profile: str, text: str) -> str:
    """A notice that a person sent a message to a running agent."""
    return f"{NOTE} The user has told your sub-agent {path} ({profile}): {_line(text)}"


def stopped(path: str, profile: str, level: str) -> str:
    """A notice that a person stops an agent. `level` is cancel or abort."""
    how = "and asked it for what it has" if level == "cancel" else "at once"
    return f"{NOTE} The user has stopped your sub-agent {path} ({profile}) {how}. Do not start it again unasked."


def _line(text: str) -> str:
    return " ".join(text.split())[:200]
