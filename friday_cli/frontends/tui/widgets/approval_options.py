"""The ways to answer what an agent asks: the list of choices, and the field for an answer in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from friday_cli.core.protocol.events import QuestionAsked
from friday_cli.core.protocol.plan import PLAN_CHOICES
from friday_cli.core.text.deceptive import show_deceptive
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.tool_catalog import BASH
from friday_cli.view import PendingAsk

from .styles import TextRenderer
from .text_field import TextField

if TYPE_CHECKING:
    from friday_cli.core.permissions.approvals import ApprovalAnswer


@dataclass(frozen=True)
class ApprovalOption:
    """One way to answer. `words`: the user may, or must, write something for it. `key`: the letter that chooses it in every
    question, "" for none."""

    label: str
    answer: ApprovalAnswer | str
    words: Literal["", "may", "must"] = ""
    key: str = ""

    @property
    def numbered(self) -> bool:
        """Whether a number chooses it too. None means "no" in any question."""
        return self.key != "n"

    @property
    def agrees(self) -> bool:
        """Whether it lets the call run."""
        return not isinstance(self.answer, str) and self.answer.decision == "allow"


def options_of(ask: PendingAsk) -> list[ApprovalOption]:
    """The ways to answer an ask."""
    event = ask.event
    if isinstance(event, QuestionAsked) and event.choices == PLAN_CHOICES:
        edits, asking, leave = (ApprovalOption(choice, choice) for choice in event.choices)
        return [edits, asking, ApprovalOption("Keep planning, and say what to change", "", "may"), leave]
    if isinstance(event, QuestionAsked):
        choices = [
            ApprovalOption(choice, choice) if choice else ApprovalOption("Write the answer", "", "must")
            for choice in event.choices
        ]
        return choices if "" in event.choices else [*choices, ApprovalOption("In my own words", "", "must")]
    from friday_cli.core.permissions.approvals import ApprovalAnswer

    out = [ApprovalOption("Yes", ApprovalAnswer("allow"), key="y")]
    rule = " and ".join(_shown(line) for line in event.rule.split("\n")) if event.rule else ""
    if event.mode:
        label = f"Yes, and all file changes of this session (mode {event.mode})"
        out.append(ApprovalOption(label, ApprovalAnswer("allow", mode=event.mode)))
    elif rule:
        out.append(ApprovalOption(f"Yes, and {rule} in this session", ApprovalAnswer("allow", "session")))
    if rule and not event.mode:
        out.append(ApprovalOption(f"Yes, and {rule} always (kept in your settings)", ApprovalAnswer("allow", "always")))
    return [*out, ApprovalOption("No, and say why", ApprovalAnswer("deny"), "may", key="n")]


def _shown(rule: str) -> str:
    """A rule as people read it: of a command the words alone."""
    command = rule.removeprefix(f"{BASH}(").removesuffix(")")
    return f"`{show_deceptive(command)}`" if rule.startswith(f"{BASH}(") else show_deceptive(rule)


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
        lettered = any(option.key for option in self.options)
        for index, option in enumerate(self.options):
            selected = index == self.index
            label = Text(sanitize_line(option.label, 2_000), style="bold" if selected else "")
            head = f"{'❯' if selected else ' '} {index + 1 if option.numbered else ' '} "
            head = f"{head[:2]}{option.key or ' '} {head[2:]}" if lettered else head
            margin = len(head)
            for part in label.wrap(renderer.console, max(width - margin - 1, 16), overflow="fold"):
                rows.append(Text().append(head, style=styles.accent if selected else styles.dim).append_text(part))
                self.rows.append(index)
                head = " " * margin
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

    BINDINGS: ClassVar[list[BindingType]] = [Binding("up", "leave", "Back to the choices", show=False)]

    @dataclass
    class AnswerSubmitted(Message):
        """The user wrote `answer`."""

        answer: ApprovalAnswer | str

    class ChoicesWanted(Message):
        """The user wants to see the choices again."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True, select_on_focus=False)
        self.display = False
        self._option: ApprovalOption | None = None
        self._command: str | None = None
        """The command that is edited, None while words are written."""

    @property
    def denies(self) -> bool:
        """Whether the words are the reason of a "no"."""
        return self._option is not None and self._option.words == "may"

    def open(self, option: ApprovalOption) -> None:
        """Take the words for an option."""
        what = "Why not? The agent reads your answer. Empty: no reason" if option.words == "may" else "Your answer"
        what = "What should change? Empty: keep planning" if option.words == "may" and option.answer == "" else what
        self._option, self._command = option, None
        self._show("", what)

    def edit(self, command: str) -> None:
        """Let the user change a command of one line before it runs."""
        self._option, self._command = None, command
        self._show(command, "The command")

    def _show(self, value: str, placeholder: str) -> None:
        self.value, self.placeholder, self.display = value, placeholder, True
        self.cursor_position = len(value)
        self.focus()

    def action_leave(self) -> None:
        self.post_message(self.ChoicesWanted())

    async def action_submit(self) -> None:
        """Answer with the words that are in the field, unless words are required and missing."""
        option, words = self._option, self.value.strip()
        if self._command is not None:
            same = words in ("", self._command.strip())
            self.post_message(self.ChoicesWanted() if same else self.AnswerSubmitted(edited_command(words)))
        if option is None or (option.words == "must" and not words):
            return
        answer = words if isinstance(option.answer, str) else msgspec.structs.replace(option.answer, reason=words)
        self.post_message(self.AnswerSubmitted(answer))


def edited_command(command: str) -> ApprovalAnswer:
    """The answer of a person who wants another command to run."""
    from friday_cli.core.permissions.approvals import ApprovalAnswer

    return ApprovalAnswer("allow", command=command)
