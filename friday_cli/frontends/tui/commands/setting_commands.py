"""Slash commands for the model, the settings and what is configured."""

from __future__ import annotations

import asyncio

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.provider import EFFORTS
from friday_cli.session import lists

from . import command_output
from .command_table import command
from .context import CommandContext
from .session_commands import resumable


@command("model", "The model: choose another one, or name it", usage="[NAME]", idle=True)
async def _model(chat: CommandContext, rest: str) -> None:
    if not rest:
        session = chat.controller.session
        now = session.facts.model if session else "none"
        names = await lists.model_names(chat.controller.options.cwd)
        rest = await chat.choose(f"The model is {now}. /model NAME takes any other one.", [(n, n) for n in names]) or ""
    if rest and chat.controller.session is not None:
        await asyncio.to_thread(
            command_output.check_model, rest, chat.controller.options.cwd
        )  # a wrong name closes nothing
    if rest and await chat.reopen(model=rest, resume=resumable(chat)):
        chat.say_note(f"The session continues with {rest}.")


@command("effort", "How hard the model thinks", usage="[LEVEL]", idle=True)
async def _effort(chat: CommandContext, rest: str) -> None:
    if rest and rest not in EFFORTS:
        raise UsageError(f"Unknown effort {rest!r}.", hint=f"Known efforts: {', '.join(EFFORTS)}.")
    session = chat.controller.session
    now = session.facts.effort if session else None
    title = f"The effort is {now or 'the default of the model'}."
    rest = rest or await chat.choose(title, [(level, level) for level in EFFORTS]) or ""
    if rest and await chat.reopen(effort=rest, resume=resumable(chat)):
        chat.say_note(f"The effort is {rest} now.")


@command("memory", "Notes kept for later sessions", usage="[promote ID | forget ID]")
async def _memory(chat: CommandContext, rest: str) -> None:
    if rest:
        chat.say_note(await command_output.change_memory(rest))
        return
    chat.show_card(await command_output.memory_card(chat.controller.options.cwd))


@command("theme", "Colours: auto, dark, light, ansi, or another theme by name; the next without one", usage="[NAME]")
async def _theme(chat: CommandContext, rest: str) -> None:
    chat.use_theme(rest)


@command("config", "Where the settings are, and which are not at their default")
async def _config(chat: CommandContext, rest: str) -> None:
    chat.show_card(command_output.config_card())


@command("doctor", "What Friday sees on this machine")
async def _doctor(chat: CommandContext, rest: str) -> None:
    options = chat.controller.options
    chat.show_card(await command_output.doctor_card(options.cwd, options.model))
