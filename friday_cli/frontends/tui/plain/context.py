"""What slash commands do in plain text: they print, and refuse what needs a screen."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.text.sanitize import sanitize_line, show_invisible
from friday_cli.extensions.commands import CustomCommand, CustomCommands
from friday_cli.session import lists
from friday_cli.view.timeline import render_timeline

from ..commands import command_output, profiles, slash_commands
from ..commands.context import NOTHING, SearchList
from ..controller import SessionController
from ..state.keymap import Keys
from ..widgets.message_queue import Draft

if TYPE_CHECKING:
    from friday_cli.workspace.checkpoints.review import FileDiff

    from ..widgets.diff_review import ReviewActions
    from ..widgets.profile_dialog import ProfileActions


class PlainContext:
    """The `CommandContext` of plain text. `say` prints lines, `leave` ends the chat, `reopened` is called when another
    session is open."""

    def __init__(
        self,
        controller: SessionController,
        say: Callable[[str], None],
        *,
        leave: Callable[[], None],
        reopened: Callable[[], None],
    ) -> None:
        self.controller = controller
        self.customs, self.keys = CustomCommands(), Keys()
        self._say, self._leave, self._reopened = say, leave, reopened

    def show_card(self, markdown: str) -> None:
        self._say(markdown.replace("\\|", "|"))

    def say_note(self, text: str, level: Literal["information", "warning", "error"] = "information") -> None:
        self._say(text if level == "information" else f"{level.capitalize()}: {text}")

    async def reopen(self, **changes: Any) -> bool:
        if wrong := await self.controller.switch(**changes):
            self.say_note(str(wrong), "error")
        self._reopened()
        return wrong is None

    async def send(self, text: str) -> None:
        for remark in await self.controller.say(text):
            self._say(f"Warning: {remark}")

    async def load_customs(self) -> None:
        self.customs = await slash_commands.load_customs(self.controller.options)

    async def send_custom(self, custom: CustomCommand, rest: str, draft: Draft) -> None:
        if self.controller.working:
            name = sanitize_line(draft.text, 40)
            raise UsageError(f"{name} has to wait: the agent is working. Ctrl+C stops it.")
        for remark in await self.controller.say_custom(custom, rest, draft):
            self.say_note(remark, "warning")

    async def pick_session(self) -> None:
        for known in (await lists.sessions(self.controller.options.cwd))[:20]:
            self._say(f"{known.id[:8]}: {sanitize_line(known.title, 100)}")
        self._say("/resume ID resumes one.")

    async def choose(
        self, title: str, choices: Sequence[tuple[str, str]], *, at: int = 0, about: Mapping[str, str] = NOTHING
    ) -> str | None:
        rows = [title]
        for key, label in choices:
            if key:
                named = label == key or label.startswith(f"{key}:")
                rows.append(sanitize_line(label if named else f"{key}: {label}", 200))
        self._say("\n".join([*rows, "Write the command again, followed by one of them."]))
        return None

    async def search(self, searched: SearchList) -> str | None:
        rows = searched.rows
        if (later := searched.later) is not None:
            self._say("Asking your services ...")
            async with aclosing(later):
                *_, rows = [rows, *[newer async for newer in later]]
        return await self.choose(searched.title, [(row.key, row.label) for row in rows])

    async def review(self, rows: Sequence[FileDiff], actions: ReviewActions) -> None:
        self._say(command_output.diff_card(rows))

    async def show_timeline(self) -> None:
        state, found = await command_output.timeline(self.controller)
        rows = render_timeline(state, found, shutil.get_terminal_size().columns)
        self._say("\n".join("".join(text for text, _ in row) for row in rows))

    async def show_profiles(self, actions: ProfileActions) -> None:
        self._say(profiles.card(actions.rows()))

    def offer(self, text: str) -> None:
        self._say(f"Your message was:\n{show_invisible(text)}")

    async def copy_text(self, text: str) -> None:
        raise UsageError("Copying is not available with --plain.", hint="Select it in your terminal, or use /export.")

    async def leave(self) -> None:
        self._leave()

    def look_for(self, text: str) -> None:
        raise UsageError("Searching is not available with --plain.", hint="Your terminal's own search sees all of it.")

    def focus_tree(self) -> None:
        from friday_cli.view.tree import render_tree

        self._say("\n".join(render_tree(self.controller.state)) or "No agents yet.")

    async def use_vim(self, wanted: bool | None) -> None:
        raise UsageError("Vim keys are not available with --plain.")

    async def use_theme(self, name: str) -> None:
        raise UsageError("Themes are not available with --plain.")
