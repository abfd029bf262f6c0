"""What Tab offers in a shell. Nothing here may fail aloud: whatever goes wrong offers nothing.

Every command imports this module, so each function imports what it asks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path

Offer = tuple[str, str]
"""A word and what stands beside it."""


def _quietly(offers: Callable[[], Iterable[Offer]]) -> Callable[[str], list[Offer]]:
    @functools.wraps(offers)
    def complete(incomplete: str) -> list[Offer]:
        try:
            return [(word, _tame(words)) for word, words in offers() if word.startswith(incomplete)]
        except Exception:
            return []

    del complete.__wrapped__  # Typer reads the signature
    return complete


def _tame(text: str) -> str:
    """A description that no shell takes for anything else: zsh evaluates what it is told."""
    return " ".join(re.sub(r"[^\w .,-]", " ", text).split())[:60]


@_quietly
def profiles() -> Iterable[Offer]:
    """Profiles that can be used here."""
    from .project_context import look

    found = look().profiles()
    return [(name, found.found[name].description) for name in found.names()]


@_quietly
def sessions() -> Iterable[Offer]:
    """Sessions of this folder, then the others, the newest first."""
    from friday_cli.paths import kept_store_path
    from friday_cli.store.listing import list_sessions, run_query

    path = kept_store_path()
    rows = run_query(path, lambda db: list_sessions(db, None, None)) if path else []
    here = str(Path.cwd())
    return [(row.id[:8], row.title) for row in sorted(rows, key=lambda row: row.cwd != here)]


@_quietly
def notes() -> Iterable[Offer]:
    """Notes of every project, the newest first."""
    import asyncio

    from .session_lookup import opened

    async def found() -> list[Offer]:
        async with opened() as store:
            return [] if store is None else [(item.id, item.text) for item in await store.notes.list_notes(None)]

    return asyncio.run(found())


@_quietly
def worktrees() -> Iterable[Offer]:
    """Worktrees that are still there; none is looked into."""
    from friday_cli.paths import data_dir
    from friday_cli.workspace.worktrees.metadata import cards

    found = [w.card for folder in sorted((data_dir() / "worktrees").glob("*")) for w in cards(folder)]
    return [(card.name, f"{card.session[:8]} {card.agent}") for card in found]


@_quietly
def models() -> Iterable[Offer]:
    """Aliases and models of services that can be used now; local servers are not asked."""
    from friday_cli import config
    from friday_cli.llm.models import catalog, list_services

    settings = config.load().settings
    offers = [("demo", "scripted, no AI model"), *catalog.aliases().items()]
    return [*offers, *((name, row.title) for row in list_services(settings) if row.usable for name in row.models)]


@_quietly
def providers() -> Iterable[Offer]:
    """Services that can have a key."""
    from friday_cli import config
    from friday_cli.llm.models.presets import PRESETS, service_names

    settings = config.load().settings
    return [(name, PRESETS[name].title if name in PRESETS else "") for name in service_names(settings.providers)]


@_quietly
def settings() -> Iterable[Offer]:
    """Names of settings."""
    from friday_cli.config import validate

    return [(name, "") for name in validate.names() if "NAME" not in name]
