"""What slash commands do to the chat. The screen and plain text each implement it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..controller import SessionController
from ..state.keymap import Keys
from ..widgets.message_queue import Draft

if TYPE_CHECKING:
    from friday_cli.extensions.commands import CustomCommand, CustomCommands
    from friday_cli.workspace.checkpoints.review import FileDiff

    from ..widgets.diff_review import ReviewActions
    from ..widgets.profile_dialog import ProfileActions

NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class SearchRow:
    """One row of a list that the user can search. `key` is what is returned, `about` is shown below the list while the row is
    selected; what is typed is looked for in both texts."""

    key: str
    label: str
    about: str = ""


@dataclass(frozen=True)
class SearchList:
    """A list that the user can search. The row with the key `at` is selected first."""

    title: str
    rows: Sequence[SearchRow]
    at: str = ""
    on_highlight: Callable[[str], None] | None = None
    """Called with the key of each row that is selected."""
    later: AsyncGenerator[Sequence[SearchRow], None] | None = None
    """Yields all rows again while services answer, and is closed."""


class CommandContext(Protocol):
    """The chat, as commands see it."""

    controller: SessionController
    keys: Keys

    @property
    def customs(self) -> CustomCommands:
        """The user's own commands."""

    def show_card(self, markdown: str) -> None:
        """Show Markdown in the transcript; untrusted text in it must be escaped."""

    def say_note(self, text: str, level: Literal["information", "warning", "error"] = "information") -> None:
        """Show a short message."""

    async def reopen(self, **changes: Any) -> bool:
        """Open another session, or this one with other options. False when that failed, which is reported."""

    async def send(self, text: str) -> None:
        """Send a message to the main agent."""

    async def send_custom(self, custom: CustomCommand, rest: str, draft: Draft) -> None:
        """Send the prompt of a custom command, now or when the agent is done."""

    async def load_customs(self) -> None:
        """Load the custom commands again."""

    async def pick_session(self) -> None:
        """Let the user choose a session to resume."""

    async def choose(
        self, title: str, choices: Sequence[tuple[str, str]], *, at: int = 0, about: Mapping[str, str] = NOTHING
    ) -> str | None:
        """Let the user choose one of (key, label); `at` is selected first, `about` has a longer text by key. None when the
        user cancels."""

    async def search(self, searched: SearchList) -> str | None:
        """Let the user search a list and choose a row; returns its key, None when the user cancels."""

    async def review(self, rows: Sequence[FileDiff], actions: ReviewActions) -> None:
        """Let the user review what the agents changed, and accept or restore it."""

    async def show_timeline(self) -> None:
        """Show when each agent worked and what it waited for."""

    async def show_profiles(self, actions: ProfileActions) -> None:
        """Show the profiles; the user chooses sub-agents and edits files."""

    def offer(self, text: str) -> None:
        """Put a text into the prompt, unless it has one."""

    async def copy_text(self, text: str) -> None:
        """Copy a text to the clipboards. Raises UsageError when there is none."""

    async def leave(self) -> None:
        """Quit."""

    def look_for(self, text: str) -> None:
        """Search the transcript. Raises UsageError when there is no search."""

    def focus_tree(self) -> None:
        """Go to the tree of agents."""

    async def use_vim(self, wanted: bool | None) -> None:
        """Use vim keys in the prompt or not, and keep that in the settings; None changes it. Raises FridayError."""

    async def use_theme(self, name: str) -> None:
        """Change the theme; "" lets the user choose. Raises FridayError."""
