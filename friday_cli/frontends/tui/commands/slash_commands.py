"""Runs slash commands, and those for the conversation and its agents. Custom commands come after Friday's own.

A command is one function with `@command`, in the file of its family.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.core.permissions.decision import MODES
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.extensions.commands import CustomCommands, find_command, load
from friday_cli.session import lists
from friday_cli.session.commands import ListRules, MeasureContext, RevokeRule, SetMode
from friday_cli.system.paths import with_tilde
from friday_cli.view import MessageItem

from ..state.keymap import file as keys_file
from ..widgets.message_queue import Draft
from . import cards, command_output, profiles, rewind, servers, session_commands, setting_commands
from .command_table import COMMANDS, as_command, choices, command, find, is_command, listed, unknown
from .context import CommandContext
from .session_commands import resumable

if TYPE_CHECKING:
    from friday_cli.session.open_context import Options

__all__ = [
    "as_command",
    "choices",
    "is_command",
    "listed",
    "load_customs",
    "run",
    "session_commands",
    "setting_commands",
    "unknown",
]


async def load_customs(options: Options) -> CustomCommands:
    """Load the user's own commands. Names of Friday's commands are reserved."""
    reserved = {name for c in COMMANDS for name in (c.name, *c.aliases)}
    return await asyncio.to_thread(load, options.cwd, trusted=options.trusted, reserved=reserved)


async def run(chat: CommandContext, draft: Draft) -> bool:
    """Run a command; False when there is none with that name. Errors are reported to the user."""
    text = draft.text
    name, _, rest = text[1:].partition(" ")
    found = find(name.lower())
    if found is None and servers.is_prompt(chat, name):
        await chat.send(text)
        return True
    if found is None:
        if find_command(text, chat.customs) is None:
            await chat.load_customs()
        own = find_command(text, chat.customs)
        if own is not None:
            await chat.send_custom(*own, draft)
        return own is not None
    try:
        if found.idle and chat.controller.working:
            raise UsageError(f"/{found.name} cannot run while the agent is working. Esc stops it.")
        await found.run(chat, rest.strip())
    except FridayError as error:
        chat.say_note(str(error), "error")
    return True


@command("help", "Commands and keys", aliases=("?",))
async def _help(chat: CommandContext, rest: str) -> None:
    await chat.load_customs()
    chat.show_card(command_output.help_card(listed(chat.customs), chat.customs.problems))


@command("keys", "All keys, by where the focus is")
async def _keys(chat: CommandContext, rest: str) -> None:
    from ..keys.keys import keys_page

    wrong = "".join(f"\n- {command_output.code(text, 300)}" for text in chat.keys.problems)
    tail = f"\n\nNot used:\n{wrong}" if wrong else ""
    chat.show_card(
        f"{keys_page(chat.keys.chosen)}\nYour own keys: {command_output.code(with_tilde(keys_file()), 200)}.{tail}"
    )


@command("mode", "What runs without asking you: ask, edits, plan, auto", usage="[MODE]")
async def _mode(chat: CommandContext, rest: str) -> None:
    names = [name for name, _ in command_output.MODE_HELP]
    if rest and rest not in names:
        raise UsageError(f"Unknown mode {rest!r}.", hint=f"Known modes: {', '.join(names)}.")
    now = chat.controller.mode or "ask"
    labels = [(name, f"{name}: {about}") for name, about in command_output.MODE_HELP]
    at = names.index(now) if now in names else 0
    rest = rest or await chat.choose(f"What runs without asking you? The mode is {now}.", labels, at=at) or ""
    for mode in MODES:
        if mode == rest:
            await chat.controller.require_session().do(SetMode(mode))


@command("plan", "Mode plan: read-only; with a task: plan it", usage="[TASK]")
async def _plan(chat: CommandContext, rest: str) -> None:
    await chat.controller.require_session().do(SetMode("plan"))
    if rest:
        await chat.send(rest)


@command("agents", "The tree of all agents of the session", aliases=("tasks",))
async def _agents(chat: CommandContext, rest: str) -> None:
    chat.focus_tree()


@command(
    "profiles",
    "The kinds of sub-agents: choose those of the main agent, edit their files; let the agent draft a new one, save it",
    usage="[NAME ... | new NAME [WHAT IT IS FOR] | save]",
)
async def _profiles(chat: CommandContext, rest: str) -> None:
    verb, _, more = rest.partition(" ")
    if verb == "new":
        return await profiles.new(chat, more.strip())
    if verb == "save":
        card, usable = await profiles.save(chat, more.strip())
        return chat.show_card(f"{card}\n\n{await _use_profiles(chat)}" if usable else card)
    if rest:
        names = rest.replace(",", " ").split()
        await profiles.choose(chat, names)
        chat.say_note(f"Sub-agents of the main agent: {', '.join(names)}.")
        return
    actions = profiles.ChatProfileActions(chat)
    await actions.read()
    await chat.show_profiles(actions)
    if actions.edited:
        chat.say_note(await _use_profiles(chat))


async def _use_profiles(chat: CommandContext) -> str:
    """Open the session again, with the profiles as they are now. Returns when they apply, in words."""
    busy = chat.controller.working or chat.controller.state.working
    if not busy and await chat.reopen(resume=resumable(chat)):
        return "Your changes to profiles apply now."
    why = "An agent is at work. Your" if busy else "Your"
    return f"{why} changes to profiles apply when the session is opened again (/resume)."


@command("mcp", "The MCP servers: their state and tools; reconnect one", usage="[reconnect NAME]")
async def _mcp(chat: CommandContext, rest: str) -> None:
    await servers.run_mcp(chat, rest)


@command(
    "lsp", "The language servers: their state; restart them, or switch checks off", usage="[restart [NAME] | off | on]"
)
async def _lsp(chat: CommandContext, rest: str) -> None:
    await servers.run_lsp(chat, rest)


@command("context", "What the context window holds, in tokens")
async def _context(chat: CommandContext, rest: str) -> None:
    chat.show_card(cards.context_card(await chat.controller.require_session().do(MeasureContext())))


@command("cost", "Tokens and cost, by agent", aliases=("usage",))
async def _cost(chat: CommandContext, rest: str) -> None:
    chat.show_card(cards.cost_card(chat.controller.state))


@command(
    "loop",
    "Send a message again and again, or until a command succeeds",
    usage="5m [x10] [$2] TEXT | until [x10] [$2] COMMAND | stop",
)
async def _loop(chat: CommandContext, rest: str) -> None:
    from ..loop import read_plan

    if rest == "stop":
        chat.say_note("The loop is stopped." if chat.controller.loop.stop() else "There is no loop.")
        return
    chat.controller.require_session()
    plan = read_plan(rest)
    chat.controller.loop.start(plan)
    chat.show_card(cards.loop_card(plan))


@command("budget", "Caps over all your sessions: what is used; change one", usage="[CAP AMOUNT [KEY] | clear]")
async def _budget(chat: CommandContext, rest: str) -> None:
    from . import budget  # the store, which a chat without a session does not need

    await budget.run(chat, rest)


@command("permissions", "The mode and the rules; remove one", usage="[remove [RULE]]")
async def _permissions(chat: CommandContext, rest: str) -> None:
    session = chat.controller.session
    verb, _, wanted = rest.partition(" ")
    if not rest:
        state = chat.controller.state
        places = await asyncio.to_thread(lists.rule_places, chat.controller.options.cwd)
        found = await session.do(ListRules()) if session else []
        rows = [(str(r), r.decision, r.source or places.get((r.decision, str(r)), "")) for r in found]
        rows = rows or [(added.rule, added.decision, "") for added in state.rules]
        chat.show_card(cards.rules_card(chat.controller.mode, state, rows))
    elif verb == "remove":
        await _revoke(chat, wanted.strip())
    else:
        raise UsageError("Write /permissions, or /permissions remove [RULE].")


async def _revoke(chat: CommandContext, wanted: str) -> None:
    """Remove an allow rule of this session or of the settings."""
    session = chat.controller.require_session()
    rules = await session.do(ListRules())
    found = {str(r): r for r in rules if r.decision == "allow" and r.source != "command line"}
    if not found:
        raise UsageError("No rule was allowed for this session or permanently.")
    places = await asyncio.to_thread(lists.rule_places, chat.controller.options.cwd)
    rows = [(name, f"{name} ({places.get(('allow', name)) or 'this session'})") for name in found]
    wanted = wanted or await chat.choose("Which rule should be removed?", rows) or ""
    if not wanted:
        return
    if wanted not in found:
        raise UsageError(f"No such rule: {wanted}.", hint=f"Rules: {', '.join(found)}.")
    await session.do(RevokeRule(found[wanted]))
    chat.say_note(f"Rule removed: {wanted}.")


@command("rewind", "Go back to one of your messages, with or without the files", usage="[NUMBER | undo]")
async def _rewind(chat: CommandContext, rest: str) -> None:
    await rewind.rewind(chat, rest)


@command("undo", "Take back your last message, with or without the file changes since")
async def _undo(chat: CommandContext, rest: str) -> None:
    await rewind.undo(chat)


@command("fork", "Start a second session from before one of your messages", usage="[NUMBER | all]")
async def _fork(chat: CommandContext, rest: str) -> None:
    await rewind.fork(chat, rest)


@command("compact", "Replace the conversation with a summary", usage="[WHAT TO KEEP]", idle=True)
async def _compact(chat: CommandContext, rest: str) -> None:
    chat.say_note("Compacting the conversation. Esc stops it; then nothing has changed.")
    await chat.controller.compaction.run(chat.controller.require_session(), rest)


@command("review", "Let a sub-agent review your changes, a branch or a commit", usage="[BASE | COMMIT]", idle=True)
async def _review(chat: CommandContext, rest: str) -> None:
    await chat.send(command_output.review_task(rest))


@command("diff", "What the agents changed, by agent and file: accept it or put it back")
async def _diff(chat: CommandContext, rest: str) -> None:
    bench = rewind.ChatReviewActions(chat)
    rows = await bench.changed_files()
    if not rows:
        raise UsageError("There are no changes of agents to review.")
    await chat.review(rows, bench)


@command("copy", "Copy the last answer, the one before it (2), or a code block of it", usage="[N] [code]")
async def _copy(chat: CommandContext, rest: str) -> None:
    words = rest.lower().split()
    numbers = [int(word) for word in words if word.isdecimal()]
    if len(words) > 2 or len(numbers) > 1 or any(word != "code" for word in words if not word.isdecimal()):
        raise UsageError(f"/copy does not know {rest!r}.", hint="/copy, /copy 2, /copy code, /copy 2 code.")
    root = chat.controller.state.root
    items = reversed(root.transcript if root is not None else [])
    replies = [item.text for item in items if isinstance(item, MessageItem) and item.role == "assistant" and item.text]
    number = numbers[0] if numbers else 1
    if not 1 <= number <= len(replies):
        raise UsageError(
            "There is no answer to copy yet."
            if not replies
            else f"There are {pluralize(len(replies), 'answer')}, so no {number}."
        )
    text = sanitize(replies[number - 1])
    if "code" in words:
        text = await _code_block(chat, text)
    if text:
        await chat.copy_text(text)


async def _code_block(chat: CommandContext, answer: str) -> str:
    """A code block of an answer: the only one, or that which the user chooses; "" for none."""
    from ...markdown import parser

    blocks = [
        token for token in parser().parse(answer) if token.type in ("fence", "code_block") and token.content.strip()
    ]
    if not blocks:
        raise UsageError("The answer has no code block.")
    if len(blocks) == 1:
        return blocks[0].content
    labels = [f"{token.info.strip() or 'code'}: {sanitize_line(token.content, 60)}" for token in blocks]
    choices = [
        (str(at), f"{label} ({pluralize(token.content.count(chr(10)), 'line')})")
        for at, (label, token) in enumerate(zip(labels, blocks, strict=True))
    ]
    chosen = await chat.choose("Which code block should be copied?", choices)
    return blocks[int(chosen)].content if chosen is not None else ""


@command("todo", "The agent's list of steps")
async def _todo(chat: CommandContext, rest: str) -> None:
    chat.show_card(cards.todo_card(chat.controller.state))


@command("find", "Search the transcript", usage="[TEXT]")
async def _find(chat: CommandContext, rest: str) -> None:
    chat.look_for(rest)


@command("init", "Let the agent write an AGENTS.md for this project", idle=True)
async def _init(chat: CommandContext, rest: str) -> None:
    await chat.send(command_output.INIT)


@command("add-dir", "Let the agents work in another folder too", usage="DIR", idle=True)
async def _add_dir(chat: CommandContext, rest: str) -> None:
    path = Path(os.path.realpath(os.path.expanduser(rest)))  # noqa: ASYNC240 - one look at one folder
    if not rest or not os.path.isdir(path):  # noqa: ASYNC240
        raise UsageError(f"{rest or 'Nothing'} is not a folder. Write /add-dir DIR.")
    dirs = (*chat.controller.options.add_dirs, path)
    if await chat.reopen(add_dirs=dirs, resume=resumable(chat)):
        chat.say_note(f"{path} is now part of the workspace.")
