"""The status line of the user's own: a row that a program of theirs writes (`tui.status_command` in the settings)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text
from textual.widgets import Static

from friday_cli import __version__
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view import SessionView

from .. import person_program
from .chat_screen import ChatScreen
from .chat_services import ChatServices
from .widgets.status_bar import StatusFacts

PAUSE_S = 1.0
"""Seconds from one run of the program to the next, at least."""
LONGEST_S = 5.0
"""Seconds after which the program is stopped."""
MAX_BYTES = 4_096
"""How much of its output is read."""


class OwnStatus:
    """Runs the program when what it reads has changed, one run at a time, and shows the first line it writes, without escape
    sequences. The program gets no keys and no terminal. What it wrote last stays while it runs or fails; a failure is told
    once."""

    def __init__(self, services: ChatServices, command: Sequence[str]) -> None:
        self._services, self._command = services, command
        self._row = Static(id="own-status", markup=False)
        self._row.display = False
        self._wanted = self._read = b""
        """What the program should read, and what it read last: JSON."""
        self._running = self._failed = False
        self._begun = 0.0

    async def show(self, chat: ChatScreen) -> None:
        """Show the row above the status line."""
        await chat.mount(self._row, before="#status")

    def follow(self, facts: StatusFacts) -> None:
        """Something may have changed."""
        self._wanted = msgspec.json.encode(_input(self._services, facts))
        if self._wanted != self._read and not self._running:
            self._running = True
            self._services.app.run_worker(self._run())

    async def _run(self) -> None:
        try:
            await asyncio.sleep(max(0.0, self._begun + PAUSE_S - time.monotonic()))
            self._begun, self._read = time.monotonic(), self._wanted
            try:
                text = await _output(self._command, self._read, self._services.cwd)
            except (OSError, TimeoutError) as error:
                late = f"it took longer than {LONGEST_S:.0f} s"
                why = late if isinstance(error, TimeoutError) else error.strerror or str(error)
                if not self._failed:
                    self._services.say_note(f"tui.status_command in your settings: {why}.", "warning")
                self._failed = True
            else:
                self._row.display = bool(line := sanitize_line(text, 200))
                self._row.update(Text(line, no_wrap=True, overflow="ellipsis"))
        finally:
            self._running = False
        self._services.schedule_refresh()


async def _output(command: Sequence[str], given: bytes, folder: Path) -> str:
    """The first line that the program writes. Raises OSError, TimeoutError."""
    pipe = asyncio.subprocess.PIPE
    process = await person_program.start(command, folder, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LONGEST_S):
            with suppress(ConnectionError):  # it does not read its input
                process.stdin.write(given)
                await process.stdin.drain()
            process.stdin.close()
            read = b""
            while (
                len(read) < MAX_BYTES and b"\n" not in read.lstrip() and (piece := await process.stdout.read(MAX_BYTES))
            ):
                read += piece
            return next(iter(read[:MAX_BYTES].decode(errors="replace").strip().splitlines()), "")
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, 9)
        await process.wait()


def _input(services: ChatServices, facts: StatusFacts) -> dict[str, Any]:
    """What the program reads; the names are those that other assistants use too."""
    controller = services.controller
    session, state = controller.session, controller.state
    now = session.facts if session else None
    model = now.model if now else ""
    return {
        "session_id": session.id if session else "",
        "cwd": str(services.cwd),
        "workspace": {"current_dir": str(services.cwd), "branch": facts.branch},
        "version": __version__,
        "model": {"id": model, "display_name": model.partition("/")[2], "effort": now.effort if now else None},
        "mode": controller.mode,
        "sandbox": facts.sandbox,
        "cost": {"total_cost_usd": _cost(state)},
        "context_window": {"used_percentage": None if facts.context is None else round(facts.context * 100)},
        "agents": {"running": facts.running, "waiting": facts.waiting, "questions": facts.asks},
    }


def _cost(state: SessionView) -> float | None:
    """US dollars of all agents; None if not all prices are known."""
    return state.usage_of(state.root.path).cost_usd if state.root else 0.0
