"""Questions and permission requests of agents in plain text: prints the oldest one, and reads its answer."""

from __future__ import annotations

import time
from collections.abc import Callable

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import PermissionAsked, QuestionAsked
from friday_cli.core.text.deceptive import deception_note, show_deceptive
from friday_cli.core.text.sanitize import sanitize_line, show_invisible
from friday_cli.session.commands import AnswerQuestion, ExplainQuestion
from friday_cli.view import PendingAsk

from ..controller import SessionController
from ..widgets.approval_options import ApprovalOption, options_of
from ..widgets.approval_panel import GRACE_S
from ..widgets.approval_request import call_subject, other_arguments, request_title
from ..widgets.folded_command import command_rows
from ..widgets.tool_blocks import change_lines, request_lines

ROW, MAX_ROWS = 1_000, 20
"""Characters in a row of a command, and rows that are printed before a part of it is folded."""


class PlainApprovals:
    """The asks of one session; `say` prints lines."""

    def __init__(self, say: Callable[[str], None], controller: SessionController) -> None:
        self._say, self._controller = say, controller
        self._shown, self._shown_at = "", 0.0
        """The id of the ask that was printed, and when (monotonic clock, seconds)."""
        self._folded = False
        """Whether a part of the command was not printed."""
        self._denial: ApprovalAnswer | None = None
        """Set while the reason of a "no" is awaited."""
        self._words = False
        """Whether the next line is an answer in words, also if it is a number."""

    @property
    def open(self) -> bool:
        """Whether the next line answers an ask."""
        return bool(self._shown)

    def follow(self) -> None:
        """Print the oldest ask when the one before is settled."""
        asks = self._controller.state.asks
        if self._shown not in asks:
            self._shown, self._denial, self._words = next(iter(asks), ""), None, False
            if self._shown:
                self._print(most=MAX_ROWS)
                self._shown_at = time.monotonic()

    def _print(self, *, most: int | None) -> None:
        """Print the ask, its command in `most` rows (None: all)."""
        lines, self._folded = _lines(self._controller.state.asks[self._shown], self._controller, most)
        self._say("\n".join(lines))

    async def answer(self, text: str) -> None:
        """Answer the ask that was printed: with the number of an option, with words, or with the reason of a "no"."""
        ask = self._controller.state.asks.get(self._shown)
        if ask is None:
            return
        if time.monotonic() - self._shown_at < GRACE_S:
            self._say("You typed that before the question was shown. Please answer it again.")
            return
        options = options_of(ask)
        if self._denial is not None:
            answer: ApprovalAnswer | str = ApprovalAnswer("deny", reason=text)
        elif self._words and text:
            answer = text
        elif text == "?" and isinstance(ask.event, PermissionAsked):
            lines = await self._controller.require_session().do(ExplainQuestion(self._shown))
            self._say("\n".join(show_deceptive(line) for line in lines))
            return
        elif (option := _chosen(options, text)) is not None:
            if option.words:
                if isinstance(option.answer, ApprovalAnswer):
                    self._denial = option.answer
                else:
                    self._words = True
                self._say(
                    "Why not? The agent reads your answer. Empty: no reason."
                    if option.words == "may"
                    else "Your words:"
                )
                return
            if option.agrees and self._folded:
                self._shown_at = time.monotonic()
                self._print(most=None)
                return
            answer = option.answer
        elif isinstance(ask.event, QuestionAsked) and text:
            answer = text
        else:
            self._say(f"Type y, n, or a number from 1 to {sum(option.numbered for option in options)}.")
            return
        self._denial, self._words = None, False
        await self._controller.require_session().do(AnswerQuestion(self._shown, answer))


def _chosen(options: list[ApprovalOption], text: str) -> ApprovalOption | None:
    """The option that a line chooses: by its letter, or by its number if it has one."""
    number = int(text) if text.isdecimal() and len(text) < 4 else 0
    named = next((option for option in options if option.key and option.key == text.lower()), None)
    return named or next((one for at, one in enumerate(options, 1) if at == number and one.numbered), None)


def _lines(ask: PendingAsk, controller: SessionController, most: int | None) -> tuple[list[str], bool]:
    """An ask: the agent and its task, why it is asked about, what it would do, and the numbered answers. The rows of the command
    have a margin, so that they cannot pass for other lines. Also whether the command is folded."""
    event, folded = ask.event, False
    out = [f"{request_title(ask)}, for: {sanitize_line(ask.task, 200)}"]
    if isinstance(event, QuestionAsked):
        out.append(show_invisible(event.question))
    else:
        out += [text for text in (show_deceptive(event.reason), deception_note(event.subject)) if text]
        run = controller.state.agents[ask.agent].calls.get(event.call_id)
        values = other_arguments(run, event) if run is not None else {}
        command = command_rows(call_subject(event, values), ROW, most)
        folded = bool(command.fold)
        out += [f"  | {row}" for row in command.head]
        out += [command.fold] if folded else []
        out += [f"  | {row}" for row in command.tail]
        out += change_lines(event.change) if event.change is not None else request_lines(values)
        out += [f"To remember: {show_deceptive(event.allows)}"] if event.allows else []
    for number, option in enumerate(options_of(ask), 1):
        names = [option.key, str(number) if option.numbered else ""]
        out.append(f"{' '.join(filter(None, names))}. {sanitize_line(option.label, 300)}")
    if folded:
        out.append("A yes first prints what is folded, and counts when you type it again.")
    how = (
        "Type the number of your answer." if isinstance(event, QuestionAsked) else "Type y, n or a number. ? explains."
    )
    return [*out, how], folded
