"""What a session is to who uses it: data that can leave the process, and what a session that is only observed has too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from friday_cli.view.follower import EventSource

if TYPE_CHECKING:
    from friday_cli.workspace.checkpoints.review import FileDiff

    from .rewind import RewindPoint


class RunName(msgspec.Struct, frozen=True):
    """Names a run of an agent. `agent`: its path; `number`: 1 for its first run."""

    agent: str
    number: int


class RewindReader(Protocol):
    """What can be read of the person's messages and of the changes of agents."""

    async def points(self) -> list[RewindPoint]:
        """The messages of the person that are part of the conversation now, oldest first."""

    async def changes(self) -> list[FileDiff]:
        """The changes of agents that wait for a review."""


class SessionPort(EventSource, Protocol):
    """What `Session` and `SessionObserver` both are: the part of a session that changes nothing."""

    @property
    def id(self) -> str:
        """The whole id of the session."""

    @property
    def rewind(self) -> RewindReader:
        """The person's messages and the changes of agents."""

    async def close(self) -> None:
        """Release what was opened to read it. May be called twice."""
