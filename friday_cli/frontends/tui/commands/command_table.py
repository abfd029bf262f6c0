"""The table of slash commands: `command` adds one; the palette, the `/` list and the help are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from friday_cli.core.text.suggest import closest_match
from friday_cli.extensions.commands import CustomCommands

from ..widgets.completion_popup import Completion
from .context import CommandContext

Run = Callable[[CommandContext, str], Awaitable[None]]


@dataclass(frozen=True)
class SlashCommand:
    """One command. `usage` names its arguments; an `idle` command needs the main agent to be idle."""

    name: str
    help: str
    run: Run
    usage: str = ""
    aliases: tuple[str, ...] = ()
    idle: bool = False


COMMANDS: list[SlashCommand] = []


def command(
    name: str, help: str, *, usage: str = "", aliases: tuple[str, ...] = (), idle: bool = False
) -> Callable[[Run], Run]:
    """Add a function to the table."""

    def add(run: Run) -> Run:
        COMMANDS.append(SlashCommand(name, help, run, usage, aliases, idle))
        return run

    return add


def find(name: str) -> SlashCommand | None:
    """The command with that name or alias."""
    return next((c for c in COMMANDS if name == c.name or name in c.aliases), None)


def listed(customs: CustomCommands) -> list[tuple[str, str, str]]:
    """(name, usage, help) of every command: /help, then by name, custom commands last."""
    own = sorted(customs.found.items())
    shipped = sorted(COMMANDS, key=lambda c: (c.name != "help", c.name))
    return [*((c.name, c.usage, c.help) for c in shipped), *((name, c.hint, c.description) for name, c in own)]


def choices(query: str, customs: CustomCommands, prompts: Sequence[tuple[str, str, str]] = ()) -> list[Completion]:
    """The commands, and the `prompts` of MCP servers (name, usage, description), that match what is typed after `/`: exact name
    first, then prefix, then any match."""
    query = query.lower()
    aliases = {c.name: c.aliases for c in COMMANDS}

    def names(name: str) -> tuple[str, ...]:
        return (name, *aliases.get(name, ()))

    def begins(name: str) -> bool:
        return any(n.startswith(query) for n in names(name))

    rows = [row for row in (*listed(customs), *prompts) if begins(row[0]) or query in f"{row[0]} {row[2].lower()}"]
    return [
        Completion(f"/{name} " if usage and not usage.startswith("[") else f"/{name}", f"/{name} {usage}".strip(), help)
        for name, usage, help in sorted(rows, key=lambda row: (query not in names(row[0]), not begins(row[0])))
    ]


OTHER_NAMES = {
    "about": "/status",
    "allowed-tools": "/permissions",
    "approvals": "/permissions",
    "auth": "`friday auth set` in a shell",
    "branch": "/fork",
    "checkpoint": "/rewind",
    "compress": "/compact",
    "connect": "`friday auth set` in a shell",
    "continue": "/resume",
    "details": "Ctrl+O",
    "directory": "/add-dir",
    "editor": "Ctrl+G",
    "extensions": "`friday plugins` in a shell",
    "fast": "`--service-tier fast` at the start",
    "keybindings": "/keys",
    "keymap": "/keys",
    "login": "`friday auth set` in a shell",
    "logout": "`friday auth remove` in a shell",
    "mcps": "/mcp",
    "mention": "@ and a part of the name",
    "models": "/model",
    "output-style": "AGENTS.md, or a profile",
    "plugin": "`friday plugins` in a shell",
    "plugins": "`friday plugins` in a shell",
    "policies": "/permissions",
    "redo": "/rewind undo",
    "restore": "/rewind",
    "sandbox": "[sandbox] in the settings; /status shows it",
    "share": "/export html",
    "stats": "/cost",
    "statusline": "`tui.status_command` in the settings",
    "subagents": "/agents",
    "summarize": "/compact",
    "themes": "/theme",
    "thinking": "/effort",
    "todos": "/todo",
}
"""What other assistants call what Friday has by another name."""

_LONE_WORDS = {"?": "/help", "exit": "/quit", "quit": "/quit", ":q": "/quit"}
"""What other assistants take as a command where it is the whole message."""


def as_command(text: str) -> str:
    """The command that a message of one word stands for, else the message."""
    return _LONE_WORDS.get(text.strip(), text)


def is_command(text: str) -> bool:
    """Whether a text has the form of a command, known or not; an absolute path has not."""
    return text.startswith("/") and "\n" not in text and "/" not in text[1:].strip().partition(" ")[0]


def unknown(text: str, customs: CustomCommands) -> str:
    """The message for a command that does not exist, with the most similar name if there is one."""
    word = text.split()[0]
    if here := OTHER_NAMES.get(word[1:].lower()):
        return f"No such command: {word}. In Friday it is: {here}."
    close = closest_match(
        word[1:].lower(), [*(name for c in COMMANDS for name in (c.name, *c.aliases)), *customs.found]
    )
    return f"No such command: {word}. " + (f"Did you mean /{close}?" if close else "/help lists the commands.")
