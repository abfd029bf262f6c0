"""The effect of a rewind on whatever is folded from a log: histories, transcripts, lists of messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ..protocol.events import AgentStarted, Envelope, MessageAdded, Rewound
from ..protocol.messages import Message

T = TypeVar("T")


def is_rewind_point(path: str, message: Message) -> bool:
    """Whether a message is from a person to the main agent. The conversation can be rewound to right before it."""
    return path == "a" and message.role == "user" and message.source == "person"


def after_rewind(marks: dict[int, T], seq: int, event: Rewound, state: T) -> T:
    """The state after rewind number `seq`: that of its target, or `state` when it restored files only. `marks` has the
    state right before each rewind point, by event number. `state` is added to it, for an undo."""
    marks[seq] = state
    return state if event.what == "files" else marks.get(event.to, state)


_MARKING = frozenset((AgentStarted, MessageAdded, Rewound))


def left_behind(envelopes: Iterable[Envelope]) -> frozenset[str]:
    """The agents that the conversation does not know: all their runs began in parts of it that were rewound."""
    started: set[str] = set()
    known: frozenset[str] = frozenset()
    marks: dict[int, frozenset[str]] = {}
    for envelope in envelopes:
        event, seq = envelope.event, envelope.seq or 0
        if type(event) not in _MARKING:
            continue
        if isinstance(event, AgentStarted) and envelope.agent != "a":
            started.add(envelope.agent)
            known |= {envelope.agent}
        elif isinstance(event, MessageAdded) and is_rewind_point(envelope.agent, event.message):
            marks[seq] = known
        elif isinstance(event, Rewound):
            known = after_rewind(marks, seq, event, known)
    return frozenset(started - known)
