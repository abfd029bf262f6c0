"""The list of `/model`: the models of every configured service, with context window, price and effort."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from friday_cli.core.protocol.format import pluralize
from friday_cli.session import lists

from .context import CommandContext, SearchRow

if TYPE_CHECKING:
    from friday_cli.llm.models.listing import ListedModel

SILENT_S = 0.7
"""Seconds after which the user is told that the services are still being asked."""
NAME = 44
"""Characters of a model's name in its row."""


async def choose_model(chat: CommandContext) -> str | None:
    """Let the user choose another model; None when the user cancels."""
    asking = asyncio.ensure_future(lists.listed_models(chat.controller.options.cwd))
    try:
        done, _ = await asyncio.wait([asking], timeout=SILENT_S)
        if not done:
            chat.say_note("Asking your services for their models ...")
        models = await asking
    finally:
        asking.cancel()
    session = chat.controller.session
    facts = session.facts if session else None
    now = facts.model if facts else ""
    width = min(max((len(model.name) for model in models), default=0), NAME)
    rows = [_row(model, width, used=model.name == now) for model in models]
    if now and now not in {model.name for model in models}:
        rows.insert(0, SearchRow(now, f"* {now}", "In use now."))
    effort = f", effort {facts.effort}" if facts and facts.effort else ""
    title = f"{pluralize(len(rows), 'model')}, * in use{effort}. /model NAME takes any other model of a service."
    chosen = await chat.search(title, rows, at=now)
    return chosen if chosen != now else None


def _row(model: ListedModel, width: int, *, used: bool) -> SearchRow:
    window = f"{_thousands(model.window)}{'?' if model.guess else ''}" if model.window else ""
    price = f"{_dollars(model.input)} / {_dollars(model.output)}" if model.input is not None else ""
    label = f"{'*' if used else ' '} {model.name:<{width}} {window:>6}  {price}".rstrip()
    facts = [f"{model.service}: {model.how}"]
    if model.window:
        facts.append(f"context window {model.window:,} tokens{' (a guess)' if model.guess else ''}")
    if model.input is not None:
        facts.append(f"{_dollars(model.input)} for a million tokens of input, {_dollars(model.output)} of output")
    if model.efforts:
        facts.append(f"effort {', '.join(model.efforts)} (/effort)")
    return SearchRow(model.name, label, "\n".join(facts))


def _thousands(tokens: int) -> str:
    """Tokens in few characters: 200k, 1M."""
    return f"{tokens / 1_000_000:.3g}M" if tokens >= 1_000_000 else f"{tokens / 1_000:.0f}k"


def _dollars(price: float | None) -> str:
    return "?" if price is None else f"${price:.4g}"
