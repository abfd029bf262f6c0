"""Unexpected errors of the screen: one of a part is logged and shown as a line, and the chat goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from textual.css.query import NoMatches
from textual.message import Message
from textual.message_pump import MessagePump
from textual.widget import MountError

from friday_cli.diagnostics.log_file import report_defect  # before no more files can be opened

MOST, WITHIN_S = 8, 5.0
"""As many unexpected errors within so many seconds mean that the screen cannot be used any more."""


class Defects:
    """The unexpected errors of one app. `say` shows a line to the user; `is_fatal` tells of an error after which the screen follows
    nothing any more."""

    def __init__(self, say: Callable[[str], None], is_fatal: Callable[[BaseException], bool]) -> None:
        self._say, self._is_fatal = say, is_fatal
        self._times: list[float] = []
        self.seen: list[BaseException] = []
        """All of them, the oldest first."""

    def survived(self, error: BaseException) -> bool:
        """Log an error with its traceback and tell the user. False if it, or so many of
        them, mean that the screen cannot be used any more."""
        self.seen.append(error)
        now = time.monotonic()
        self._times = [at for at in self._times if now - at < WITHIN_S] + [now]
        if len(self._times) >= MOST or isinstance(error, MemoryError) or self._is_fatal(error):
            return False
        self._say(f"{report_defect(error)} The session continues.")
        return True

    def keeps_going(self, error: Exception, pump: MessagePump) -> bool:
        """Whether a widget goes on with its next message after an error in a handler. One that is being removed has nothing to
        miss."""
        gone = not pump.is_attached or pump._closing
        return (gone and isinstance(error, (NoMatches, MountError))) or self.survived(error)


def _guarded(
    dispatch: Callable[[MessagePump, Message], Coroutine[Any, Any, None]],
) -> Callable[[MessagePump, Message], Coroutine[Any, Any, None]]:
    """A widget ends its loop with the first exception of a handler, after which it answers nothing. Textual has no public place to
    go on: `App._handle_exception` is told when the loop has ended, and a class of ours would miss Textual's own widgets."""

    @wraps(dispatch)
    async def guarded(self: MessagePump, message: Message) -> None:
        try:
            await dispatch(self, message)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            defects = getattr(self.app, "defects", None)
            if not isinstance(defects, Defects) or not self.app.is_running or not defects.keeps_going(error, self):
                raise

    return guarded


MessagePump._dispatch_message = _guarded(MessagePump._dispatch_message)  # type: ignore[method-assign, assignment]
