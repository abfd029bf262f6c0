"""The settings that `/config` changes. Those that decide what agents may do, reach or run are left to the file itself."""

from __future__ import annotations

import asyncio
from typing import Any

from friday_cli.core.protocol.errors import UsageError
from friday_cli.system.paths import with_tilde

from .context import CommandContext, SearchList, SearchRow
from .session_commands import resumable

CHANGEABLE = (
    "model", "subagent_model", "fallback_model", "effort", "mode", "theme", "limits.max_turns", "limits.max_tokens",
    "limits.max_cost", "limits.timeout", "agents.delegation.enabled", "agents.delegation.max_concurrent",
    "agents.delegation.max_batch", "agents.delegation.long_results", "context.compact_at", "tools.bash_timeout",
    "tools.bash_max_timeout", "tools.output_chars", "checkpoints.commands", "checkpoints.megabytes", "retention.days",
    "retention.gigabytes", "tui.vim",
)  # fmt: skip


async def choose_setting(chat: CommandContext) -> str | None:
    """Let the user choose a setting to change; None when the user cancels."""
    from friday_cli.config.loader import user_file

    rows = await asyncio.to_thread(_rows)
    title = f"Which setting? They are kept in {with_tilde(user_file())}; /config show lists those that you changed."
    return await chat.search(SearchList(title, rows))


async def change_setting(chat: CommandContext, key: str, value: str) -> None:
    """Write a setting, or ask for its value first; the open session uses it. Raises UsageError, FileError, FridayError."""
    if key == "theme":
        await chat.use_theme(value)
        return
    await asyncio.to_thread(_require_changeable, key)
    value = value or await _choose_value(chat, key) or ""
    if not value:
        return
    if key == "tui.vim":
        return await chat.use_vim(value == "true")
    path = await asyncio.to_thread(_write, key, value)
    where = f"{key} = {value}, saved in {with_tilde(path)}"
    if chat.controller.working or chat.controller.state.working:
        chat.say_note(f"{where}. It applies when the session is opened again (/resume).")
    elif await chat.reopen(resume=resumable(chat), **_replaced(key)):
        chat.say_note(f"{where}.")


def _replaced(key: str) -> dict[str, Any]:
    """The option of the command line, or of an earlier command, that would hide the setting."""
    return {key: None} if key in ("model", "effort", "mode") else {}


async def _choose_value(chat: CommandContext, key: str) -> str | None:
    from friday_cli.config import docs

    values = docs.choices_of(key)
    if not values:
        chat.offer(f"/config {key} ")
        return None
    return await chat.choose(f"{key}: {docs.text_of(key)}", [(value, value) for value in values if value])


def _require_changeable(key: str) -> None:
    from friday_cli.config.loader import kind_of

    if key not in CHANGEABLE:
        kind_of(tuple(key.split(".")))
        raise UsageError(
            f"{key} is not changed in the chat: it decides what agents may do or reach.",
            hint=f"Use `friday config set {key} VALUE` or `friday config edit`.",
        )


def _write(key: str, value: str) -> str:
    """Write a setting and return the path of its file. Raises UsageError for a wrong value."""
    from friday_cli import config
    from friday_cli.config.edit import set_value, value_of
    from friday_cli.llm.models.resolve import parse

    if key in ("model", "subagent_model", "fallback_model"):
        parse(str(value_of((key,), value)), config.load().settings.providers)
    return str(set_value(key, value).path)


def _rows() -> list[SearchRow]:
    from friday_cli import config
    from friday_cli.config import docs

    loaded = config.load()
    known = {name: (value, source) for name, value, source in config.rows(loaded)}
    width = max(len(name) for name in CHANGEABLE)
    rows = []
    for name in CHANGEABLE:
        value, source = known.get(name, ("", "default"))
        changed = "" if source == "default" else f"  ({with_tilde(source)})"
        rows.append(SearchRow(name, f"{name:<{width}}  {value.strip(chr(34)) or '-'}{changed}", docs.text_of(name)))
    return rows
