"""The MCP servers and language servers of a session: the user looks at them, connects to them again, restarts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.tool_info import SERVER_PREFIX

from .command_output import code
from .context import CommandContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from friday_cli.core.protocol.code_check import LanguageServerRow
    from friday_cli.mcp.pool import ServerRow


def is_prompt(chat: CommandContext, name: str) -> bool:
    """Whether a command is the prompt of a server, which the session replaces by its text."""
    session = chat.controller.session
    return name.startswith(SERVER_PREFIX) and session is not None and session.facts.prompts is not None


async def run_mcp(chat: CommandContext, rest: str) -> None:
    """Show the servers, or reconnect one of them. Raises UsageError, ServerError."""
    from friday_cli.session.commands import ListServers, ReconnectServer

    session = chat.controller.require_session()
    rows = await session.do(ListServers())
    action, _, name = rest.partition(" ")
    if not action:
        chat.show_card(card(rows, session.facts.prompts or ()))
    elif action == "reconnect" and name.strip():
        await session.do(ReconnectServer(name.strip()))
        chat.say_note(f"Connected to {name.strip()}.")
    else:
        raise UsageError("Usage: /mcp, or /mcp reconnect NAME.")


def card(rows: Sequence[ServerRow], prompts_of_servers: Sequence[tuple[str, str, str]]) -> str:
    """The servers as Markdown, and their prompts."""
    text = "\n".join(_server(row) for row in rows)
    lines = [
        f"- {code(f'/{name} {usage}'.strip(), 120)} {code(about, 200)}" for name, usage, about in prompts_of_servers
    ]
    prompts = "\n\nPrompts:\n\n" + "\n".join(lines) if lines else ""
    return f"**MCP servers**: `/mcp reconnect NAME` connects again.\n\n{text}{prompts}"


def _server(row: ServerRow) -> str:
    """A server in one item of a list: a table of this would not fit in 80 columns."""
    facts = [
        code(row.state),
        tools(row.tools, row.offered) + " tools" if row.exposed else "",
        _SHOWN.get(row.exposed, ""),
    ]
    facts += [code(row.version, 60) if row.version else ""]
    problem = row.last_error.removeprefix(f"MCP server {row.name}: ")
    error = f"\n  last error: {code(problem, 300)}" if problem else ""
    return f"- **{code(row.name, 64)}**: {', '.join(filter(None, facts))}  \n  {code(row.where, 200)}{error and '  '}{error}"


_SHOWN = {
    "direct": "in the prompts of agents",
    "search": "found by search",
    "delegated": "only for sub-agents whose profile names it",
    "hidden": "hidden from agents",
}


def tools(used: int, offered: int) -> str:
    """The number of tools, and how many the server has if these are more."""
    return str(used) if offered <= used else f"{used} of {offered}"


async def run_lsp(chat: CommandContext, rest: str) -> None:
    """Show the language servers, or restart or switch them. Raises UsageError."""
    from friday_cli.session.commands import ListLanguageServers, SwitchLanguageServers

    session = chat.controller.require_session()
    action, _, name = rest.partition(" ")
    if not action:
        rows = await session.do(ListLanguageServers())
        chat.show_card(language_servers_card(rows))
    elif action in ("restart", "off", "on") and (action == "restart" or not name):
        chat.say_note(await session.do(SwitchLanguageServers(action, name.strip())))  # type: ignore[arg-type]
    else:
        raise UsageError("Usage: /lsp, /lsp restart [NAME], /lsp off, or /lsp on.")


def language_servers_card(rows: Sequence[LanguageServerRow]) -> str:
    """The servers as Markdown."""
    if not rows:
        return "**Language servers**: none has been needed so far. One starts when an agent changes a file that it handles; `friday lsp list` shows which."
    return "**Language servers**\n\n" + "\n".join(map(_language_server, rows))


def _language_server(row: LanguageServerRow) -> str:
    error = f"  \n  last error: {code(row.error, 300)}" if row.error else ""
    name, takes = f"{row.name} {row.version}".strip(), f", {row.mb:,} MB" if row.mb else ""
    return f"- **{code(name, 90)}**: {code(row.state)}{takes} in {code(row.root, 200)}  \n  {code(row.program, 200)}{error}"
