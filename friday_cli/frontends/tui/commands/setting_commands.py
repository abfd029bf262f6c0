"""Slash commands for the model, the settings and what is configured."""

from __future__ import annotations

import asyncio

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.provider import EFFORTS
from friday_cli.session import lists

from . import cards, command_output, model_list, settings_list
from .command_table import command
from .context import CommandContext
from .session_commands import resumable


@command("model", "The model: choose from the list of your services, or name it", usage="[NAME]", idle=True)
async def _model(chat: CommandContext, rest: str) -> None:
    rest = rest or await model_list.choose_model(chat) or ""
    if rest and chat.controller.session is not None and chat.controller.remote is None:
        # another process has its own keys
        # a wrong name closes nothing
        await asyncio.to_thread(command_output.check_model, rest, chat.controller.options.cwd)
    if rest and await chat.reopen(model=rest, resume=resumable(chat)):
        chat.say_note(f"The session continues with {rest}.")


@command("effort", "How hard the model thinks", usage="[LEVEL]", idle=True)
async def _effort(chat: CommandContext, rest: str) -> None:
    if rest and rest not in EFFORTS:
        raise UsageError(f"Unknown effort {rest!r}.", hint=f"Known efforts: {', '.join(EFFORTS)}.")
    session = chat.controller.session
    now = session.facts.effort if session else None
    title = f"The effort is {now or 'the default of the model'}."
    levels = [*([] if now else [("", "Stay with it")]), *((level, level) for level in EFFORTS)]
    at = EFFORTS.index(now) if now else 0
    rest = rest or await chat.choose(title, levels, at=at) or ""
    if rest and await chat.reopen(effort=rest, resume=resumable(chat)):
        chat.say_note(f"The effort is now {rest}.")


@command("memory", "Notes kept for later sessions", usage="[promote ID | forget ID]")
async def _memory(chat: CommandContext, rest: str) -> None:
    if rest:
        chat.say_note(await command_output.change_memory(rest))
        return
    chat.show_card(await command_output.memory_card(chat.controller.options.cwd))


@command("theme", "The colours: choose from a list that shows each one, or name it", usage="[NAME]")
async def _theme(chat: CommandContext, rest: str) -> None:
    await chat.use_theme(rest)


@command("vim", "Vim keys in the prompt: on or off")
async def _vim(chat: CommandContext, rest: str) -> None:
    await chat.use_vim(None)


@command(
    "config",
    "Your settings: change one, or show those that you changed",
    usage="[show | KEY [VALUE]]",
    aliases=("settings",),
)
async def _config(chat: CommandContext, rest: str) -> None:
    if rest == "show":
        chat.show_card(command_output.config_card())
        return
    key, _, value = rest.partition(" ")
    key = key or await settings_list.choose_setting(chat) or ""
    if key:
        await settings_list.change_setting(chat, key, value.strip())


@command("status", "The session at a glance: model, mode, sandbox, context, agents, cost")
async def _status(chat: CommandContext, rest: str) -> None:
    chat.show_card(await cards.status_card(chat.controller))


@command("hooks", "The hooks: programs that run when something happens")
async def _hooks(chat: CommandContext, rest: str) -> None:
    chat.show_card(cards.hooks_card(*await asyncio.to_thread(lists.hooks, chat.controller.options.cwd)))


@command("skills", "The skills: instructions that an agent loads when it needs them")
async def _skills(chat: CommandContext, rest: str) -> None:
    chat.show_card(cards.skills_card(await asyncio.to_thread(lists.skills, chat.controller.options.cwd)))


@command("doctor", "What Friday sees on this machine")
async def _doctor(chat: CommandContext, rest: str) -> None:
    options = chat.controller.options
    chat.show_card(await command_output.doctor_card(options.cwd, options.model))
