"""Shell completion. An error yields no completions and no message.

Every command imports this module, so each function does its imports itself.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path

Completion = tuple[str, str]
"""A word and its description."""


def _no_errors(completions: Callable[[], Iterable[Completion]]) -> Callable[[str], list[Completion]]:
    @functools.wraps(completions)
    def complete(incomplete: str) -> list[Completion]:
        try:
            return [(word, _safe_description(text)) for word, text in completions() if word.startswith(incomplete)]
        except Exception:
            return []

    del complete.__wrapped__  # Typer reads the signature
    return complete


def _safe_description(text: str) -> str:
    """A description without special characters: zsh evaluates it."""
    return " ".join(re.sub(r"[^\w .,-]", " ", text).split())[:60]


@_no_errors
def profiles() -> Iterable[Completion]:
    """The usable profiles."""
    from .project_context import load_context

    found = load_context().profiles()
    return [(name, found.found[name].description) for name in found.names()]


@_no_errors
def sessions() -> Iterable[Completion]:
    """Sessions of this folder, then the others, the newest first."""
    from friday_cli.store.listing import list_sessions, run_query
    from friday_cli.system.paths import existing_store_path

    path = existing_store_path()
    rows = run_query(path, lambda db: list_sessions(db, None, None)) if path else []
    cwd = str(Path.cwd())
    return [(row.id[:8], row.title) for row in sorted(rows, key=lambda row: row.cwd != cwd)]


@_no_errors
def notes() -> Iterable[Completion]:
    """Notes of every project, the newest first."""
    import asyncio

    from friday_cli.session import lists

    return [(item.id, item.text) for item in asyncio.run(lists.notes(None))]


@_no_errors
def worktrees() -> Iterable[Completion]:
    """Existing worktrees; their content is not read."""
    from friday_cli.system.paths import data_dir
    from friday_cli.workspace.worktrees.metadata import load_worktrees

    found = [w.metadata for folder in sorted((data_dir() / "worktrees").glob("*")) for w in load_worktrees(folder)]
    return [(card.name, f"{card.session[:8]} {card.agent}") for card in found]


@_no_errors
def models() -> Iterable[Completion]:
    """Aliases, and models of usable services; local servers are not contacted."""
    from friday_cli import config
    from friday_cli.llm.models import catalog, list_services

    settings = config.load().settings
    completions = [("demo", "scripted, no AI model"), *catalog.aliases().items()]
    return [*completions, *((name, row.title) for row in list_services(settings) if row.usable for name in row.models)]


@_no_errors
def providers() -> Iterable[Completion]:
    """Services that use a key."""
    from friday_cli import config
    from friday_cli.llm.models.presets import PRESETS, service_names

    settings = config.load().settings
    return [(name, PRESETS[name].title if name in PRESETS else "") for name in service_names(settings.providers)]


@_no_errors
def settings() -> Iterable[Completion]:
    """Names of settings."""
    from friday_cli.config import validate

    return [(name, "") for name in validate.names() if "NAME" not in name]


@_no_errors
def mcp_servers() -> Iterable[Completion]:
    """The MCP servers of a session in this folder."""
    from .project_context import load_context

    return [(entry.name, entry.description) for entry in load_context().mcp_servers()[0]]
