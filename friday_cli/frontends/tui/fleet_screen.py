"""The list of all sessions as a screen. A question is answered here only while all of it is shown."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar, Literal, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import WorkerFailed

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.format import is_demo, pluralize, short_cost
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.text.deceptive import show_deceptive
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.session.fleet import FleetRow, OpenQuestion
from friday_cli.system import event_loop
from friday_cli.system.other_machine import by_ssh, starts_one
from friday_cli.system.paths import with_tilde

from .notifications import TerminalSignals
from .terminal.driver import Listening
from .widgets.text_field import TextField

REFRESH_S, AGED_S = 0.2, 5.0
"""Seconds between two looks for changes, and until the ages of the rows are shown again."""
STYLES = {"needs you": "bold yellow", "working": "cyan", "idle": "", "interrupted": "red", "ended": "dim"}
KEYS = "Enter open · Space peek · y n 1-9 answer · r reply · x stop · / find · N new · e ended · q quit"
SHORT_KEYS = "Enter open · Space peek · y n 1-9 answer · r reply · x stop · / find · q quit"
"""Where the row above does not fit."""
WIDE = 110
"""Columns from which a row has the agents at work and the cost."""
PEEKED = 10
"""Lines of the conversation that a peek shows."""
AGAIN_S = 5.0
"""Seconds for the second x, as long as the note about it is shown."""
GRACE_S = 0.5
"""Seconds after which a question that appears can be answered: a key may have been meant for what was there before."""
Read = Callable[[], list[FleetRow]]
Ask = Literal["", "find", "reply", "new"]
PROMPTS = {"find": "Title, folder or question; Enter keeps it, Esc shows all", "reply": "Message; Enter sends it"}


class FleetActions(Protocol):
    """What the screen does to sessions. Each raises FridayError."""

    async def stop(self, session: str) -> None:
        """End a session."""

    async def answer(self, session: str, question: OpenQuestion, words: str) -> bool:
        """Answer a question with yes, no, a text, or the number of a choice; False if it is no longer open."""

    async def say(self, row: FleetRow, text: str) -> None:
        """Send a message to the main agent of a session; one that no process owns is resumed with it, in the background."""

    async def newest(self, session: str, rows: int) -> list[str]:
        """The last lines of the conversation: untrusted text."""

    async def start(self, folder: str, text: str) -> str:
        """Start a session in a folder. The result is its id."""


class FleetApp(App[str]):
    """Returns the id of the session to open, None at the end. `read` gives the rows and blocks; `first` are those of now."""

    TITLE = "Friday: sessions"
    CSS = """
    OptionList { height: 1fr; border: none; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #about { height: auto; max-height: 60%; border: round $primary; padding: 0 1; }
    #keys, #line { height: 1; padding: 0 1; }
    #line { display: none; border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit", id="fleet.quit"),
        Binding("escape,ctrl+c", "leave", "Close what is open, else quit", priority=True, id="fleet.leave"),
        Binding("space", "peek", "Show the last lines of its conversation", id="fleet.peek"),
        Binding("r", "write('reply')", "Reply to it, or answer in your own words", id="fleet.reply"),
        Binding("x", "stop", "Stop it; twice", id="fleet.stop"),
        Binding("slash", "write('find')", "Find by title, folder or question", id="fleet.find"),
        Binding("n", "no_or_new", "No to its permission request, else: start a session", id="fleet.no_or_new"),
        Binding("N", "write('new')", "Start a session in the folder of the chosen one", id="fleet.new"),
        Binding("y", "answer('yes')", "Yes to its permission request, this once", id="fleet.yes"),
        Binding("e", "fold", "Show or hide sessions that have ended", id="fleet.ended"),
        *(Binding(str(n), f"answer('{n}')", f"Choice {n}", show=False, id=f"fleet.{n}") for n in range(1, 10)),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, read: Read, actions: FleetActions, *, first: Sequence[FleetRow] = (), chosen: str = "") -> None:
        super().__init__(partial(Listening, on_closed=partial(self.exit, return_code=129)))  # type: ignore[arg-type]
        self._read, self._actions = read, actions
        self._all = list(first)
        self._rows: list[FleetRow] = []
        self._chosen, self._query = chosen, ""
        self._asked_at = -AGAIN_S
        """When a first x asked for a second one for the chosen session."""
        self._shows_ended = True
        self._peeked = ""
        """The lines of the chosen session; "" without a peek."""
        self._asks: Ask = ""
        self._question: tuple[str, str] = ("", "")
        """The session and the id of the question that is shown."""
        self._since = self._shown_at = 0.0
        self.terminal = TerminalSignals(self)
        self._told: set[tuple[str, str]] = set()
        """Questions (session, id) of which the person was notified, or that were open at the beginning."""

    def _fatal_error(self) -> None:
        """Without a traceback on the screen: `chosen_of` raises the error."""
        self._close_messages_no_wait()

    def compose(self) -> ComposeResult:
        yield OptionList()
        with VerticalScroll(id="about", can_focus=False):
            yield Static()
        yield TextField(id="line", compact=True)
        yield Static(id="keys")

    def on_resize(self, event: Resize) -> None:
        """Name the keys that fit."""
        if self._all:
            self._show()
        keys = KEYS if event.size.width > len(KEYS) + 1 else SHORT_KEYS
        self.query_one("#keys", Static).update(Text(keys, style="dim", no_wrap=True, overflow="ellipsis"))

    def on_mount(self) -> None:
        self.animation_level = "none"
        for number in (signal.SIGTERM, signal.SIGHUP):
            with suppress(RuntimeError, ValueError):  # not the main thread: a test
                asyncio.get_running_loop().add_signal_handler(number, partial(self.exit, return_code=128 + number))
        self.query_one(OptionList).focus()
        if self._all:
            self._show()
            self._tell()
        self.run_worker(self._follow())

    async def _follow(self) -> None:
        while True:
            try:
                rows = await asyncio.to_thread(self._read)
            except FridayError as error:
                self._fail(error)
            else:
                aged = time.monotonic() - self._shown_at >= AGED_S
                if rows != self._all or not rows or aged:
                    self._all = rows
                    self._show()
                    self._tell()
            await asyncio.sleep(REFRESH_S)

    def _show(self) -> None:
        """Show the rows that are wanted; the same session stays chosen."""
        self._shown_at = time.monotonic()
        words = self._query.lower().split()
        found = [row for row in self._all if all(word in _searched(row) for word in words)]
        self._rows = rows = [row for row in found if self._shows_ended or row.state != "ended"]
        options = self.query_one(OptionList)
        chosen = self._chosen
        options.clear_options()
        options.add_options([Option(_line(row, time.time(), wide=self.size.width >= WIDE), id=row.id) for row in rows])
        if hidden := len(found) - len(rows):
            text = Text(f"{pluralize(hidden, 'session')} ended: e shows", style="dim")
            options.add_option(Option(text, disabled=True))
        if rows:
            options.highlighted = next((at for at, row in enumerate(rows) if row.id == chosen), 0)
        self._describe()

    def _tell(self) -> None:
        """Say in the terminal's title how many need the person, and notify of a new question, each once."""
        waiting = sum(row.state == "needs you" for row in self._all)
        questions = {(row.id, asked.id) for row in self._all for asked in row.questions}
        if self.terminal.title and questions - self._told:
            self.terminal.notify(f"Friday: {pluralize(waiting, 'session')} {'needs' if waiting == 1 else 'need'} you")
        self._told |= questions
        self.terminal.set_title(f"? {waiting} · friday agents" if waiting else "friday agents")

    def _row(self) -> FleetRow | None:
        """The session that keys act on."""
        index = self.query_one(OptionList).highlighted  # a message about it may still wait
        return self._rows[index] if index is not None and index < len(self._rows) else None

    def _describe(self) -> None:
        row = self._row()
        shown = (row.id, row.questions[0].id) if row is not None and row.questions else ("", "")
        if shown != self._question:
            self._question, self._since = shown, time.monotonic()
        text = f"No sessions. n starts one, or: {starts_one()}" if row is None else _about(row)
        if self._all and row is None:
            hidden = self.query_one(OptionList).option_count
            text = "All of them have ended; e shows them." if hidden else "No session matches."
        self.query_one("#about Static", Static).update(Text(self._peeked or text))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if self._chosen != event.option.id:
            self._chosen, self._peeked, self._asked_at = event.option.id or "", "", -AGAIN_S
        self._describe()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.exit(event.option.id)

    def _fail(self, error: FridayError) -> None:
        self.notify(sanitize(str(error)), severity="error", markup=False)

    async def _try(self, action: Awaitable[object]) -> object:
        """The result of an action; None if it failed, which is said."""
        try:
            return await action
        except FridayError as error:
            self._fail(error)
            return None

    # ---- keys --------------------------------------------------------------------------------------------------------

    def action_leave(self) -> None:
        if self._asks or self._query or self._peeked:
            self._query = "" if self._asks in ("", "find") else self._query
            self._peeked = ""
            self._close_line()
            self._show()
        else:
            self.exit()

    async def action_peek(self) -> None:
        row = self._row()
        if row is None or self._peeked:
            self._peeked = ""
        elif isinstance(lines := await self._try(self._actions.newest(row.id, PEEKED)), list):
            self._peeked = "\n".join(sanitize_line(line, 400) for line in lines) or "(no messages)"
        self._describe()

    def action_fold(self) -> None:
        self._shows_ended = not self._shows_ended
        self._show()

    def action_no_or_new(self) -> None:
        row = self._row()
        if row is not None and row.questions and row.questions[0].tool:
            self.run_worker(self.action_answer("no"))
        else:
            self.action_write("new")

    async def action_answer(self, words: str) -> None:
        """Answer the question that is shown, if all of it is."""
        row = self._row()
        if row is None or not row.questions or self._question != (row.id, row.questions[0].id):
            return
        question, about = row.questions[0], self.query_one("#about", VerticalScroll)
        if question.tool and words.isdecimal():
            words = {"1": "yes", "2": "no"}.get(words, "")
        elif not question.tool and not (words.isdecimal() and int(words) <= len(question.choices)):
            words = ""
        if words and time.monotonic() - self._since < GRACE_S:
            self._since = time.monotonic()
        elif words and words != "no" and (not question.whole or self._peeked or about.max_scroll_y > 0):
            self.notify("This question is not shown in full here. Press Enter to open the session.", severity="warning")
        elif words and await self._try(self._actions.answer(row.id, question, words)) is False:
            self.notify("That question is no longer open.", severity="warning")

    async def action_stop(self) -> None:
        """Stop the session at the second press."""
        row = self._row()
        if row is None or row.pid is None:
            return
        if time.monotonic() - self._asked_at >= AGAIN_S:
            self._asked_at = time.monotonic()
            self.notify(
                f"Press x again to stop {row.id[:8]} with {pluralize(row.at_work, 'agent')} at work.", markup=False
            )
            return
        await self._try(self._actions.stop(row.id))

    # ---- the line at the bottom --------------------------------------------------------------------------------------

    def action_write(self, asks: Ask) -> None:
        """Open the line."""
        row = self._row()
        if asks == "reply" and row is None:
            return
        self._asks = asks
        line = self.query_one("#line", Input)
        line.placeholder = (
            PROMPTS.get(asks) or f"Task of a new session in {with_tilde(sanitize_line(self._folder(), 200))}"
        )
        line.value, line.display = self._query if asks == "find" else "", True
        line.focus()

    def _folder(self) -> str:
        row = self._row()
        return row.cwd if row is not None else os.getcwd()

    def _close_line(self) -> None:
        self._asks = ""
        self.query_one("#line").display = False
        self.query_one(OptionList).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._asks == "find":
            self._query = event.value
            self._show()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        asks, text, row, folder = self._asks, event.value.strip(), self._row(), self._folder()
        self._close_line()
        if not text or asks == "find":
            return
        if asks == "new":
            begun = await self._try(self._actions.start(folder, text))
            self._chosen = str(begun or self._chosen)
        elif row is not None and row.questions and not row.questions[0].tool:
            await self._try(self._actions.answer(row.id, row.questions[0], text))
        elif row is not None:
            await self._try(self._actions.say(row, text))


