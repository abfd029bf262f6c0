"""Runs the person's own command (`notify.command` in the settings) when something needs them, for every frontend."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.events import QuestionAsked
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view import SessionView

WAIT_S = 5.0
"""Seconds that something must need the person: who answers sooner has seen it."""
LONG_TURN_S = 10.0
"""The end of a longer turn is told."""
COMMAND_S = 10.0
"""Seconds after which the command is stopped."""


class LongTurn:
    """Tells when a turn of the main agent ended that took long."""

    def __init__(self) -> None:
        self._since: float | None = None

    def ended(self, working: bool) -> bool:
        """Whether a long one has just ended. `working`: whether the main agent is at work now."""
        now, since = time.monotonic(), self._since
        self._since = (since or now) if working else None
        return not working and since is not None and now - since > LONG_TURN_S


class PersonNotifier:
    """Runs the command once for each question, permission and cap that still needs the person after `wait_s` seconds, with what
    it is as its last word. That is a fixed text with the name of the folder, never a text of the session. The command gets no keys and no
    terminal. `say` gets what went wrong, once. Needs a running loop."""

    def __init__(self, cwd: Path, say: Callable[[str], None], *, wait_s: float = WAIT_S) -> None:
        self._cwd, self._say, self._wait_s = cwd, say, wait_s
        self._open: dict[str, asyncio.TimerHandle] = {}
        self._told: set[str] = set()
        """Questions and permissions: each is told once, whoever looks at it meanwhile."""
        self._running = BackgroundTasks()
        self._failed = False

    def follow(self, state: SessionView) -> None:
        """Something may need the person now, or no longer."""
        needs = {
            f"ask {name}": "a question" if isinstance(ask.event, QuestionAsked) else "a permission"
            for name, ask in state.asks.items()
        }
        if any(agent.waits_for_cap for agent in state.working):
            needs["cap"] = "a cap is reached"
        for gone in self._open.keys() - needs.keys():
            self._open.pop(gone).cancel()
        for new in needs.keys() - self._open.keys() - self._told:
            loop = asyncio.get_running_loop()
            self._open[new] = loop.call_later(self._wait_s, self._due, new, f"needs you: {needs[new]}")

    def _due(self, name: str, text: str) -> None:
        if name != "cap":
            self._told.add(name)
        self.tell(text)

    def tell(self, text: str) -> None:
        """Run the command now."""
        self._running.start(self._run(text))

    async def close(self) -> None:
        """Tell nothing more, and end what runs."""
        for timer in self._open.values():
            timer.cancel()
        await self._running.end()

    async def _run(self, text: str) -> None:
        from friday_cli.session import lists

        from . import person_program

        try:
            command = (await asyncio.to_thread(lists.settings, self._cwd)).notify.command
            if not command:
                return
            nothing = asyncio.subprocess.DEVNULL
            words = (*command, f"{text} ({sanitize_line(self._cwd.name, 40)})")
            process = await person_program.start(words, self._cwd, stdin=nothing, stdout=nothing, stderr=nothing)
        except (OSError, FridayError) as error:
            return self._report(f"it could not be started: {getattr(error, 'strerror', None) or error}")
        try:
            code = await asyncio.wait_for(process.wait(), COMMAND_S)
        except TimeoutError:
            return self._report(f"it took longer than {COMMAND_S:.0f} s")
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                await process.wait()
        if code:
            self._report(f"it ended with exit code {code}")

    def _report(self, problem: str) -> None:
        if not self._failed:
            self._failed = True
            self._say(f"notify.command in your settings: {problem}.")
