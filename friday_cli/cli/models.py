"""`friday models`: lists the usable models, and why others are not usable."""

from __future__ import annotations

import asyncio
import os

import typer

from friday_cli.config import Settings
from friday_cli.core.protocol.errors import FridayError, NotConfigured
from friday_cli.llm import models as known
from friday_cli.llm.models import ModelChoice, ServiceRow, catalog, resolve
from friday_cli.llm.models.gateway_cache import Listing
from friday_cli.llm.models.gateways import ask_gateways
from friday_cli.llm.models.listing import prices_of, window_of
from friday_cli.llm.models.local_servers import probe
from friday_cli.llm.models.presets import LocalServers

from . import output
from .help import HelpCommand
from .project_context import load_context
from .session_args import JSON

PRICES = typer.Option(
    False, "--prices", help="Ask services with a base_url, and OpenRouter, now for their prices, and use them."
)


UPDATE = typer.Option(
    False,
    "--update",
    help="Ask Anthropic, OpenAI and services with a base_url now for their models, and what each can.",
)


def register(app: typer.Typer, _: str) -> None:
    """Add the command `models`."""
    app.command("models", cls=HelpCommand)(models)


def models(as_json: bool = JSON, prices: bool = PRICES, update: bool = UPDATE) -> None:
    """List the usable models, and why others are not usable.

    Checks the keys in the environment and those of `friday auth`, contacts model servers on this machine, and once a day
    the services with a base_url in the settings. * marks the default model, ? a context window that is a guess. Other models of a service work too, as provider/model.
    """
    settings = load_context().settings
    found, listed = asyncio.run(_ask(settings, prices=prices, update=update))
    rows = known.list_services(settings, found=found, listed=listed)
    choice, why = _default(settings)
    windows = {name: window_of(name, row, settings, found) for row in rows for name in row.models}
    if as_json:
        document = _document(rows, choice, why, found)
        sizes = {name: {"tokens": size, "guess": guess} for name, (size, guess) in windows.items() if size}
        problems = [listing.problem for listing in listed.values() if listing.problem]
        output.show_json({**document, "windows": sizes, "notes": [*_notes(found), *problems]})
        return
    _show_usable(rows, choice, settings, windows)
    for name, listing in listed.items() if prices else ():
        given = sum(model.prices.given for model in listing.models)
        output.remark(
            f"{name} reports the prices of {given:,} of {len(listing.models):,} models; they are used from now on."
        )
    if out := [(row.provider, row.why) for row in rows if not row.usable]:
        output.show()
        output.show_table(("NOT USABLE NOW", "WHY"), out, wide=("WHY",))
    output.show()
    aliases = ", ".join(f"{short} = {name}" for short, name in catalog.aliases().items())
    output.show_hanging(9, ("Aliases: ", "bold"), (aliases, ""))
    for note in (*_notes(found), *(choice.notes if choice else ()), *([why] if why else ())):
        output.remark(note)
    for listing in listed.values():
        if listing.problem:
            output.remark(listing.problem)
    if any(guess and row.usable for row in rows for _, guess in (windows[name] for name in row.models)):
        output.remark(
            "? marks a context window that is a guess: `friday models --update` asks for it, or set `window` under [providers.NAME] in the config."
        )
    for server in found.servers:
        for model in server.models:
            for warning in model.warnings:
                output.remark(f"{server.provider}/{model.id}: {warning}")
        if server.hint:
            output.remark(server.hint)


def _default(settings: Settings) -> tuple[ModelChoice | None, str]:
    """The default model, or why there is none."""
    try:
        return resolve(None, settings), ""
    except NotConfigured:
        return None, "no default model. Add a key, or set `model` in the config."
    except FridayError as error:
        return None, str(error)


async def _ask(settings: Settings, *, prices: bool, update: bool) -> tuple[LocalServers, dict[str, Listing]]:
    found, listed = await asyncio.gather(
        probe(settings.providers, os.environ), ask_gateways(settings, os.environ, prices=prices, update=update)
    )
    return found, listed


def _show_usable(
    rows: list[ServiceRow], choice: ModelChoice | None, settings: Settings, windows: dict[str, tuple[int, bool]]
) -> None:
    chosen = choice.name.removesuffix(f":{choice.effort}") if choice else ""
    lines: list[tuple[str, ...]] = []
    for row in rows:
        if not row.usable:
            continue
        names = row.models or (f"{row.provider}/...",)
        if choice is not None and choice.provider == row.provider and chosen not in names:
            names = (chosen, *names)
        lines += [
            (
                "*" if name == chosen else "",
                name,
                _size(windows.get(name, (0, False))),
                *_prices(name, row, settings),
                row.why if i == 0 else "",
            )
            for i, name in enumerate(names)
        ]
    titles = ("", "USABLE NOW", "CONTEXT", "$ IN", "$ OUT", "HOW")
    output.show_table(titles, lines, right=("CONTEXT", "$ IN", "$ OUT"), wide=("HOW",))


def _size(window: tuple[int, bool]) -> str:
    return f"{window[0]:,}{'?' if window[1] else ''}" if window[0] else ""


def _prices(name: str, row: ServiceRow, settings: Settings) -> tuple[str, str]:
    """US dollars per million tokens of input and output; "" if unknown."""
    if not row.models:
        return "", ""
    into, out = ("" if cost is None else f"{cost:.4g}" for cost in prices_of(name, row, settings))
    return into, out


def _notes(found: LocalServers) -> list[str]:
    """Servers that were not contacted, and whether the table of models is outdated."""
    return [*found.notes, *filter(None, [catalog.outdated()])]


def _document(rows: list[ServiceRow], choice: ModelChoice | None, why: str, found: LocalServers) -> dict[str, object]:
    return {
        "default": choice.name if choice else None,
        "source": choice.source if choice else None,
        "why": why or None,
        "providers": rows,
        "servers": found.servers,
        "aliases": catalog.aliases(),
        "confirmed": catalog.confirmed().isoformat(),
        "notes": _notes(found),
    }
