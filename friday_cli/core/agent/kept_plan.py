"""The plan that a person approved, which a compaction keeps unchanged."""

from __future__ import annotations

from collections.abc import Sequence

from ..eventlog.notices import NOTE
from ..protocol.messages import Message, user
from ..protocol.plan import APPROVED
from ..protocol.tool_info import ASK_USER

_MARK = f"{NOTE} The plan that the user approved:\n"


def kept_plan(history: Sequence[Message]) -> list[Message]:
    """A message with the newest approved plan of a conversation; none if it has none. Text that other tools return never
    counts."""
    handed_in: dict[str, str] = {}
    plan = ""
    for message in history:
        for call in message.calls:
            if call.name == ASK_USER and isinstance(text := call.arguments.get("plan"), str):
                handed_in[call.id] = text
        for result in message.results:
            if result.call_id in handed_in and result.text.startswith(APPROVED):
                plan = handed_in[result.call_id]
        if message.role == "user" and message.source == "harness" and message.text.startswith(_MARK):
            plan = message.text.removeprefix(_MARK)
    return [user(f"{_MARK}{plan}", source="harness")] if plan else []
