"""The commands of the chat: one table, from which the palette, the `/` list, the help and its page are made.

Interface: `COMMANDS`, `find(name)`, `await run(chat, draft)`, `listed(customs)`, `choices(query, customs)`; `Chat` is what
a command may do. What the engine cannot do is not in the table. The person's own commands stand behind Friday's.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from friday_cli.core.errors import FridayError, UsageError
from friday_cli.core.permission import MODES
from friday_cli.custom import Custom, Customs, called

from . import cards
from .engine import Engine
from .keymap import Keys
from .keymap import file as keys_file
from .popup import Choice
from .waiting import Draft


class Chat(Protocol):
    """What commands do to the chat."""

    engine: Engine
    customs: Customs
    keys: Keys

    def show_card(self, markdown: str) -> None:
        """Show a text of our own in the transcript."""

    def say_note(self, text: str, level: Literal["information", "warning", "error"] = "information") -> None:
        """Say one line."""

    async def reopen(self, **changes: Any) -> None:
        """Open another session, or this one with other options."""

    async def send(self, text: str) -> None:
        """Send a message to the main agent."""

    async def send_custom(self, custom: Custom, rest: str, draft: Draft) -> None:
        """Send what a command of the person's own says, now or when the agent has time."""

    async def load_customs(self) -> None:
        """Look for the person's own commands again."""

    async def pick_session(self) -> None:
        """Let the person choose a session to go on with."""

    async def choose(self, title: str, choices: Sequence[tuple[str, str]]) -> str | None:
        """Let the person choose one of (key, label); None when it was none."""

    async def copy_text(self, text: str) -> None:
        """Put a text on the clipboards."""

    async def leave(self) -> None:
        """Quit."""

    def last_reply(self) -> str:
        """The newest words of the main agent."""

    def look_for(self, text: str) -> None:
        """Search the transcript."""

    def focus_tree(self) -> None:
        """Go to the tree of agents."""

    def use_theme(self, name: str) -> None:
        """Change the theme; "" goes to the next. Raises FridayError."""


Run = Callable[[Chat, str], Awaitable[None]]


@dataclass(frozen=True)
class Command:
    """One command. `usage` names what may follow it; `idle` means that no agent may be at work."""

    name: str
    help: str
    run: Run
    usage: str = ""
    aliases: tuple[str, ...] = ()
    idle: bool = False


COMMANDS: list[Command] = []


def command(
    name: str, help: str, *, usage: str = "", aliases: tuple[str, ...] = (), idle: bool = False
) -> Callable[[Run], Run]:
    """Put a function into the table."""

    def add(run: Run) -> Run:
        COMMANDS.append(Command(name, help, run, usage, aliases, idle))
        return run

    return add


def find(name: str) -> Command | None:
    """The command of a name or another name of it."""
    return next((c for c in COMMANDS if name == c.name or name in c.aliases), None)


def listed(customs: Customs) -> list[tuple[str, str, str]]:
    """(name, what may follow it, help) of every command, the person's own ones behind Friday's."""
    own = sorted(customs.found.items())
    return [*((c.name, c.usage, c.help) for c in COMMANDS), *((name, c.hint, c.description) for name, c in own)]


def choices(query: str, customs: Customs) -> list[Choice]:
    """The commands for what is typed after `/`: the one that it names, those that begin with it, then those that have it."""
    query = query.lower()
    aliases = {c.name: c.aliases for c in COMMANDS}

    def names(name: str) -> tuple[str, ...]:
        return (name, *aliases.get(name, ()))

    def begins(name: str) -> bool:
        return any(n.startswith(query) for n in names(name))

    rows = [row for row in listed(customs) if begins(row[0]) or query in f"{row[0]} {row[2].lower()}"]
    return [
        Choice(f"/{name} " if usage and not usage.startswith("[") else f"/{name}", f"/{name} {usage}".strip(), help)
        for name, usage, help in sorted(rows, key=lambda row: (query not in names(row[0]), not begins(row[0])))
    ]


