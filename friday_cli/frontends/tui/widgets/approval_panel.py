"""What agents ask, above the prompt: permissions and questions of all agents in one queue, the oldest first.

Interface: `Approval(scene)`, `follow()` (when asks changed), `show_for(path)`, `hold()`, `open` (whether something is
asked).
Message: `Answered(ask_id, answer)`. Nothing is answered in the first half second, nor by a single click.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static

from friday_cli.core.protocol.events import PermissionAsked, QuestionAsked
from friday_cli.core.text.sanitize import sanitize_line, show_invisible
from friday_cli.view import PendingAsk

from ..state import keymap
from .blocks import RenderContext
from .styles import TextRenderer
from .text_input import TextField
from .tool_blocks import wish

if TYPE_CHECKING:
    from friday_cli.core.permissions.approvals import ApprovalAnswer

LOW, LEAST = 26, 2
"""Rows of a low screen, of which the panel may take more, and rows of what is asked that are always seen."""
GRACE_S = 0.5
"""Seconds in which a key that was meant for something else cannot answer."""


@dataclass(frozen=True)
class ApprovalOption:
    """One way to answer; with `words` the person writes something first."""

    label: str
    answer: ApprovalAnswer | str
    words: Literal["", "may", "must"] = ""


class Approval(Vertical, can_focus=True):
    """See the module."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Choice above", show=False, id="approval.up"),
        Binding("down", "move(1)", "Choice below", show=False, id="approval.down"),
        Binding("k", "say('k')", "Choice above", show=False, id="approval.above"),
        Binding("j", "say('j')", "Choice below", show=False, id="approval.below"),
        Binding("enter", "answer", "Take the choice", id="approval.answer"),
        Binding("tab", "leave", "Back to the prompt; it stays open", id="approval.leave"),
        Binding("y", "say('y')", "Yes, this once", id="approval.yes"),
        Binding("n", "say('n')", "No, and say why", id="approval.no"),
        Binding("right", "next(1)", "Next question", id="approval.next"),
        Binding("left", "next(-1)", "Question before", id="approval.previous"),
        Binding("pageup", "page(-1)", "Scroll what is asked", show=False, id="approval.page_up"),
        Binding("pagedown", "page(1)", "Scroll what is asked", show=False, id="approval.page_down"),
        *(Binding(str(n), f"number({n})", f"Answer {n}", show=False, id=f"approval.{n}") for n in range(1, 10)),
    ]

    class Answered(Message):
        """The person's word on an ask."""

        def __init__(self, ask_id: str, answer: ApprovalAnswer | str) -> None:
            self.ask_id, self.answer = ask_id, answer
            super().__init__()

    class TypingStarted(Message):
        """The person wants to type instead; `text` is what was typed already."""

        def __init__(self, text: str = "") -> None:
            self.text = text
            super().__init__()

    def __init__(self, scene: RenderContext, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.scene = scene
        self._shown = ""
        self._ready_at = 0.0
        self._left = False
        """Whether the person types for the prompt: the focus is on its way there, and Enter was meant for it."""
        self._at = 0
        self._options: list[ApprovalOption] = []
        self._split = False
        """Whether the task has a row of its own."""
        self._rows: list[int] = []
        """Of each row of choices: the number of its option, from 0."""
        self.display = False

    def compose(self) -> ComposeResult:
        yield Static(id="ask-head")
        with VerticalScroll(id="ask-scroll", can_focus=False):
            yield Static(id="ask-body")
        with VerticalScroll(id="ask-options", can_focus=False):
            yield Static(id="ask-choices")
        yield TextField(id="ask-words", compact=True)

    def on_mount(self) -> None:
        self.query_one("#ask-words").display = False
        self.watch(self.query_one("#ask-scroll"), "show_vertical_scrollbar", self._tell_rest)

    def _tell_rest(self, more: bool) -> None:
        self.border_subtitle = "PgUp PgDn: the rest of it" if more else ""

    # ---- what is asked -----------------------------------------------------------------

    @property
    def open(self) -> bool:
        return bool(self.scene.state.asks)

    @property
    def _ask(self) -> PendingAsk | None:
        return self.scene.state.asks.get(self._shown)

    def reset(self, scene: RenderContext) -> None:
        """Begin anew with another session."""
        self.scene = scene
        self.follow()

    def follow(self) -> None:
        """Show the oldest ask, or nothing."""
        asks = self.scene.state.asks
        if self._shown not in asks:
            self._show(next(iter(asks), ""))
        elif self._shown:
            self._head()

    def show_for(self, path: str) -> None:
        """Show what the agent at `path` asks, and take the keys."""
        agent = self.scene.state.agents.get(path)
        if agent is not None and agent.asks:
            self._show(next(iter(agent.asks)))
        if self.open:
            self.focus()

    def hold(self) -> None:
        """Answer nothing for a moment: what comes now was meant for the window."""
        self._ready_at = max(self._ready_at, time.monotonic() + GRACE_S)

    def _show(self, ask_id: str) -> None:
        self._shown, self._at = ask_id, 0
        self._ready_at = time.monotonic() + GRACE_S
        self.query_one("#ask-words").display = False
        ask = self._ask
        self.display = ask is not None
        if ask is None:
            return
        self._options = options_of(ask)
        self._head()
        self._body()
        self._choices()
        self.query_one("#ask-scroll", VerticalScroll).scroll_home(animate=False)

    def _head(self) -> None:
        ask, look = self._ask, self.scene.pen.look
        if ask is None:
            return
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append("? ", style=look.warn)
        text.append(f"[{sanitize_line(ask.profile, 40) or 'friday'}] {ask.agent}", style=look.accent)
        text.append(
            " asks" if isinstance(ask.event, QuestionAsked) else f" wants to use {sanitize_line(ask.event.tool, 40)}"
        )
        ids = list(self.scene.state.asks)
        if len(ids) > 1:
            text.append(f" · {ids.index(self._shown) + 1} of {len(ids)} (← →)", style=look.warn)
        task = Text(f"for: {sanitize_line(ask.task, 200)}", style=look.dim, no_wrap=True, overflow="ellipsis")
        split = ask.agent != "a" and text.cell_len + 3 + task.cell_len > self.size.width
        self.query_one("#ask-head", Static).update(Text("\n" if split else " · ").join((text, task)))
        if split != self._split:
            self._split = split
            self._fit()

    def _body(self) -> None:
        ask = self._ask
        if ask is None:
            return
        width = max(self.size.width - 1, 20)
        self.query_one("#ask-body", Static).update(_whole(ask, self.scene, self.scene.pen, width))

    def _choices(self) -> None:
        pen, look = self.scene.pen, self.scene.pen.look
        rows, self._rows = [], []
        for number, option in enumerate(self._options):
            chosen = number == self._at
            label = Text(sanitize_line(option.label, 2_000), style="bold" if chosen else "")
            head = f"{'❯' if chosen else ' '} {number + 1} "
            for part in label.wrap(pen.console, max(self.size.width - 5, 16), overflow="fold"):
                rows.append(Text().append(head, style=look.accent if chosen else look.dim).append_text(part))
                self._rows.append(number)
                head = "    "
        self.query_one("#ask-choices", Static).update(Text("\n").join(rows))
        self._fit()

    def _fit(self) -> None:
        """Share the rows that the panel may take: the choices and the field for words are always seen."""
        height = self.screen.size.height
        room = height * (70 if height < LOW else 60) // 100 - 3 - self._split - bool(self._field.display)
        choices = min(len(self._rows), max(room - LEAST, 1))
        self.query_one("#ask-options").styles.max_height = choices
        self.query_one("#ask-scroll").styles.max_height = max(min(room - choices, 12), 1)
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        """Bring the chosen one into view."""
        if self._at in self._rows:
            options = self.query_one("#ask-options", VerticalScroll)
            first, last = self._rows.index(self._at), len(self._rows) - 1 - self._rows[::-1].index(self._at)
            y = min(max(int(options.scroll_y), last + 1 - options.size.height), first)
            options.scroll_to(y=y, animate=False)

    def on_resize(self) -> None:
        self._head()
        self._body()
        self._choices()

    # ---- answering ------------------------------------------------------------------------

    def _ready(self) -> bool:
        """Whether a key can be meant for this; one that comes too early puts it off."""
        now = time.monotonic()
        if now < self._ready_at or self._left:
            self._ready_at = now + GRACE_S
            return False
        return True

    def on_focus(self) -> None:
        self._left = False

    @property
    def _field(self) -> Input:
        return self.query_one("#ask-words", Input)

    def _type(self, text: str) -> None:
        """A key that answers nothing: it belongs to the words that are being written, here or in the prompt."""
        if self._field.display:
            self._field.insert_text_at_cursor(text)
        else:
            self._left = True
            self.post_message(self.TypingStarted(text))

    @property
    def _typing(self) -> bool:
        """Whether letters and digits are part of words, not answers."""
        return self._left or bool(self._field.display)

    def action_say(self, letter: str) -> None:
        ask = self._ask
        if self._typing:
            self._type(letter)
        elif letter in "jk":
            self.action_move(1 if letter == "j" else -1)
        elif ask is None or isinstance(ask.event, QuestionAsked) or not self._ready():
            self._type(letter)
        else:
            self._at = 0 if letter == "y" else len(self._options) - 1
            self._choices()
            self._take()

    def action_move(self, by: int) -> None:
        if self._options and not self._field.display:
            self._at = (self._at + by) % len(self._options)
            self._choices()

    def action_number(self, number: int) -> None:
        if self._typing:
            self._type(str(number))
        elif self._ready() and number <= len(self._options):
            self._at = number - 1
            self._choices()
            self._take()

    def action_answer(self) -> None:
        if self._field.display:
            self._say_words(self._field.value)
        elif self._ready():
            self._take()

    def action_next(self, by: int) -> None:
        ids = list(self.scene.state.asks)
        if len(ids) > 1:
            self._show(ids[(ids.index(self._shown) + by) % len(ids)])

    def action_page(self, by: int) -> None:
        scroll = self.query_one("#ask-scroll", VerticalScroll)
        scroll.scroll_relative(y=by * max(scroll.size.height - 1, 1), animate=False)

    def action_leave(self) -> None:
        self.post_message(self.TypingStarted())

    def _take(self) -> None:
        option = self._options[self._at]
        if option.words:
            field = self.query_one("#ask-words", Input)
            field.value = ""
            field.placeholder = (
                "Why not? It reads this. Enter alone: just no" if option.words == "may" else "Your answer"
            )
            field.display = True
            self._fit()
            field.focus()
        else:
            self.post_message(self.Answered(self._shown, option.answer))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._say_words(event.value)

    def _say_words(self, written: str) -> None:
        option = self._options[self._at]
        words = written.strip()
        if option.words == "must" and not words:
            return
        answer = words if isinstance(option.answer, str) else msgspec.structs.replace(option.answer, reason=words)
        self._field.display = False
        self._fit()
        self.focus()
        self.post_message(self.Answered(self._shown, answer))

    def escape(self) -> bool:
        """Leave the field for words; False when it was not open."""
        if not self._field.display:
            return False
        self._field.display = False
        self._fit()
        self.focus()
        return True

    def on_click(self, event: events.Click) -> None:
        choices = self.query_one("#ask-choices")
        row = event.screen_y - choices.region.y
        if 0 <= row < len(self._rows) and choices.region.contains(event.screen_x, event.screen_y):
            chosen = self._rows[row]
            if event.chain > 1 and chosen == self._at and self._ready():
                self._take()
            self._at = chosen
            self._choices()

    def on_paste(self, event: events.Paste) -> None:
        if not self._field.display:
            event.stop()
            self._type(event.text)

    async def on_key(self, event: events.Key) -> None:
        """All keys in the order in which they were typed, also those that come while the focus is on its way elsewhere:
        left to the app, an Enter behind some words would overtake them."""
        writing = self._field.has_focus
        if self.has_focus and (bindings := keymap.held(self).get(event.key)):
            event.stop()
            event.prevent_default()
            await self.run_action(bindings[0].action)
        elif event.is_printable and event.character:
            event.stop()
            self._type(event.character)
        elif not writing and not self.has_focus:
            event.stop()


def options_of(ask: PendingAsk) -> list[ApprovalOption]:
    """The ways to answer an ask."""
    event = ask.event
    if isinstance(event, QuestionAsked):
        return [
            *(ApprovalOption(choice, choice) for choice in event.choices),
            ApprovalOption("In my own words", "", "must"),
        ]
    from friday_cli.core.permissions.approvals import ApprovalAnswer

    out = [ApprovalOption("Yes", ApprovalAnswer("allow"))]
    if event.rule:
        rule = " and ".join(show_invisible(line) for line in event.rule.split("\n"))
        out.append(ApprovalOption(f"Yes, and for this session allow {rule}", ApprovalAnswer("allow", "session")))
        out.append(
            ApprovalOption(f"Yes, and always allow (kept in your settings) {rule}", ApprovalAnswer("allow", "always"))
        )
    return [*out, ApprovalOption("No, and say why", ApprovalAnswer("deny"), "may")]


def _whole(ask: PendingAsk, scene: RenderContext, pen: TextRenderer, width: int) -> Text:
    """All that is asked, nothing left out; hidden characters are spelled out."""
    event = ask.event
    if isinstance(event, QuestionAsked):
        return Text(show_invisible(event.question))
    text = Text().append(show_invisible(event.subject), style="bold")
    text.append(f"\n{show_invisible(event.reason)}" if event.reason else "", style=pen.look.dim)
    run = scene.state.agents[ask.agent].calls.get(event.call_id)
    if run is not None:
        rest = {name: value for name, value in run.arguments.items() if not _told(value, event)}
        for strip in wish(rest, pen, width):
            text.append("\n")
            for segment in strip:
                text.append(segment.text, style=segment.style)
    return text


def _told(value: object, event: PermissionAsked) -> bool:
    return isinstance(value, str) and value.strip() == event.subject.strip()
