"""The chat as plain lines, for screen readers and for terminals that cannot draw a screen.

A line that is typed is a message (to a sub-agent if it begins with its path, as in `@a.2 go on`), a `/` command, `!` and a
shell command, or the answer to the open question. Everything from a model or a tool is sanitized before it is printed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from friday_cli.core.protocol.errors import BudgetSpent, FridayError
from friday_cli.core.text.sanitize import sanitize
from friday_cli.session.commands import Tell
from friday_cli.system.blocked_process import BlockedWatch

from ...host import terminal
from ..commands import notes, slash_commands
from ..controller import Make, SessionController, addressed, proposed_tokens
from ..keys.double_press import DoublePress
from ..status_text import read_only_reason
from ..widgets.message_queue import Draft
from .approvals import PlainApprovals
from .context import PlainContext
from .writer import PlainWriter

_ENDS = {signal.SIGTERM: 143, signal.SIGHUP: 129}
READ = 65_536


class PlainChat:
    """The chat on standard input and output."""

    def __init__(self, options: Make, *, cwd: Path, first: str = "", pick: bool = False) -> None:
        self._news = asyncio.Event()
        """Set when the session has changed."""
        self.controller = SessionController(options, on_change=self._news.set)
        self._cwd, self._first, self._pick = cwd, first, pick
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._typed = b""
        self._queue: list[str] = []
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._presses = DoublePress()
        self._prompted = False
        """Whether the last thing on the terminal is the sign that it is the user's turn."""
        self._spent: tuple[str, str] | None = None
        """The sub-agent that needs more tokens for a message, and the message, while the user is asked for a number."""
        self._context = PlainContext(self.controller, self._say, leave=lambda: self._leave(0), reopened=self._reopened)
        self._writer = PlainWriter(self._say)
        self._approvals = PlainApprovals(self._say, self.controller)

    async def run(self) -> int:
        """Run until the user quits. Returns the exit code. Raises FridayError when no session can be opened."""
        loop = asyncio.get_running_loop()
        BlockedWatch()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number, code in _ENDS.items():
            loop.add_signal_handler(number, self._leave, code)
        if terminal.life() >= 0:  # its end: the process that the shell waits for was killed
            loop.add_reader(terminal.life(), self._leave, 129)
        await self.controller.open()
        badge = self.controller.session.facts.badge if self.controller.session else ""
        self._say(f"Friday in {self._cwd}. {badge + '. ' if badge else ''}/help lists the commands, Ctrl+D quits.")
        if watched_now := read_only_reason(self.controller):
            self._say(f"{watched_now}.")
        if self._pick:
            await self._context.pick_session()
        self._follow()
        if self._first:
            self._begin(self._handle_input(self._first))
        loop.add_reader(sys.stdin.fileno(), self._read)
        follow = asyncio.create_task(self._follow_all())
        try:
            done, _ = await asyncio.wait([self._over, follow], return_when=asyncio.FIRST_COMPLETED)
            return self._over.result() if self._over in done else follow.result()
        finally:
            loop.remove_reader(sys.stdin.fileno())
            if terminal.life() >= 0:
                loop.remove_reader(terminal.life())
            for task in (follow, *self._tasks):
                task.cancel()
            await asyncio.gather(follow, *self._tasks, return_exceptions=True)

    async def _follow_all(self) -> int:
        while True:
            await self._news.wait()
            self._news.clear()
            if self.controller.fold.failure is not None:
                raise self.controller.fold.failure
            for words in self.controller.told:
                self._say(f"Note: {words}")
            self.controller.told.clear()
            self._follow()
            if self._writer.idle and self._queue and not self.controller.working:
                waiting, self._queue = "\n\n".join(self._queue), []
                await self._context.send(waiting)
            elif self.controller.working and (root := self.controller.state.root) is not None and root.ended:
                # its last event comes before the session is idle
                asyncio.get_running_loop().call_later(0.05, self._news.set)
            await asyncio.sleep(0.05)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._over.done():
            self._over.set_exception(error)

    def _say(self, text: str) -> None:
        if self._prompted:
            print()
        self._prompted = False
        print(sanitize(text), flush=True)

    def _prompt(self) -> None:
        """Show that it is the user's turn."""
        works = self.controller.working or not self._writer.idle or bool(self._queue)
        if sys.stdout.isatty() and not self._prompted and (not works or self._approvals.open):
            print("> ", end="", flush=True)
            self._prompted = True

    def _leave(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    def _interrupt(self) -> None:
        """Ctrl+C: interrupt; twice in a row: quit."""
        if self._presses.again("quit"):
            self._leave(0)
        elif self.controller.working or self.controller.loop.running:
            self._begin(self.controller.interrupt())
            self._say("Stopped. Press Ctrl+C again to quit.")
        else:
            self._say("Press Ctrl+C again to quit.")

    def _read(self) -> None:
        data = os.read(sys.stdin.fileno(), READ)
        if not data:
            self._leave(0)
            return
        self._prompted = False
        *whole, self._typed = (self._typed + data).split(b"\n")
        for raw in whole:
            self._begin(self._handle_input(raw.decode(errors="replace").strip()))

    async def _handle_input(self, text: str) -> None:
        try:
            if self._spent is not None and not text.startswith("/"):
                await self._grant_tokens(*self._spent, text)
            elif self._approvals.open and not text.startswith("/"):
                await self._approvals.answer(text)
            elif text.startswith("!") and text.strip("!"):
                await self._shell(text)
            elif slash_commands.is_command(text := slash_commands.as_command(text)):
                if not await slash_commands.run(self._context, Draft(text)):
                    self._say(slash_commands.unknown(text, self._context.customs))
            elif notes.is_note(text):
                await notes.save(self._context, text.lstrip("#").strip(), "project")
            elif text:
                async with self._turn:  # one message after the other: each may start the agent
                    await self._message(text)
        except FridayError as error:
            self._say(f"Error: {error}")
        self._prompt()

    async def _message(self, text: str) -> None:
        path, rest = addressed(self.controller.state, text)
        if path:
            await self._message_agent(path, rest)
        elif self.controller.working:
            self._queue.append(text)
            self._say("Queued: it is sent when the agent has finished its turn.")
        else:
            await self._context.send(text)

    async def _message_agent(self, path: str, text: str) -> None:
        """Send a message to a sub-agent. For one that has spent its tokens, the user is asked for more."""
        try:
            await self.controller.require_session().do(Tell(path, text))
            self._say(f"Sent to {path}.")
        except BudgetSpent as spent:
            self._spent = path, text
            self._say(f"{spent.message}\nHow many more tokens? Type a number, such as {proposed_tokens(spent)}, or no.")

    async def _grant_tokens(self, path: str, text: str, answer: str) -> None:
        """Send the message that waits for the answer, or give it back."""
        if answer.isdecimal() and int(answer) > 0:
            self._spent = None
            await self.controller.require_session().do(Tell(path, text, int(answer)))
            self._say(f"Sent to {path}.")
        elif answer.lower() in ("n", "no"):
            self._spent = None
            self._context.offer(f"@{path} {text}")
        else:
            self._say("Type a number of tokens, or no.")

    async def _shell(self, text: str) -> None:
        command = text.lstrip("!").strip()
        code, output = await self.controller.run(command, lambda part: None, keep=not text.startswith("!!"))
        self._say(f"{output.rstrip()}\nExit code {code}.")

    def _reopened(self) -> None:
        """Begin the output of another session."""
        self._writer = PlainWriter(self._say)
        self._approvals = PlainApprovals(self._say, self.controller)
        self._follow()

    def _follow(self) -> None:
        self._writer.follow(self.controller.state)
        self._approvals.follow()
        self._prompt()