async def run(chat: Chat, draft: Draft) -> bool:
    """Run what stands behind a `/`; False when it is no command. Failures are said."""
    text = draft.text
    name, _, rest = text[1:].partition(" ")
    found = find(name.lower())
    if found is None:
        if called(text, chat.customs) is None:
            await chat.load_customs()
        own = called(text, chat.customs)
        if own is not None:
            await chat.send_custom(*own, draft)
        return own is not None
    try:
        if found.idle and chat.engine.working:
            raise UsageError(f"/{found.name} has to wait: the agent is at work. Esc interrupts it.")
        await found.run(chat, rest.strip())
    except FridayError as error:
        chat.say_note(str(error), "error")
    return True


# ---- the table ------------------------------------------------------------------------------------------------------


@command("help", "Commands and keys", aliases=("?",))
async def _help(chat: Chat, rest: str) -> None:
    await chat.load_customs()
    chat.show_card(cards.help_card(listed(chat.customs), chat.customs.problems))


@command("keys", "All keys, by where the focus is")
async def _keys(chat: Chat, rest: str) -> None:
    from .keys import keys_page

    wrong = "".join(f"\n- {cards.code(text, 300)}" for text in chat.keys.problems)
    tail = f"\n\nNot used:\n{wrong}" if wrong else ""
    chat.show_card(f"{keys_page(chat.keys.chosen)}\nYour own keys: {cards.code(str(keys_file()), 200)}.{tail}")


@command("model", "The model: choose another one, or name it", usage="[NAME]", idle=True)
async def _model(chat: Chat, rest: str) -> None:
    if not rest:
        session = chat.engine.session
        now = f"{session.root.provider.name}/{session.root.provider.model}" if session else "none"
        names = await cards.model_names(chat.engine.options.cwd)
        rest = await chat.choose(f"The model is {now}. /model NAME takes any other one.", [(n, n) for n in names]) or ""
    if rest:
        await chat.reopen(model=rest, resume=_resumable(chat))
        chat.say_note(f"The session goes on with {rest}.")


@command("effort", "How hard the model thinks", usage="[LEVEL]", idle=True)
async def _effort(chat: Chat, rest: str) -> None:
    levels = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    if rest and rest not in levels:
        raise UsageError(f"{rest} is no effort.", hint=f"There are: {', '.join(levels)}.")
    session = chat.engine.session
    now = session.root.effort if session else None
    title = f"The effort is {now or 'the default of the model'}."
    rest = rest or await chat.choose(title, [(level, level) for level in levels]) or ""
    if rest:
        await chat.reopen(effort=rest, resume=_resumable(chat))
        chat.say_note(f"The effort is {rest} now.")


def _resumable(chat: Chat) -> str | None:
    """The open session, if anything was said in it."""
    session = chat.engine.session
    return session.id if session is not None and chat.engine.state.root is not None else None


@command("mode", "What passes without asking: ask, edits, plan, auto", usage="[MODE]")
async def _mode(chat: Chat, rest: str) -> None:
    names = [name for name, _ in cards.MODES]
    if rest and rest not in names:
        raise UsageError(f"{rest} is no mode.", hint=f"There are: {', '.join(names)}.")
    now = chat.engine.state.mode or "ask"
    labels = [(name, f"{name}: {about}") for name, about in cards.MODES]
    rest = rest or await chat.choose(f"What passes without asking. The mode is {now}.", labels) or ""
    for mode in MODES:
        if mode == rest:
            await chat.engine.set_mode(mode)


@command("plan", "Mode plan: nothing that changes anything")
async def _plan(chat: Chat, rest: str) -> None:
    await chat.engine.set_mode("plan")


@command("agents", "The tree of all agents of the session", aliases=("tasks",))
async def _agents(chat: Chat, rest: str) -> None:
    chat.focus_tree()


@command("profiles", "The kinds of sub-agents there are here")
async def _profiles(chat: Chat, rest: str) -> None:
    options = chat.engine.options
    chat.show_card(await cards.profiles_card(options.cwd, trusted=options.trusted))


@command("context", "What the context window holds")
async def _context(chat: Chat, rest: str) -> None:
    session, root = chat.engine.session, chat.engine.state.root
    window = (root.window if root else 0) or (session.root.provider.window if session else 0)
    chat.show_card(cards.context_card(chat.engine.state, window))


