"""What agents ask, above the prompt: permissions and questions of all agents in one queue, the oldest first.

Keys and clicks count only after half a second, and a single click only selects: an answer is never given by accident.
"""

from __future__ import annotations

import time
from functools import partial
from math import inf
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from friday_cli.core.protocol.events import QuestionAsked
from friday_cli.core.tool_catalog import BASH
from friday_cli.view import PendingAsk

from ..state import keymap
from .approval_options import AnswerField, ApprovalChoices, options_of
from .approval_request import RequestBody, RequestHead
from .blocks import RenderContext
from .chat_request import AskAnswered, EditorWanted, ExplanationWanted
from .transcript_messages import TextTyped

LOW, LOWEST, MIN_BODY, MAX_BODY = 26, 22, 2, 12
"""Rows below which a screen is low, and the panel may take more of it; below which the panel shows only its head while somebody
looks at something else; rows of the request that are always visible; most rows of one that is neither a change of a file nor an
explanation."""
ROWS_LEFT = 6
"""Rows that the panel leaves in any case: one of the transcript, the strip, the prompt of one line and the status line."""
GRACE_S = 0.5
"""Seconds in which a key that was meant for something else does not answer."""


class GracePeriod:
    """A period in which keys and clicks answer nothing. `until` is in seconds of `time.monotonic`."""

    def __init__(self) -> None:
        self.until = 0.0
        self._held = 0

    def hold(self) -> int:
        """Let nothing answer before `begin` with the result: a key that comes now may have been pressed before the question was on the
        screen."""
        self.until = inf
        self._held += 1
        return self._held

    def begin(self, held: int) -> None:
        if held == self._held:
            self.until = time.monotonic() + GRACE_S

    def restart(self) -> None:
        self.until = max(self.until, time.monotonic() + GRACE_S)

    def is_over(self) -> bool:
        """Whether a key counts. One that comes too early restarts the period."""
        over = time.monotonic() >= self.until
        if not over:
            self.restart()
        return over


