"""The messages that an agent has not read yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from ..eventlog.log import Log
from ..protocol.events import InboxMessage


class Inbox:
    """Messages for an agent that are added to its history at the next turn boundary. `unread` are in the log already."""

    def __init__(self, path: str, log: Log, unread: Iterable[InboxMessage] = ()) -> None:
        self._path = path
        self._log = log
        self._waiting = deque(unread)

    async def put(self, message: InboxMessage) -> None:
        """Add a message; it is in the log when this returns."""
        self._waiting.append(message)
        await self._log.emit(self._path, message)

    def rewind(self, unread: Iterable[InboxMessage]) -> None:
        """Contain these messages only, which are in the log already."""
        self._waiting = deque(unread)

    def empty(self) -> bool:
        """Whether there is no unread message."""
        return not self._waiting

    @property
    def needs_turn(self) -> bool:
        """Whether an unread message is a reason for a turn: one that is not `quiet`."""
        return any(not waiting.quiet for waiting in self._waiting)

    def take_notices(self) -> list[InboxMessage]:
        """Remove and return the unread messages of the harness."""
        notices = [waiting for waiting in self._waiting if waiting.source == "harness"]
        self._waiting = deque(waiting for waiting in self._waiting if waiting.source != "harness")
        return notices

    def take(self) -> InboxMessage:
        """Remove and return the oldest message; the caller adds it to the history."""
        return self._waiting.popleft()

    def take_turn_message(self) -> InboxMessage:
        """Remove and return the oldest message that is not `quiet`; the caller adds it to the history."""
        message = next(waiting for waiting in self._waiting if not waiting.quiet)
        self._waiting.remove(message)
        return message
