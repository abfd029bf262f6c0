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

from friday_cli.core.protocol.events import Envelope
from friday_cli.session.port import SessionPort
from friday_cli.view import SessionView
from friday_cli.view.follower import SessionFollower

from ..person_notifier import PersonNotifier
from .server import SessionServer

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
    print(f"  attach: friday attach {session}\n  follow: friday sessions show {session} --follow")
    print(f"  stop:   friday agents stop {session}")
    return 0


class BackgroundOwner:
    """Serves a session without a terminal. `stop` is called when a frontend or a signal lets the process end."""

    def __init__(self, session: SessionPort, stop: Callable[[], object]) -> None:
        self._session, self._stop = session, stop
        self._ending = False
        self._changed = asyncio.Event()
        self._server = SessionServer(session, self.end, self._changed.set)
        self._follower: SessionFollower | None = None
        self._view = SessionView()
        self._notifier = PersonNotifier(Path.cwd(), log.warning)

    def open(self) -> None:
        """Serve the session from now on. Raises FridayError."""
        self._server.open()

    async def until_unused(self) -> None:
        """Return when no agent works, no question is open and no frontend is connected: then everything is on disk, and whoever
        comes later resumes the session. Returns at once when the process is to end."""
        self._follower = SessionFollower(self._session, self._on_event, after=self._session.since, lull_s=1.0)
        try:
            while not self._ending:
                self._changed.clear()
                await asyncio.sleep(SETTLE_S)
                if not self._server.clients and self._session.facts.idle and not self._session.facts.at_work:
                    return
                await self._changed.wait()
        finally:
            await self._follower.cancel()

    async def close(self) -> None:
        """Serve no longer."""
        await self._notifier.close()
        await self._server.close()

    def _on_event(self, envelope: Envelope, replayed: bool) -> None:
        if envelope.seq is not None:
            self._changed.set()
            self._view.apply(envelope)
            self._notifier.follow(self._view if not self._server.clients else SessionView())  # else a frontend tells

    def end(self) -> None:
        """Stop, and let `until_unused` return."""
        self._ending = True
        self._changed.set()
        self._stop()
