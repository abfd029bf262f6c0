"""A sub-agent goes to the background, or to a person who works with it in place of its parent: the events, and what the
receipt keeps."""

from __future__ import annotations

import time

import msgspec

from .live_events import Event


class PersonPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person did with an agent that they had taken over. Times in Unix seconds; `until` is 0 if it was never handed back.
    `said` are the messages of the person; `own_result`: the result is theirs."""

    since: float
    until: float = 0.0
    said: tuple[str, ...] = ()
    own_result: bool = False

    @property
    def text(self) -> str:
        """One line, in local time."""
        since, until = _clock(self.since), _clock(self.until)
        when = f"at {since}" if since == until else f"from {since} to {until}"
        if not self.until:
            when = f"from {since} until the process ended"
        said = "".join(f"; the user said: {' '.join(text.split())}" for text in self.said)
        own = "; the result is the user's" if self.own_result else ""
        return f"taken over by the user {when}{said}{own}"


class Detached(Event, frozen=True, tag="detached"):
    """The agent continues in the background; the call that waited for it returned."""


class TakenOver(Event, frozen=True, tag="taken_over"):
    """A person took the agent over: it waits for them between its turns. `since` in Unix seconds."""

    since: float


class HandedBack(Event, frozen=True, tag="handed_back"):
    """The person handed the agent back to its parent, or it ended while they had it."""

    part: PersonPart


def _clock(at: float) -> str:
    return time.strftime("%H:%M", time.localtime(at))