@command("cost", "Tokens and cost, by agent", aliases=("usage",))
async def _cost(chat: Chat, rest: str) -> None:
    chat.show_card(cards.cost_card(chat.engine.state))


@command("permissions", "The mode and the rules that hold")
async def _permissions(chat: Chat, rest: str) -> None:
    session = chat.engine.session
    rules = [(str(rule), rule.decision) for rule in session.rules.rules] if session else []
    chat.show_card(cards.rules_card(chat.engine.state, rules))


@command("diff", "What the agents changed, by agent and file")
async def _diff(chat: Chat, rest: str) -> None:
    chat.show_card(cards.diff_card(chat.engine.state))


@command("resume", "Go on with an earlier session of this folder", usage="[ID]", idle=True)
async def _resume(chat: Chat, rest: str) -> None:
    if not rest:
        await chat.pick_session()
        return
    from friday_cli.paths import store_path
    from friday_cli.store import Store

    store = Store(store_path())
    try:
        found = await store.find(rest)
    finally:
        await store.close()
    await chat.reopen(resume=found)


@command("new", "Begin a new session; this one is kept", aliases=("clear",), idle=True)
async def _new(chat: Chat, rest: str) -> None:
    await chat.reopen(resume=None)


@command("rename", "Give the session a title", usage="TITLE")
async def _rename(chat: Chat, rest: str) -> None:
    from friday_cli.paths import store_path
    from friday_cli.store import Store

    session = chat.engine.session
    if not rest or session is None:
        raise UsageError("Write the title behind it: /rename TITLE.")
    store = Store(store_path())
    try:
        await store.rename(session.id, rest)
    finally:
        await store.close()
    chat.say_note("Renamed.")


@command("export", "Write the session to a file: md, json or atif", usage="[FORMAT] [FILE]")
async def _export(chat: Chat, rest: str) -> None:
    chat.say_note(f"Written to {await cards.export_file(chat.engine, rest)}.")


@command("copy", "Copy the last answer")
async def _copy(chat: Chat, rest: str) -> None:
    text = chat.last_reply()
    if not text:
        raise UsageError("There is no answer to copy yet.")
    await chat.copy_text(text)


@command("find", "Search the transcript", usage="[TEXT]")
async def _find(chat: Chat, rest: str) -> None:
    chat.look_for(rest)


@command("memory", "Notes kept for later sessions", usage="[promote ID | forget ID]")
async def _memory(chat: Chat, rest: str) -> None:
    if rest:
        chat.say_note(await cards.change_memory(rest))
        return
    chat.show_card(await cards.memory_card(chat.engine.options.cwd))


@command("init", "Let the agent write an AGENTS.md for this project", idle=True)
async def _init(chat: Chat, rest: str) -> None:
    await chat.send(cards.INIT)


@command("add-dir", "Let the agents work in another folder too", usage="DIR", idle=True)
async def _add_dir(chat: Chat, rest: str) -> None:
    path = Path(os.path.realpath(os.path.expanduser(rest)))  # noqa: ASYNC240 - one look at one folder
    if not rest or not os.path.isdir(path):  # noqa: ASYNC240
        raise UsageError(f"{rest or 'Nothing'} is not a folder. Write /add-dir DIR.")
    dirs = (*chat.engine.options.add_dirs, path)
    await chat.reopen(add_dirs=dirs, resume=_resumable(chat))
    chat.say_note(f"{path} belongs to the workspace now.")


@command("theme", "Colours: auto, dark, light, ansi, or another theme by name; the next without one", usage="[NAME]")
async def _theme(chat: Chat, rest: str) -> None:
    chat.use_theme(rest)


@command("config", "Where the settings are, and which are not at their default")
async def _config(chat: Chat, rest: str) -> None:
    chat.show_card(cards.config_card(chat.engine.options))


@command("doctor", "What Friday sees on this machine")
async def _doctor(chat: Chat, rest: str) -> None:
    chat.show_card(await cards.doctor_card())


@command("quit", "Leave; the session is kept", aliases=("exit", "q"))
async def _quit(chat: Chat, rest: str) -> None:
    await chat.leave()
