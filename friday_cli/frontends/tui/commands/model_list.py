"""The list of `/model`: the models of every configured service, with context window, price and effort."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from friday_cli.core.protocol.format import is_demo
from friday_cli.session import lists

from .context import CommandContext, SearchList, SearchRow

if TYPE_CHECKING:
    from pathlib import Path

    from friday_cli.llm.models.listing import ListedModel

NAME = 44
"""Characters of a model's name in its row."""


async def choose_model(chat: CommandContext) -> str | None:
    """Let the user choose another model; None when the user cancels."""
    session = chat.controller.session
    facts = session.facts if session else None
    now = "" if facts is None else "demo" if is_demo(facts.model) else facts.model
    effort = f", effort {facts.effort}" if facts and facts.effort else ""
    title = f"Models, * in use{effort}. /model NAME takes any other model of a service."
    later = _rows(chat.controller.options.cwd, now)
    chosen = await chat.search(SearchList(title, await anext(later), at=now, later=later))
    return chosen if chosen != now else None


async def _rows(cwd: Path, now: str) -> AsyncGenerator[list[SearchRow], None]:
    """The rows, again with each answer of a service; `now` is the model in use."""
    async with aclosing(lists.listed_models(cwd)) as answers:
        async for models in answers:
            width = min(max((len(model.name) for model in models), default=0), NAME)
            rows = [_row(model, width, used=model.name == now) for model in models]
            if now and now not in {model.name for model in models}:
                rows.insert(0, SearchRow(now, f"* {now}", "In use now."))
            yield rows


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
