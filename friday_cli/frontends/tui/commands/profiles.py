"""The profiles of a session, as the user looks at them, chooses sub-agents of the main agent and edits their files."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.session import lists
from friday_cli.session.commands import ChooseSubAgents, ListSubAgents

from .command_output import code, table
from .context import CommandContext

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from friday_cli.agents.sub_agents import SubAgentRow

    from ..widgets.profile_dialog import Editor


def card(rows: Sequence[SubAgentRow]) -> str:
    """The profiles as Markdown; what the main agent may delegate to is marked."""
    cells = [
        (
            "yes" if row.chosen else "no",
            code(row.name, 64),
            code(row.tools, 200),
            code(row.limits),
            code(row.model),
            code(row.delegates_to),
            code(row.refusal or row.depth),
        )
        for row in rows
    ]
    head = "**Profiles**: `@NAME` at the start of a message asks for one. `/profiles NAME ...` chooses the main agent's sub-agents."
    return f"{head}\n\n{table(('chosen', 'name', 'tools', 'limits', 'model', 'delegates to', 'depth'), cells)}"


async def choose(chat: CommandContext, names: Sequence[str]) -> None:
    """Let the main agent delegate to these profiles only, also after the session is opened again with other options. Raises
    UsageError."""
    controller = chat.controller
    await controller.require_session().do(ChooseSubAgents(tuple(names)))
    controller.keep(sub_agents=tuple(names))


class ChatProfileActions:
    """The `ProfileActions` of a chat; call `read` first. `edited`: a file was changed that the session can read again."""

    def __init__(self, chat: CommandContext) -> None:
        self._chat = chat
        self._rows: list[SubAgentRow] = []
        self.edited = False

    def rows(self) -> list[SubAgentRow]:
        return self._rows

    async def read(self) -> None:
        """Read the profiles. Raises UsageError."""
        self._rows = await self._chat.controller.require_session().do(ListSubAgents())

    async def toggle(self, name: str) -> None:
        chosen = [row.name for row in self.rows() if row.chosen]
        try:
            await choose(self._chat, [n for n in chosen if n != name] if name in chosen else [*chosen, name])
            await self.read()
        except FridayError as error:
            self._chat.say_note(str(error), "error")

    async def edit(self, name: str, editor: Editor) -> None:
        row = next(row for row in self.rows() if row.name == name)
        try:
            before = await asyncio.to_thread(row.path.read_text, encoding="utf-8")
            after = await editor(before)
            if after is None or after.rstrip() == before.rstrip():
                return
            path = await asyncio.to_thread(self._save, row, f"{after}\n")
        except (OSError, UnicodeDecodeError) as error:
            self._chat.say_note(f"{row.path} cannot be edited: {error}", "error")
            return
        except FridayError as error:
            self._chat.say_note(str(error), "error")
            return
        if row.origin in ("project", "claude"):
            self._chat.say_note(f"Saved: {path}. Run `friday trust`, then open the session again (/resume) to use it.")
        else:
            self.edited = True
            self._chat.say_note(f"Saved: {path}")

    def _save(self, row: SubAgentRow, text: str) -> Path:
        """Write the file of a profile; that of a built-in one as the user's own, which replaces it. Returns its path, and reports
        errors in it."""
        from friday_cli.extensions import profiles
        from friday_cli.system import atomic_file

        path = row.path
        if row.origin == "shipped":
            directory = lists.settings(self._chat.controller.options.cwd).agents.delegation.profiles.directory
            path = profiles.user_folder(directory) / f"{row.name}.md"
            if os.path.lexists(path):
                raise UsageError(f"{path} already exists.", hint="Edit it, or remove it first.")
            path.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.replace(path, text)
        for problem in profiles.check(path, own=None if row.origin == "claude" else path.parent)[1]:
            self._chat.say_note(str(problem), "error")
        return path
