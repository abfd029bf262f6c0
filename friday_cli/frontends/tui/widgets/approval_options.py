"""The ways to answer what an agent asks: the list of choices, and the field for an answer in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from friday_cli.core.protocol.events import QuestionAsked
from friday_cli.core.text.deceptive import show_deceptive
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view import PendingAsk

from .styles import TextRenderer
from .text_input import TextField

if TYPE_CHECKING:
    from friday_cli.core.permissions.approvals import ApprovalAnswer


@dataclass(frozen=True)
class ApprovalOption:
    """One way to answer. `words`: the user may, or must, write something for it."""

    label: str
    answer: ApprovalAnswer | str
    words: Literal["", "may", "must"] = ""

    @property
    def agrees(self) -> bool:
        """Whether it lets the call run."""
        return not isinstance(self.answer, str) and self.answer.decision == "allow"


def options_of(ask: PendingAsk) -> list[ApprovalOption]:
    """The ways to answer an ask."""
    event = ask.event
    if isinstance(event, QuestionAsked):
        choices = [
            ApprovalOption(choice, choice) if choice else ApprovalOption("Write the answer", "", "must")
            for choice in event.choices
        ]
        return choices if "" in event.choices else [*choices, ApprovalOption("In my own words", "", "must")]
    from friday_cli.core.permissions.approvals import ApprovalAnswer

    out = [ApprovalOption("Yes", ApprovalAnswer("allow"))]
    if event.rule:
        rule = " and ".join(show_deceptive(line) for line in event.rule.split("\n"))
        out.append(ApprovalOption(f"Yes, and for this session allow {rule}", ApprovalAnswer("allow", "session")))
        always = f"Yes, and always allow (kept in your settings) {rule}"
        out.append(ApprovalOption(always, ApprovalAnswer("allow", "always")))
    return [*out, ApprovalOption("No, and say why", ApprovalAnswer("deny"), "may")]


class ApprovalChoices(VerticalScroll, can_focus=False):
    """The numbered options, wrapped. `index` is the selected one."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.options: list[ApprovalOption] = []
        self.index = 0
        self.rows: list[int] = []
        """The index of the option in each row."""
        self._text = Static(id="ask-choices")

    def compose(self) -> ComposeResult:
        yield self._text

    def draw(self, renderer: TextRenderer, width: int) -> None:
        """Draw the options in `width` cells."""
        styles = renderer.styles
        rows, self.rows = [], []
        for index, option in enumerate(self.options):
            selected = index == self.index
            label = Text(sanitize_line(option.label, 2_000), style="bold" if selected else "")
            head = f"{'❯' if selected else ' '} {index + 1} "
            for part in label.wrap(renderer.console, max(width - 5, 16), overflow="fold"):
                rows.append(Text().append(head, style=styles.accent if selected else styles.dim).append_text(part))
                self.rows.append(index)
                head = "    "
        self._text.update(Text("\n").join(rows))

    def scroll_to_selected(self) -> None:
        if self.index in self.rows:
            first, last = self.rows.index(self.index), len(self.rows) - 1 - self.rows[::-1].index(self.index)
            y = min(max(int(self.scroll_y), last + 1 - self.size.height), first)
            self.scroll_to(y=y, animate=False)

    def index_at(self, x: int, y: int) -> int | None:
        """The index of the option at a position of the screen."""
        region = self._text.region
        row = y - region.y
        return self.rows[row] if region.contains(x, y) and row < len(self.rows) else None


class AnswerField(TextField):
    """The field for the words of an answer. It is hidden until an option needs it."""

    @dataclass
    class AnswerSubmitted(Message):
        """The user wrote `answer`."""

        answer: ApprovalAnswer | str

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True)
        self.display = False
        self._option: ApprovalOption | None = None

    def open(self, option: ApprovalOption) -> None:
        """Take the words for an option."""
        self._option = option
        self.value = ""
        self.placeholder = "Why not? It reads this. Enter alone: just no" if option.words == "may" else "Your answer"
        self.display = True
        self.focus()

    async def action_submit(self) -> None:
        """Answer with the words that are in the field, unless words are required and missing."""
        option, words = self._option, self.value.strip()
        if option is None or (option.words == "must" and not words):
            return
        answer = words if isinstance(option.answer, str) else msgspec.structs.replace(option.answer, reason=words)
        self.post_message(self.AnswerSubmitted(answer))
