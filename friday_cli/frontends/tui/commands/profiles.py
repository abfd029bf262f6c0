"""The profiles of a session, as the user looks at them, chooses sub-agents of the main agent and edits their files."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.session import lists
from friday_cli.session.commands import ChooseSubAgents, ListSubAgents
from friday_cli.view import MessageItem

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


DRAFT = """\
Profile {name}.

Write a profile named {name} for this: {about}

A profile is a Markdown file that defines a sub-agent of Friday: front matter with its description, tools and limits, then its \
prompt. Fill in this template. List only the tools that it needs, of those that you have. Answer with the file alone, in one code \
block. I save it with /profiles save.

~~~markdown
{template}~~~
"""


async def new(chat: CommandContext, rest: str) -> None:
    """Make the file of a profile from the template, or, with words about it, let the main agent draft one. Raises FridayError."""
    from friday_cli.extensions.profiles import create, render

    name, _, about = rest.partition(" ")
    if not name:
        raise UsageError("Write /profiles new NAME, followed by what the sub-agent is for.")
    template = render.template(name)
    path = create.unused(_own_folder(chat) / f"{name}.md")
    if about.strip():
        if chat.controller.working:
            raise UsageError("The agent is at work.", hint="Esc stops it.")
        await chat.send(DRAFT.format(name=name, about=about.strip(), template=template))
        return
    await asyncio.to_thread(create.create, path, template)
    chat.say_note(f"Made from the template: {path}. Fill it in: /profiles, then e.")


async def save(chat: CommandContext, rest: str) -> tuple[str, bool]:
    """Check the profile of the main agent's last answer, and write its file. Returns what it is, as Markdown, and whether the
    session can use it now. Raises FridayError."""
    from friday_cli.extensions.profiles import create, render
    from friday_cli.extensions.trust import is_trusted

    words = rest.split()
    if set(words) - {"project", "replace"}:
        raise UsageError("Write /profiles save [project] [replace].")
    text = _draft(chat)
    profile = await asyncio.to_thread(create.drafted, text)
    folder = _own_folder(chat)
    if "project" in words:
        folder = (await asyncio.to_thread(is_trusted, chat.controller.options.cwd)).root / ".friday/profiles"
    path = folder / f"{profile.name}.md"
    if "replace" not in words:
        create.unused(path, hint="/profiles save replace replaces it.")
    await asyncio.to_thread(create.create, path, text, replace=True)
    rows = [f"- {name}: {code(value, 400)}" for name, value in render.facts(profile) if value and name != "file"]
    if "project" in words:
        rows.append("- Run `friday trust`, then open the session again (/resume) to use it.")
    return f"**Saved** as {code(str(path), 300)}\n\n" + "\n".join(rows), "project" not in words


def _own_folder(chat: CommandContext) -> Path:
    """The folder of the user's profiles."""
    from friday_cli.extensions import profiles

    return profiles.user_folder(lists.settings(chat.controller.options.cwd).agents.delegation.profiles.directory)


def _draft(chat: CommandContext) -> str:
    """The file of a profile in the main agent's last answer. Raises UsageError."""
    from ...markdown import parser

    root = chat.controller.state.root
    replies = [
        item.text
        for item in (root.transcript if root else ())
        if isinstance(item, MessageItem) and item.role == "assistant"
    ]
    answer = replies[-1].strip() if replies else ""
    blocks = [token.content for token in parser().parse(answer) if token.type == "fence"]
    found = next((text for text in (*blocks, answer) if text.startswith("---\n")), "")
    if not found:
        raise UsageError("The last answer has no profile.", hint="/profiles new NAME WORDS asks for a draft.")
    return found.rstrip("\n") + "\n"


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
            path = _own_folder(self._chat) / f"{row.name}.md"
            if os.path.lexists(path):
                raise UsageError(f"{path} already exists.", hint="Edit it, or remove it first.")
            path.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.replace(path, text)
        for problem in profiles.check(path, own=None if row.origin == "claude" else path.parent)[1]:
            self._chat.say_note(str(problem), "error")
        return path
