"""Slash commands for sessions: resume, begin, name, export, leave."""

from __future__ import annotations

from friday_cli.core.protocol.errors import UsageError
from friday_cli.session import lists
from friday_cli.system.paths import with_tilde

from ...host import terminal
from ..controller import SessionController
from . import command_output
from .command_table import command
from .context import CommandContext


def resumable(chat: CommandContext) -> str | None:
    """The id of the open session if it has messages. Raises UsageError while another process drives it."""
    if chat.controller.shown is None:
        return None
    session = chat.controller.require_session()
    return session.id if chat.controller.state.root is not None else None


@command("resume", "Resume an earlier session of this folder", usage="[ID]", idle=True, aliases=("sessions",))
async def _resume(chat: CommandContext, rest: str) -> None:
    if not rest:
        await chat.pick_session()
        return
    await chat.reopen(resume=await lists.find_session(rest), sub_agents=None)


@command("new", "Begin a new session; this one is kept", aliases=("clear",), idle=True)
async def _new(chat: CommandContext, rest: str) -> None:
    await chat.reopen(resume=None, sub_agents=None)


@command("rename", "Give the session a title", usage="TITLE")
async def _rename(chat: CommandContext, rest: str) -> None:
    session = chat.controller.session
    if not rest or session is None:
        raise UsageError("Write /rename TITLE.")
    await lists.rename(session.id, rest)
    chat.say_note("Renamed.")


@command(
    "export",
    "Write the session to a file, or copy it: md, html, json, perfetto, atif or otlp",
    usage="[FORMAT] [FILE | copy]",
)
async def _export(chat: CommandContext, rest: str) -> None:
    if not rest:
        name = f"friday-{(chat.controller.shown or chat.controller.require_session()).id[:8]}.md"
        folder = with_tilde(chat.controller.options.cwd)
        choices = [
            (name, f"{name} in {folder}"),
            (f"~/{name}", f"~/{name}"),
            ("copy", "The clipboard"),
            ("?", "Another file: type its name"),
        ]
        rest = await chat.choose("Where should the session be written, as Markdown?", choices) or ""
    if rest == "?":
        chat.offer("/export md ")
    elif rest.split()[-1:] == ["copy"]:
        await chat.copy_text(await command_output.export_text(chat.controller, rest.removesuffix("copy").strip()))
    elif rest:
        chat.say_note(f"Written to {with_tilde(await command_output.export_file(chat.controller, rest))}.")


@command("timeline", "When each agent worked and what it waited for; zooms")
async def _timeline(chat: CommandContext, rest: str) -> None:
    if chat.controller.shown is None:
        chat.controller.require_session()
    await chat.show_timeline()


@command("detach", "Leave; the agents keep working without this terminal")
async def _detach(chat: CommandContext, rest: str) -> None:
    controller = chat.controller
    if controller.remote is None:
        _require_detachable(controller)
        controller.detached = bool(controller.working or controller.agents_at_work or controller.loop.running)
    elif controller.loop.running:
        rows = (("stay", "Stay"), ("leave", "Leave, and end the loop; the session goes on"))
        if await chat.choose("A loop runs in this chat, and ends with it.", rows) != "leave":
            return
    await chat.leave()


def _require_detachable(controller: SessionController) -> None:
    """Raises UsageError if the session cannot go on without the terminal."""
    if not terminal.can_let_go():
        hint = 'Start such work with `friday ask -b "TASK"`.'
        raise UsageError("This chat cannot be detached from its terminal: no process waits for it there.", hint=hint)
    if controller.compaction.running or not controller.require_session().facts.kept:
        why = "its history is being compacted" if controller.compaction.running else "it is not stored"
        raise UsageError(f"The session cannot continue without the terminal: {why}.")


@command("takeover", "Work with a sub-agent in place of its parent (`t` in the tree)", usage="ID")
async def _takeover(chat: CommandContext, rest: str) -> None:
    from friday_cli.session.commands import TakeOver

    if not rest:
        raise UsageError("Write /takeover ID, such as /takeover a.1.")
    await chat.controller.require_session().do(TakeOver(rest))
    chat.say_note(f"You have taken over {rest}. Write `@{rest} TEXT` to it.")


@command("handback", "Hand a sub-agent that you took over back to its parent", usage="[ID] [RESULT]")
async def _handback(chat: CommandContext, rest: str) -> None:
    from friday_cli.session.commands import HandBack

    session = chat.controller.require_session()
    taken = [agent.path for agent in chat.controller.state.working if agent.taken_over]
    first, _, result = rest.partition(" ")
    path, result = (
        (first, result) if first in chat.controller.state.agents else (taken[0] if len(taken) == 1 else "", rest)
    )
    if not path:
        hint = f"Name one: {', '.join(taken)}." if taken else "`t` in the tree of agents takes one over."
        raise UsageError("Which sub-agent?" if taken else "You have not taken over a sub-agent.", hint=hint)
    await session.do(HandBack(path, result.strip()))
    chat.say_note(f"{path} was handed back.")


@command("stop", "Stop all agents and end the session's process")
async def _stop(chat: CommandContext, rest: str) -> None:
    remote = chat.controller.remote
    if remote is None:
        await chat.controller.interrupt()
        chat.say_note("Stopped.")
        return
    await remote.end()
    await chat.leave()


@command("quit", "Leave; the session is kept", aliases=("exit", "q"))
async def _quit(chat: CommandContext, rest: str) -> None:
    await chat.leave()
