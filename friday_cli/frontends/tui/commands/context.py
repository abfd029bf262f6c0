"""What the commands of the chat may do to it: every face that has the commands is one of these. Interface: `Chat`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from friday_cli.extensions.commands import CustomCommand, CustomCommands

from ..controller import SessionController
from ..state.keymap import Keys
from ..widgets.message_queue import Draft

if TYPE_CHECKING:
    from friday_cli.workspace.checkpoints.review import FileDiff

    from ..widgets.diff_review import ReviewActions

NOTHING: Mapping[str, str] = MappingProxyType({})


class CommandContext(Protocol):
    """What commands do to the chat."""

    controller: SessionController
    customs: CustomCommands
    keys: Keys

    def show_card(self, markdown: str) -> None:
        """Show a text of our own in the transcript."""

    def say_note(self, text: str, level: Literal["information", "warning", "error"] = "information") -> None:
        """Say one line."""

    async def reopen(self, **changes: Any) -> bool:
        """Open another session, or this one with other options; False when that failed, which was said."""

    async def send(self, text: str) -> None:
        """Send a message to the main agent."""

    async def send_custom(self, custom: CustomCommand, rest: str, draft: Draft) -> None:
        """Send what a command of the person's own says, now or when the agent has time."""

    async def load_customs(self) -> None:
        """Look for the person's own commands again."""

    async def pick_session(self) -> None:
        """Let the person choose a session to go on with."""

    async def choose(
        self, title: str, choices: Sequence[tuple[str, str]], *, at: int = 0, about: Mapping[str, str] = NOTHING
    ) -> str | None:
        """Let the person choose one of (key, label), the one at `at` first; `about` says more of a key. None when it was
        none."""

    async def review(self, rows: Sequence[FileDiff], actions: ReviewActions) -> None:
        """Let the person look through what the agents changed, and accept it or put it back."""

    def offer(self, text: str) -> None:
        """Put a text where the person types, unless something stands there."""

    async def copy_text(self, text: str) -> None:
        """Put a text on the clipboards."""

    async def leave(self) -> None:
        """Quit."""

    def look_for(self, text: str) -> None:
        """Search the transcript."""

    def focus_tree(self) -> None:
        """Go to the tree of agents."""

    def use_theme(self, name: str) -> None:
        """Change the theme; "" goes to the next. Raises FridayError."""
