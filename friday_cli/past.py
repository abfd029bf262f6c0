"""What a person can go back to: the messages they wrote, and a new session that begins at one of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from .core.errors import UsageError
from .core.events import AgentFinished, AgentStarted, Envelope, MessageAdded, Rewound, SessionStarted
from .core.replay import is_point
from .store import Store
from .store.reconcile import closing


class Point(msgspec.Struct, frozen=True):
    """A message of the person. `number` counts from 1 in the conversation as it stands, `seq` is that of the event right
    before which everything was as one goes back to; `at` in Unix seconds. `files` are those that changed since, as far
    as their earlier content is known."""

    number: int
    seq: int
    text: str
    at: float
    files: tuple[str, ...] = ()


def points(envelopes: Sequence[Envelope]) -> list[Point]:
    """The messages of the person that are part of the conversation now, the oldest first."""
    found: list[Point] = []
    stood: dict[int, list[Point]] = {}
    started: AgentStarted | None = None
    for envelope in envelopes:
        event, seq = envelope.event, envelope.seq or 0
        if envelope.agent != "a":
            continue
        if isinstance(event, MessageAdded) and is_point("a", event.message):
            stood[seq] = found
            text = started.task if started else event.message.text
            found = [*found, Point(len(found) + 1, seq, text, envelope.at)]
            started = None
        elif isinstance(event, Rewound):
            stood[seq] = found
            if event.what != "files":
                found = stood.get(event.to, found)
        elif isinstance(event, AgentStarted):
            started = event
    return found


def point(envelopes: Sequence[Envelope], number: int) -> Point:
    """The message with a number. Raises UsageError."""
    found = points(envelopes)
    if not 1 <= number <= len(found):
        have = f"It has {len(found)}, numbered from 1." if found else "You wrote none yet."
        raise UsageError(f"There is no message {number} in this conversation.", hint=have)
    return found[number - 1]


def last_rewind(envelopes: Sequence[Envelope]) -> Envelope:
    """The newest rewind that was not taken back itself. Raises UsageError."""
    taken: set[int] = set()
    for envelope in reversed(envelopes):
        if isinstance(event := envelope.event, Rewound):
            if event.undo:
                taken.add(event.to)
            elif envelope.seq not in taken:
                return envelope
    raise UsageError("There is no rewind to take back.")


async def fork(store: Store, session: str, *, at: int | None = None) -> str:
    """A new session that begins with the history of another, up to right before the person's message number `at` (None:
    all of it); gives its id. The other one is only read, and may be at work. Raises UsageError, StoreError.

    Its agents and their results are there to be read and continued; what was at work at that moment is ended in it.
    """
    envelopes = await store.events(session)
    kept = envelopes if at is None else _before(envelopes, point(envelopes, at).seq)
    if not any(isinstance(e.event, AgentStarted) for e in kept):
        raise UsageError("There is nothing before that message to fork from.", hint="Start a new session instead.")
    first = kept[0].event
    if not isinstance(first, SessionStarted):
        raise UsageError(f"Session {session[:8]} has no beginning and cannot be forked.")
    title = await store.title(session)
    name = await store.create_session(first.cwd, title=f"{title} (fork)" if title else "")
    began = msgspec.structs.replace(first, session=name, forked=session)
    kept = [msgspec.structs.replace(kept[0], event=began), *kept[1:]]
    with await store.own(name):
        await store.journal(name).append([*kept, *_ends(kept, session)])
    return name


def _before(envelopes: Sequence[Envelope], seq: int) -> list[Envelope]:
    """What came before an event, without the start of the run that it was written with."""
    kept = [e for e in envelopes if (e.seq or 0) < seq]
    while kept and kept[-1].agent == "a" and not isinstance(kept[-1].event, (AgentFinished, MessageAdded)):
        if isinstance(kept.pop().event, AgentStarted):
            return kept
    return [e for e in envelopes if (e.seq or 0) < seq]


def _ends(envelopes: Sequence[Envelope], session: str) -> list[Envelope]:
    made = []
    for envelope in closing(envelopes, now=time.time()):
        event = envelope.event
        if isinstance(event, AgentFinished):
            words = f"Session {session[:8]} was forked while this agent was at work; it goes on there."
            event = msgspec.structs.replace(event, status="cancelled", stop_reason="aborted", error=words)
        made.append(msgspec.structs.replace(envelope, event=event))
    return made
