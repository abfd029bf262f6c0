"""The language servers of a session, as the user looks at them, restarts them and switches them off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import UsageError

from .command_output import code
from .context import CommandContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from friday_cli.core.protocol.code_check import LanguageServerRow


async def run(chat: CommandContext, rest: str) -> None:
    """Show the language servers, or restart or switch them. Raises UsageError."""
    from friday_cli.session.commands import ListLanguageServers, SwitchLanguageServers

    session = chat.controller.require_session()
    action, _, name = rest.partition(" ")
    if not action:
        rows = await session.do(ListLanguageServers())
        chat.show_card(card(rows))
    elif action in ("restart", "off", "on") and (action == "restart" or not name):
        chat.say_note(await session.do(SwitchLanguageServers(action, name.strip())))  # type: ignore[arg-type]
    else:
        raise UsageError("Usage: /lsp, /lsp restart [NAME], /lsp off, or /lsp on.")


def card(rows: Sequence[LanguageServerRow]) -> str:
    """The servers as Markdown."""
    if not rows:
        return "**Language servers**: none has been needed so far. One starts when an agent changes a file that it handles; `friday lsp list` shows which."
    return "**Language servers**\n\n" + "\n".join(map(_row, rows))


def _row(row: LanguageServerRow) -> str:
    error = f"  \n  last error: {code(row.error, 300)}" if row.error else ""
    name, takes = f"{row.name} {row.version}".strip(), f", {row.mb:,} MB" if row.mb else ""
    return f"- **{code(name, 90)}**: {code(row.state)}{takes} in {code(row.root, 200)}  \n  {code(row.program, 200)}{error}"