def chosen_of(app: FleetApp) -> str:
    """Show the list; returns the id of the session to open, "" at the end. Raises the error that ended it."""
    chosen = event_loop.run(app.run_async())
    if (error := app._exception) is not None:
        raise error.error if isinstance(error, WorkerFailed) else error
    return chosen or ""


def _searched(row: FleetRow) -> str:
    return " ".join((row.id, row.title, row.cwd, row.state, *(asked.text for asked in row.questions))).lower()


def _line(row: FleetRow, now: float, *, wide: bool) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{row.id[:8]}  ", style="dim")
    text.append(f"{row.state:<11}  ", style=STYLES[row.state])
    text.append(f"{_age(now - row.updated):>4}  ", style="dim")
    if wide:
        text.append(f"{pluralize(row.at_work, 'agent') if row.at_work else '':>10}  ")
        text.append(f"{_cost(row):>7}  ", style="dim")
    if row.mode == "yolo":
        text.append("yolo  ", style="bold red")
    waits = f"waiting: {sanitize_line(row.waits, 120)}" if row.waits else ""
    if row.questions:
        asked = row.questions[0]
        waits = f"{asked.tool or 'asks'}: {sanitize_line(asked.text, 120)}"
    text.append(sanitize_line(row.title, 120 if not waits else 60 if wide else 24) or "(untitled)")
    text.append(f"  {waits}" if waits else "", style="yellow")
    text.append(f"  {_where(row)}", style="dim")
    return text


