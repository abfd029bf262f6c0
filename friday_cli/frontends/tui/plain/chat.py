"""The chat as linear text: no screen of its own, nothing is drawn over; for screen readers and terminals that can do no more.

Interface: `Linear(options, cwd=..., first=..., pick=..., env=...)`, `await run()` gives the exit code; `controller` is what it
folds. A line is a message, a `/` command, `!` a shell command, or the answer to the open question. Everything from a model
or a tool passes `core.plain`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.sanitize import sanitize, sanitize_line, show_invisible
from friday_cli.extensions.commands import CustomCommand, CustomCommands
from friday_cli.view import MessageItem

from ..commands import slash_commands
from ..commands.command_output import diff_card
from ..commands.context import NOTHING
from ..controller import Make, SessionController
from ..keys.double_press import DoublePress
from ..state.keymap import Keys
from ..status_text import read_only_reason
from ..widgets.message_queue import Draft
from .approvals import PlainApprovals
from .writer import PlainWriter

if TYPE_CHECKING:
    from friday_cli.workspace.checkpoints.review import FileDiff

    from ..widgets.diff_review import ReviewActions

_ENDS = {signal.SIGTERM: 143, signal.SIGHUP: 129}
READ = 65_536


class PlainChat:
    """The chat on standard input and output. It is the `CommandContext` of plain text."""

    def __init__(
        self, options: Make, *, cwd: Path, first: str = "", pick: bool = False, env: Mapping[str, str] | None = None
    ) -> None:
        self.controller = SessionController(options, on_change=self._changed, env=env)
        self._cwd, self._first, self._pick = cwd, first, pick
        self._news = asyncio.Event()
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._typed = b""
        self._queue: list[str] = []
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._presses = DoublePress()
        self.customs, self.keys = CustomCommands(), Keys()
        self._writer = PlainWriter(self._say)
        self._approvals = PlainApprovals(self._say, self.controller)

    # ---- the loop ------------------------------------------------------------------------

    async def run(self) -> int:
        """Talk until the person leaves. Raises FridayError when no session can be opened."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number, code in _ENDS.items():
            loop.add_signal_handler(number, self._leave, code)
        await self.controller.open()
        badge = self.controller.session.root.provider.badge if self.controller.session else ""
        self._say(f"Friday in {self._cwd}. {badge + '. ' if badge else ''}/help lists the commands, Ctrl-D quits.")
        if watched_now := read_only_reason(self.controller):
            self._say(f"{watched_now}.")
        if self._pick:
            await self.pick_session()
        if self._first:
            self._begin(self._heard(self._first))
        loop.add_reader(sys.stdin.fileno(), self._read)
        follow = asyncio.create_task(self._follow_all())
        try:
            done, _ = await asyncio.wait([self._over, follow], return_when=asyncio.FIRST_COMPLETED)
            return self._over.result() if self._over in done else follow.result()
        finally:
            loop.remove_reader(sys.stdin.fileno())
            for task in (follow, *self._tasks):
                task.cancel()
            await asyncio.gather(follow, *self._tasks, return_exceptions=True)

    async def _follow_all(self) -> int:
        while True:
            await self._news.wait()
            self._news.clear()
            if self.controller.failure is not None:
                raise self.controller.failure
            for words in self.controller.told:
                self._say(f"Note: {words}")
            self.controller.told.clear()
            self._follow()
            if self._writer.idle and self._queue and not self.controller.working:
                waiting, self._queue = "\n\n".join(self._queue), []
                await self.send(waiting)
            elif self.controller.working and (root := self.controller.state.root) is not None and root.ended:
                asyncio.get_running_loop().call_later(0.05, self._news.set)  # its end is told before it is over
            await asyncio.sleep(0.05)

    def _changed(self) -> None:
        self._news.set()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._over.done():
            self._over.set_exception(error)

    def _say(self, text: str) -> None:
        print(sanitize(text), flush=True)

    def _leave(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    def _interrupt(self) -> None:
        """Ctrl-C: interrupt; twice in a row: quit."""
        if self._presses.again("quit"):
            self._leave(0)
        elif self.controller.working:
            self._begin(self.controller.interrupt())
            self._say("Interrupted. Ctrl-C again quits.")
        else:
            self._say("Ctrl-C again quits.")

    # ---- what the person types --------------------------------------------------------------

    def _read(self) -> None:
        data = os.read(sys.stdin.fileno(), READ)
        if not data:
            self._leave(0)
            return
        *whole, self._typed = (self._typed + data).split(b"\n")
        for raw in whole:
            self._begin(self._heard(raw.decode(errors="replace").strip()))

    async def _heard(self, text: str) -> None:
        try:
            if self._approvals.open and not text.startswith("/"):
                await self._approvals.answer(text)
            elif text.startswith("!") and text.strip("!"):
                await self._shell(text)
            elif slash_commands.is_command(text):
                if not await slash_commands.run(self, Draft(text)):
                    self._say(f"There is no command {text.split()[0]}. /help lists them.")
            elif text:
                async with self._turn:  # one message after the other: with each the agent may begin
                    await self._message(text)
        except FridayError as error:
            self._say(f"Error: {error}")

    async def _message(self, text: str) -> None:
        if self.controller.working:
            self._queue.append(text)
            self._say("Queued: sent when the agent has ended its turn.")
        else:
            await self.send(text)

    async def _shell(self, text: str) -> None:
        command = text.lstrip("!").strip()
        code, output = await self.controller.run(command, lambda part: None, keep=not text.startswith("!!"))
        self._say(f"{output.rstrip()}\nExit code {code}.")

    def _follow(self) -> None:
        self._writer.follow(self.controller.state)
        self._approvals.follow()

    # ---- what commands ask for --------------------------------------------------------------------

    def show_card(self, markdown: str) -> None:
        self._say(markdown)

    def say_note(self, text: str, level: Literal["information", "warning", "error"] = "information") -> None:
        self._say(text if level == "information" else f"{level.capitalize()}: {text}")

    async def reopen(self, **changes: Any) -> bool:
        if wrong := await self.controller.switch(**changes):
            self.say_note(str(wrong), "error")
        self._writer = PlainWriter(self._say)
        self._approvals = PlainApprovals(self._say, self.controller)
        self._follow()
        return wrong is None

    async def send(self, text: str) -> None:
        for remark in await self.controller.say(text):
            self._say(f"Warning: {remark}")

    async def load_customs(self) -> None:
        self.customs = await slash_commands.load_customs(self.controller.options)

    async def send_custom(self, custom: CustomCommand, rest: str, draft: Draft) -> None:
        if self.controller.working:
            raise UsageError(
                f"{sanitize_line(draft.text, 40)} has to wait: the agent is at work. Ctrl-C interrupts it."
            )
        await self.controller.say(custom.words(rest), task=draft.text, bounds=custom.bounds())

    async def pick_session(self) -> None:
        from friday_cli.paths import store_path
        from friday_cli.store import Store

        async with Store(store_path()) as store:
            found = await store.list_sessions(self._cwd)
        for known in found[:20]:
            self._say(f"{known.id[:8]}: {sanitize_line(known.title, 100)}")
        self._say("/resume ID goes on with one.")

    async def choose(
        self, title: str, choices: Sequence[tuple[str, str]], *, at: int = 0, about: Mapping[str, str] = NOTHING
    ) -> str | None:
        rows = [
            label if label == key or label.startswith(f"{key}:") else f"{key}: {label}" for key, label in choices if key
        ]
        names = [sanitize_line(row, 200) for row in rows]
        self._say("\n".join([title, *names, "Write the command again, with one of them behind it."]))
        return None

    async def review(self, rows: Sequence[FileDiff], actions: ReviewActions) -> None:
        self._say(diff_card(rows))

    def offer(self, text: str) -> None:
        self._say(f"Your message was:\n{show_invisible(text)}")

    async def copy_text(self, text: str) -> None:
        raise UsageError("There is no clipboard in plain text.", hint="Select it in your terminal, or use /export.")

    async def leave(self) -> None:
        self._leave(0)

    def last_reply(self) -> str:
        root = self.controller.state.root
        said = [i.text for i in root.transcript if isinstance(i, MessageItem) and i.role == "assistant"] if root else []
        return said[-1] if said else ""

    def look_for(self, text: str) -> None:
        raise UsageError("Plain text has no search.", hint="Your terminal's own search sees all of it.")

    def focus_tree(self) -> None:
        from friday_cli.view import render_tree

        self._say("\n".join(render_tree(self.controller.state)) or "No agents yet.")

    def use_theme(self, name: str) -> None:
        raise UsageError("Plain text has no themes.")
