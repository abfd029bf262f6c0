"""Checks a conversation as strictly as the real services do."""

from __future__ import annotations

from collections.abc import Sequence

from friday_cli.core.protocol.messages import Message


def strict(messages: Sequence[Message]) -> list[str]:
    """What a service would refuse: calls whose results do not follow in order, empty messages, and so on."""
    faults = []
    if not messages or messages[0].role != "user":
        faults.append("does not begin with a user message")
    wanted: tuple[str, ...] = ()
    for number, message in enumerate(messages):
        if not message.parts:
            faults.append(f"message {number} is empty")
        if message.role == "tool":
            got = tuple(r.call_id for r in message.results)
            if got != wanted:
                faults.append(f"message {number}: results {got} for calls {wanted}")
            wanted = ()
            continue
        if wanted:
            faults.append(f"message {number}: calls {wanted} have no results")
        wanted = tuple(c.id for c in message.calls)
        if len(set(wanted)) != len(wanted):
            faults.append(f"message {number}: the same call id twice")
    return faults + ([f"calls {wanted} have no results at the end"] if wanted else [])
