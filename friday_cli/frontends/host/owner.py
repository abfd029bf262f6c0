"""A process that owns a session and has no terminal: how it begins, and how long it runs."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.text.sanitize import sanitize
from friday_cli.session import wire
from friday_cli.session.commands import Stop
from friday_cli.session.port import SessionPort
from friday_cli.system.other_machine import typed
from friday_cli.view import SessionView
from friday_cli.view.follower import SessionFollower

from ..person_notifier import LongTurn, PersonNotifier
from .server import SessionServer

if TYPE_CHECKING:
    from friday_cli.session.open_context import Options

log = logging.getLogger(__name__)

SETTLE_S = 0.1
"""Seconds from the last event of a run until the session is idle."""


class Starter:
    """What a process in the background tells the one that started it, until `started` or `failed` is called once."""

    def __init__(self, pipe: int) -> None:
        self._pipe: int | None = pipe

    def started(self, session: str) -> None:
        """The work has begun, and its first events are on disk: the starter ends, and this process has no terminal."""
        self._tell({"session": session})
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.close(nothing)

    def failed(self, code: int) -> None:
        """The work did not begin; what failed was written to standard error."""
        self._tell({"code": code})

    def _tell(self, words: dict[str, object]) -> None:
        if self._pipe is not None:
            with suppress(OSError):  # the starter was killed: the work goes on
                os.write(self._pipe, json.dumps(words).encode())
            os.close(self._pipe)
            self._pipe = None


def run_in_background(work: Callable[[Starter], int]) -> int:
    """Let a process without a terminal do `work`, and return when it has begun; the result is an exit code. What the work
    writes before that is seen. Call it before an event loop or a thread runs."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        starter, code = Starter(writing), 1
        try:
            code = work(starter)
        finally:
            starter.failed(code)
            with suppress(OSError):
                sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        words = json.loads(pipe.read() or b"{}")
    if "session" not in words:
        return int(words.get("code") or 1)
    session = str(words["session"])[:8]
    print(f"friday: session {session} runs in the background.")
    for does, command in (("attach", "attach {}"), ("follow", "agents logs {} --follow"), ("stop", "agents stop {}")):
        print(f"  {does}:".ljust(10) + sanitize(typed(f"friday {command.format(session)}")))
    return 0


class BackgroundOwner:
    """Serves a session without a terminal; a `SessionOwner`. `options`: those that it was opened with. `busy`: whether something
    of this process, such as a loop, has more to do between two messages; call `frontends_changed` when that may have changed."""

    def __init__(self, session: SessionPort, options: Options, *, busy: Callable[[], bool] = lambda: False) -> None:
        self.session, self._options, self._busy = session, options, busy
        self.ending = False
        """Whether a frontend or a signal let it end."""
        self._stopping: asyncio.Task[int] | None = None
        self._changed = asyncio.Event()
        self._server = SessionServer(self)
        self._follower: SessionFollower | None = None
        self._view = SessionView()
        self._notifier, self._turn = PersonNotifier(options.cwd, log.warning), LongTurn()

    def open(self) -> None:
        """Serve the session from now on. Raises FridayError."""
        self._server.open()
        self._follow()

    async def until_unused(self) -> None:
        """Return when no agent works, no question is open and no frontend is connected: then everything is on disk, and whoever
        comes later resumes the session. Returns at once when the process is to end."""
        while not self.ending:
            self._changed.clear()
            await asyncio.sleep(SETTLE_S)
            await self._server.opened.wait()
            facts = self.session.facts
            if not (self._server.clients or facts.at_work or self._busy()) and facts.idle:
                return
            await self._changed.wait()

    def _follow(self) -> None:
        self._follower = SessionFollower(self.session, self._on_event, after=self.session.since, lull_s=1.0)

    async def reopen(self, wanted: wire.Reopening) -> None:
        """See `SessionOwner.reopen`. Where the options that it had do not open it either, this ends."""
        if self._busy():
            raise UsageError("A loop runs in this session, so it cannot be reopened. `/loop stop` ends it first.")
        from friday_cli.session.session import Session

        set_ = {
            name: value for name in ("model", "effort", "mode") if (value := getattr(wanted, name)) is not msgspec.UNSET
        }
        before = msgspec.structs.replace(self._options, resume=self.session.id, mode=self.session.facts.mode)
        dirs = (*before.add_dirs, *(Path(folder) for folder in wanted.add_dirs))
        self._options = msgspec.structs.replace(before, add_dirs=dirs, **set_)
        try:
            await self.session.close()
        except Exception as error:  # it is closed all the same
            log.warning("session %s: %s", self.session.id, error)
        try:
            self.session = await Session.open(self._options)
        except Exception:
            self._options = before
            try:
                self.session = await Session.open(before)
            except Exception:
                self.ending = True
            raise
        finally:
            if not self.ending:
                self._follow()
            self._changed.set()

    def frontends_changed(self) -> None:
        """See `SessionOwner`."""
        self._changed.set()

    async def close(self) -> None:
        """Serve no longer, and close the session."""
        try:
            if self._stopping is not None:
                await asyncio.gather(self._stopping, return_exceptions=True)
            if self._follower is not None:
                await self._follower.cancel()
            await self._notifier.close()
            await self._server.close()
        finally:
            await self.session.close()

    def _on_event(self, envelope: Envelope, replayed: bool) -> None:
        if envelope.seq is not None:
            self._changed.set()
            self._view.apply(envelope)
            self._notifier.follow(self._view)
            if self._turn.ended(any(agent.path == "a" for agent in self._view.working)):
                self._notifier.tell("is done")

    def end(self) -> None:
        """Stop all agents, and let `until_unused` return."""
        self.ending = True
        self._changed.set()
        self._stopping = asyncio.ensure_future(self.session.do(Stop()))