def _where(row: FleetRow) -> str:
    """The folder, and its branch."""
    branch = f" ⎇ {sanitize_line(row.branch, 60)}" if row.branch else ""
    return f"{with_tilde(sanitize_line(row.cwd, 400))}{branch}"


def _cost(row: FleetRow) -> str:
    if is_demo(row.model):
        return "demo"
    return "n/a" if row.cost_usd is None else short_cost(Usage(cost_usd=row.cost_usd))


def _about(row: FleetRow) -> str:
    """What is known of a session, with all of what it asks."""
    where = "" if row.pid is None else f" · process {row.pid}" + ("" if row.reachable else ", in a terminal")
    lines = [
        sanitize_line(row.title, 400),
        f"{row.model} · {pluralize(row.at_work, 'agent')} at work · {row.tokens:,} tokens · cost {_cost(row)}{where}",
        _where(row),
    ]
    if row.waits:
        lines += ["", f"waiting: {sanitize_line(row.waits, 120)}; `{by_ssh('friday budget set')}` raises it"]
    for asked in row.questions:
        lines += ["", f"{asked.agent} {'wants ' + asked.tool if asked.tool else 'asks'}:", show_deceptive(asked.text)]
        lines += [
            f"  {number} {sanitize_line(choice, 400)}" for number, choice in enumerate(asked.choices, 1) if choice
        ]
    return "\n".join(lines)


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"
