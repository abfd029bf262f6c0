"""What a session is to who uses it: data that can leave the process, and what a session that is only observed has too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from friday_cli.core.permissions.decision import Mode
from friday_cli.core.protocol.provider import Effort
from friday_cli.view.follower import EventSource

if TYPE_CHECKING:
    from friday_cli.core.protocol.events import Envelope
    from friday_cli.workspace.checkpoints.review import FileDiff

    from .commands import Command
    from .rewind_result import RewindPoint

R = TypeVar("R")


class RunName(msgspec.Struct, frozen=True):
    """Names a run of an agent. `agent`: its path; `number`: 1 for its first run."""

    agent: str
    number: int


class SessionFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The present state of a session that its events do not tell."""

    model: str
    """Of the main agent: `provider/model`."""
    effort: Effort | None
    """How hard the main agent's model thinks; None: the model's default."""
    badge: str
    """A short mark for a model that a person must not mistake for another, like the demo; else ""."""
    context_window: int
    """Tokens that the main agent's model can read; 0 if unknown."""
    idle: bool
    """Whether the main agent is not running."""
    mode: Mode
    sandbox: str
    """The kind that confines commands."""
    kept: bool
    """Whether all of the session is stored on disk."""
    at_work: int = 0
    """Runs of agents that have not ended."""
    prompts: tuple[tuple[str, str, str], ...] | None = None
    """(command, arguments, description) of the prompts of MCP servers; None without servers."""


class RewindReader(Protocol):
    """Reads the rewind points of a session and the changes of its agents."""

    async def points(self) -> list[RewindPoint]:
        """The messages of the person that are part of the conversation now, oldest first."""

    async def changes(self) -> list[FileDiff]:
        """The changes of agents that wait for a review."""


class SessionReader(EventSource, Protocol):
    """The part of a session that changes nothing: what a `SessionObserver` has, too."""

    @property
    def id(self) -> str:
        """The whole id of the session."""

    @property
    def rewind(self) -> RewindReader:
        """The person's messages and the changes of agents."""

    async def history(self) -> list[Envelope]:
        """All durable events so far."""

    async def close(self) -> None:
        """Release what was opened to read it. May be called twice."""


class SessionPort(SessionReader, Protocol):
    """A session as a frontend uses it: its events, what is so now, and commands. Only data goes through it."""

    @property
    def facts(self) -> SessionFacts:
        """What is so now."""

    async def do(self, command: Command[R], on_output: Callable[[str], None] = lambda text: None) -> R:
        """Carry out a command; the class of each says which errors it raises. `on_output` gets the output of a command of the
        person while it runs."""
