"""The chat as linear text: no screen of its own, nothing is drawn over; for screen readers and terminals that can do no more.

Interface: `Linear(options, cwd=..., first=..., pick=..., env=...)`, `await run()` gives the exit code; `engine` is what it
folds. A line is a message, a `/` command, `!` a shell command, or the answer to the open question. Everything from a model
or a tool passes `core.plain`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.events import QuestionAsked
from friday_cli.core.text.sanitize import sanitize, sanitize_line, show_invisible
from friday_cli.extensions.commands import CustomCommand, CustomCommands, load
from friday_cli.view import MessageItem, PendingAsk

from ..agent_actions import AGAIN_S
from ..commands import slash_commands
from ..commands.command_output import diff_card
from ..commands.context import NOTHING, CommandContext
from ..controller import Make, SessionController
from ..state.keymap import Keys
from ..status_text import watched
from ..widgets.approval_options import options_of
from ..widgets.approval_panel import GRACE_S
from ..widgets.message_queue import Draft
from ..widgets.tool_blocks import request_lines
from .writer import PlainWriter

if TYPE_CHECKING:
    from friday_cli.workspace.checkpoints.review import FileDiff

    from ..widgets.diff_review import ReviewActions

_ENDS = {signal.SIGTERM: 143, signal.SIGHUP: 129}
READ = 65_536


class PlainChat(CommandContext):
    """See the module."""

    def __init__(
        self, options: Make, *, cwd: Path, first: str = "", pick: bool = False, env: Mapping[str, str] | None = None
    ) -> None:
        self.engine = SessionController(options, on_change=self._changed, env=env)
        self._cwd, self._first, self._pick = cwd, first, pick
        self._news = asyncio.Event()
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._typed = b""
        self._queue: list[str] = []
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pressed = 0.0
        self.customs, self.keys = CustomCommands(), Keys()
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget what was said of another session."""
        self._telling = PlainWriter(self._say)
        self._asked, self._asked_at = "", 0.0
        self._words_for: ApprovalAnswer | None = None
        """Set while the reason of a "no" is awaited."""

    # ---- the loop ------------------------------------------------------------------------

    async def run(self) -> int:
        """Talk until the person leaves. Raises FridayError when no session can be opened."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        for number, code in _ENDS.items():
            loop.add_signal_handler(number, self._leave, code)
        await self.engine.open()
        badge = self.engine.session.badge if self.engine.session else ""
        self._say(f"Friday in {self._cwd}. {badge + '. ' if badge else ''}/help lists the commands, Ctrl-D quits.")
        if watched_now := watched(self.engine):
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
            if self.engine.failure is not None:
                raise self.engine.failure
            for words in self.engine.told:
                self._say(f"Note: {words}")
            self.engine.told.clear()
            self._follow()
            if self._telling.idle and self._queue and not self.engine.working:
                waiting, self._queue = "\n\n".join(self._queue), []
                await self.send(waiting)
            elif self.engine.working and (root := self.engine.state.root) is not None and root.ended:
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
        now = time.monotonic()
        before, self._pressed = self._pressed, now
        if now - before < AGAIN_S:
            self._leave(0)
        elif self.engine.working:
            self._begin(self._stop())
            self._say("Interrupted. Ctrl-C again quits.")
        else:
            self._say("Ctrl-C again quits.")

    async def _stop(self) -> None:
        await self.engine.stop("a", "abort")

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
            if self._asked and not text.startswith("/"):
                await self._answer(text)
            elif text.startswith("!") and text.strip("!"):
                await self._shell(text)
            elif text.startswith("/") and "/" not in text[1:].partition(" ")[0]:
                if not await slash_commands.run(self, Draft(text)):
                    self._say(f"There is no command {text.split()[0]}. /help lists them.")
            elif text:
                async with self._turn:  # one message after the other: with each the agent may begin
                    await self._message(text)
        except FridayError as error:
            self._say(f"Error: {error}")

    async def _message(self, text: str) -> None:
        if self.engine.working:
            self._queue.append(text)
            self._say("Queued: sent when the agent has ended its turn.")
        else:
            await self.send(text)

    async def _shell(self, text: str) -> None:
        code, output = await self.engine.run(command := text.lstrip("!").strip(), lambda part: None)
        self._say(f"{output.rstrip()}\nExit code {code}.")
        if not text.startswith("!!"):
            self.engine.remember(f"[I ran this command: {command}\nexit code: {code}\n{output[-20_000:]}]")

    async def _answer(self, text: str) -> None:
        ask = self.engine.state.asks.get(self._asked)
        if ask is None:
            return
        if time.monotonic() - self._asked_at < GRACE_S:
            self._say("That was typed before the question was read. Answer it again, please.")
            return
        options = options_of(ask)
        if self._words_for is not None:
            answer: ApprovalAnswer | str = ApprovalAnswer("deny", reason=text)
        elif text.isdecimal() and 1 <= int(text) <= len(options):
            option = options[int(text) - 1]
            if option.words:
                if isinstance(option.answer, ApprovalAnswer):
                    self._words_for = option.answer
                self._say("Why not? It reads this. Enter alone: just no." if option.words == "may" else "Your words:")
                return
            answer = option.answer
        elif isinstance(ask.event, QuestionAsked) and text:
            answer = text
        else:
            self._say(f"Type a number from 1 to {len(options)}.")
            return
        self._words_for = None
        await self.engine.answer(self._asked, answer)

    # ---- what is new -----------------------------------------------------------------------------

    def _follow(self) -> None:
        self._telling.follow(self.engine.state)
        self._asks()

    def _asks(self) -> None:
        asks = self.engine.state.asks
        if self._asked not in asks:
            self._asked, self._words_for = next(iter(asks), ""), None
            if self._asked:
                self._asked_at = time.monotonic()
                self._say("\n".join(_question(asks[self._asked], self.engine)))

    # ---- what commands ask for --------------------------------------------------------------------

    def show_card(self, markdown: str) -> None:
        self._say(markdown)

    def say_note(self, text: str, level: Literal["information", "warning", "error"] = "information") -> None:
        self._say(text if level == "information" else f"{level.capitalize()}: {text}")

    async def reopen(self, **changes: Any) -> bool:
        if wrong := await self.engine.switch(**changes):
            self.say_note(str(wrong), "error")
        self._begin_anew()
        self._follow()
        return wrong is None

    async def send(self, text: str) -> None:
        for remark in await self.engine.say(text):
            self._say(f"Warning: {remark}")

    async def load_customs(self) -> None:
        names = {name for c in slash_commands.COMMANDS for name in (c.name, *c.aliases)}
        options = self.engine.options
        self.customs = await asyncio.to_thread(load, options.cwd, trusted=options.trusted, reserved=names)

    async def send_custom(self, custom: CustomCommand, rest: str, draft: Draft) -> None:
        if self.engine.working:
            raise UsageError(
                f"{sanitize_line(draft.text, 40)} has to wait: the agent is at work. Ctrl-C interrupts it."
            )
        await self.engine.say(custom.words(rest), task=draft.text, bounds=custom.bounds())

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

    async def review(self, rows: Sequence[FileDiff], desk: ReviewActions) -> None:
        self._say(diff_card(rows))

    def offer(self, text: str) -> None:
        self._say(f"Your message was:\n{show_invisible(text)}")

    async def copy_text(self, text: str) -> None:
        raise UsageError("There is no clipboard in plain text.", hint="Select it in your terminal, or use /export.")

    async def leave(self) -> None:
        self._leave(0)

    def last_reply(self) -> str:
        root = self.engine.state.root
        said = [i.text for i in root.transcript if isinstance(i, MessageItem) and i.role == "assistant"] if root else []
        return said[-1] if said else ""

    def look_for(self, text: str) -> None:
        raise UsageError("Plain text has no search.", hint="Your terminal's own search sees all of it.")

    def focus_tree(self) -> None:
        from friday_cli.view import render_tree

        self._say("\n".join(render_tree(self.engine.state)) or "No agents yet.")

    def use_theme(self, name: str) -> None:
        raise UsageError("Plain text has no themes.")


def _question(ask: PendingAsk, engine: SessionController) -> list[str]:
    """An ask as lines: who, for what, what exactly, and the numbered answers."""
    event = ask.event
    who = f"[{sanitize_line(ask.profile, 40) or 'friday'}] {ask.agent}"
    if isinstance(event, QuestionAsked):
        out = [f"{who} asks, for: {sanitize_line(ask.task, 200)}", show_invisible(event.question)]
    else:
        out = [
            f"{who} wants to use {sanitize_line(event.tool, 40)}, for: {sanitize_line(ask.task, 200)}",
            show_invisible(event.subject),
        ]
        out += [show_invisible(event.reason)] if event.reason else []
        run = engine.state.agents[ask.agent].calls.get(event.call_id)
        rest = run.arguments.items() if run is not None else ()
        out += request_lines({name: value for name, value in rest if str(value).strip() != event.subject.strip()})
    out += [f"{number}. {sanitize_line(option.label, 300)}" for number, option in enumerate(options_of(ask), 1)]
    return [*out, "Type the number of your answer."]