class PanelRows:
    """Divides the rows that the panel may take among its parts. The choices and the answer field are always visible."""

    def __init__(self, head: RequestHead, body: RequestBody, choices: ApprovalChoices, field: AnswerField) -> None:
        self._head, self._body, self._choices, self._field = head, body, choices, field
        self.of_body = 1
        """Rows of what is asked."""

    def divide(self, panel: Approval) -> None:
        """Divide them anew, after one of the parts or the screen has changed."""
        height, brief = panel.screen.size.height, panel.has_class("brief")
        self._body.display = self._choices.display = not (brief and height < LOWEST)
        share = 60 if height >= LOW else 40 if brief else 70
        most = min(height * share // 100, height - panel.rows_left)
        available = most - 2 - self._head.rows - bool(self._field.display)
        choices = min(len(self._choices.rows), max(available - MIN_BODY, 1))
        self._choices.styles.max_height = choices
        most = available if self._body.shows_change or self._body.explains else MAX_BODY
        self.of_body = max(min(available - choices, most), 1)
        self._body.styles.max_height = self.of_body
        panel.call_after_refresh(self._choices.scroll_to_selected)


class Approval(Vertical, can_focus=True):
    """The panel with the open permissions and questions of all agents, the oldest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Choice above", show=False, id="approval.up"),
        Binding("down", "move(1)", "Choice below", show=False, id="approval.down"),
        Binding("k", "key('k')", "Choice above", show=False, id="approval.above"),
        Binding("j", "key('j')", "Choice below", show=False, id="approval.below"),
        Binding("enter", "answer", "Select the choice", id="approval.answer"),
        Binding("tab", "leave", "Back to the prompt; the question stays open", id="approval.leave"),
        Binding("y", "key('y')", "Yes, this once (as 1)", id="approval.yes"),
        Binding("n", "key('n')", "No, and say why", id="approval.no"),
        Binding("escape", "back", "No, and say why; again: no without a reason", id="approval.escape"),
        Binding("e", "key('e')", "Change the command before it runs", id="approval.edit"),
        Binding(
            "question_mark", "key('?')", "Explain: what would run, what it reaches, who asks", id="approval.explain"
        ),
        Binding("right", "next(1)", "Next question", id="approval.next"),
        Binding("left", "next(-1)", "Previous question", id="approval.previous"),
        Binding("pageup", "page(-1)", "Scroll the question up", show=False, id="approval.page_up"),
        Binding("pagedown", "page(1)", "Scroll the question down", show=False, id="approval.page_down"),
        *(Binding(str(n), f"key('{n}')", f"Answer {n}", show=False, id=f"approval.{n}") for n in range(1, 10)),
    ]

    def __init__(self, context: RenderContext, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.context = context
        self.grace = GracePeriod()
        self.asked = ""
        """The id of what is shown, "" for nothing."""
        self.keys_hint = ""
        """The keys of what is asked now beside those of its choices."""
        self._leaving = False
        """Whether the focus is on its way to the prompt: all keys, also Enter, are for the prompt."""
        self._wanted = False
        """Whether the user came here by a key for it: an early key is not for the prompt."""
        self.rows_left = ROWS_LEFT
        """Rows of the screen for other widgets; after a change call `on_resize`."""
        self._head, self._body = RequestHead(id="ask-head"), RequestBody(id="ask-scroll")
        self._choices, self._field = ApprovalChoices(id="ask-options"), AnswerField(id="ask-words")
        self._rows = PanelRows(self._head, self._body, self._choices, self._field)
        self.display = False

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._body
        yield self._choices
        yield self._field

    @property
    def _ask(self) -> PendingAsk | None:
        return self.context.state.asks.get(self.asked)

    def reset(self, context: RenderContext) -> None:
        """Show another session."""
        self.context = context
        self.follow()

    def follow(self) -> None:
        """Show the oldest ask, or hide the panel. Call it when the asks have changed."""
        asks = self.context.state.asks
        if (ask := self._ask) is None:
            self._show(next(iter(asks), ""))
        else:
            rows = self._head.rows
            self._head.show(ask, self.context, _width(self))
            if rows != self._head.rows:
                self._rows.divide(self)

    def show_for(self, path: str) -> None:
        """Show what the agent at `path` asks, and focus the panel."""
        agent = self.context.state.agents.get(path)
        if agent is not None and agent.asks:
            self._show(next(iter(agent.asks)))
        if self.context.state.asks:
            self._wanted = True
            self.focus()

    def _show(self, ask_id: str) -> None:
        self.asked = ask_id
        self._field.display = False
        ask = self._ask
        self.display = ask is not None
        self._body.explanation = []
        if ask is not None:
            begin = partial(self.grace.begin, self.grace.hold())
            if not self.call_after_refresh(begin):
                begin()
            self._choices.options, self._choices.index = options_of(ask), 0
            self.keys_hint = _keys_hint(ask)
            self._draw()

    def _draw(self) -> None:
        if (ask := self._ask) is not None:
            self._head.show(ask, self.context, _width(self))
            self._select(self._choices.index)
            self._body.show(ask, self.context, _width(self), self._rows.of_body)

    on_resize = _draw

    def _select(self, index: int) -> None:
        self._choices.index = index
        self._choices.draw(self.context.renderer, _width(self))
        self._rows.divide(self)

    def _answer(self, index: int) -> None:
        """Answer with an option, or ask for the words that it needs. A yes to what was not seen whole shows more of it."""
        self._select(index)
        option = self._choices.options[index]
        if option.agrees and not self._body.read:
            self.action_page(1)
        elif option.words:
            self._field.open(option)
            self._rows.divide(self)
        else:
            self.post_message(AskAnswered(self.asked, option.answer))

    def on_answer_field_answer_submitted(self, message: AnswerField.AnswerSubmitted) -> None:
        self.on_answer_field_choices_wanted()
        self.post_message(AskAnswered(self.asked, message.answer))

    def on_answer_field_choices_wanted(self) -> None:
        self._field.display = False
        self._rows.divide(self)
        self.focus()

    async def action_back(self) -> None:
        """Esc: no, with words; in their field: just no. One that comes too early is for the chat, where it stops the run."""
        if not self._field.display and not self._body.explains and self.grace.until > time.monotonic():
            await self.run_action("app.back")
        elif self._body.explains and not self._field.display:
            self.explain([])
        elif not self._field.display:
            if self._choices.options and self._choices.options[-1].key == "n":
                self._answer(len(self._choices.options) - 1)
            else:
                self.post_message(AskAnswered(self.asked, ""))
        elif self._field.denies:
            self._field.value = ""
            await self._field.action_submit()
        else:
            self.on_answer_field_choices_wanted()

    def explain(self, lines: list[str]) -> None:
        """Show what the call is about in place of it; no lines: show the call again."""
        self._body.explanation = lines
        self._draw()

    def _type(self, text: str) -> None:
        """Put characters that answer nothing into the answer field, or into the prompt."""
        if self._field.display:
            self._field.insert_text_at_cursor(text)
        else:
            self._leaving = True
            self.post_message(TextTyped(text))

    def action_key(self, key: str) -> None:
        """Move, answer with a number, y or n, edit or explain. The same keys are text while the user types."""
        ask, options = self._ask, self._choices.options
        if self._leaving or self._field.display:
            self._type(key)
        elif key in "jk":
            self.action_move(1 if key == "j" else -1)
        elif key.isdigit():
            if self.grace.is_over() and int(key) <= len(options) and options[int(key) - 1].numbered:
                self._answer(int(key) - 1)
        elif ask is None or isinstance(ask.event, QuestionAsked):
            self._type(key)
        elif not self.grace.is_over():
            if not self._wanted:
                self._type(key)
        elif key == "?":
            if self._body.explains:
                self.explain([])
            else:
                self.post_message(ExplanationWanted(self.asked))
        elif key != "e":
            self._answer(next(at for at, option in enumerate(options) if option.key == key))
        elif ask.event.tool != BASH:
            self._type(key)
        elif "\n" in ask.event.subject.strip():
            self.post_message(EditorWanted(self.asked, ask.event.subject))
        else:
            self._field.edit(ask.event.subject)
            self._rows.divide(self)

    def action_move(self, by: int) -> None:
        if self._choices.options and not self._field.display:
            self._select((self._choices.index + by) % len(self._choices.options))

    async def action_answer(self) -> None:
        if self._field.display:
            await self._field.action_submit()
        elif self._leaving:
            self._type("\r")
        elif self.grace.is_over():
            self._answer(self._choices.index)

    def action_next(self, by: int) -> None:
        ids = list(self.context.state.asks)
        if len(ids) > 1:
            self._show(ids[(ids.index(self.asked) + by) % len(ids)])

    def action_page(self, by: int) -> None:
        if by > 0 and not self._body.read:
            self.grace.restart()
            self._body.read_on()
            self._draw()
        else:
            self._body.page(by)

    def action_leave(self) -> None:
        self.post_message(TextTyped(""))

    def on_focus(self, event: events.Focus | events.Blur) -> None:
        self._leaving, self._wanted = False, self._wanted and isinstance(event, events.Focus)
        self._body.read_changed += 1

    on_blur = on_focus

    def on_click(self, event: events.Click) -> None:
        index = self._choices.index_at(event.screen_x, event.screen_y)
        if index is None:
            return
        again = event.chain > 1 and index == self._choices.index and not self._leaving
        if again and self.grace.is_over():
            self._answer(index)
        else:
            self._select(index)

    def on_paste(self, event: events.Paste) -> None:
        if not self._field.display:
            event.stop()
            self._type(event.text)

    async def on_key(self, event: events.Key) -> None:
        """Handle all keys in the order in which they were typed: left to the app, an Enter would overtake earlier letters."""
        in_field = self._field.has_focus
        if self.has_focus and (bindings := keymap.held(self).get(event.key)):
            event.stop()
            event.prevent_default()
            await self.run_action(bindings[0].action)
        elif event.is_printable and event.character:
            event.stop()
            self._type(event.character)
        elif not in_field and not self.has_focus:
            event.stop()


def _width(panel: Approval) -> int:
    """Cells of a row of text in the panel, also before it is laid out for the first time."""
    return panel.size.width or panel.screen.size.width - panel.gutter.width


def _keys_hint(ask: PendingAsk) -> str:
    if isinstance(ask.event, QuestionAsked):
        return ""
    return "? explains · e edits" if ask.event.tool == BASH else "? explains"
