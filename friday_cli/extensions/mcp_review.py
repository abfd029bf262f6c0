"""Describes the MCP servers of a project for the decision to trust it: each one's whole command line or address."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line

from . import profiles, trust
from .profiles.parse import parse as parse_profile
from .started_programs import UNCHECKED, ProgramText, is_unchecked, runs_elsewhere, scripts_of

if TYPE_CHECKING:
    from friday_cli.mcp.entry import WrittenEntry

FILE, LANGUAGE_SERVERS = ".mcp.json", ".lsp.json"
MAX_SERVERS, MOST_SCRIPTS = 50, 5
"""Servers of one file, and files that one runs, that are shown; more are counted."""


def rows_of_file(path: Path, head: str, root: Path) -> list[tuple[str, str]]:
    """The rows of `.mcp.json`: (file and server, effect if trusted)."""
    from friday_cli.mcp.read import entries_in  # most projects have no servers

    try:
        entries = entries_in(head, trust.content(path, root) or b"")
    except FileError as error:
        return [(head, sanitize_line(f"cannot be used: {error.problem}", 400))]
    return _rows(head, root, entries) or [(head, "no MCP servers")]


def rows_of_language_servers(path: Path, head: str, root: Path) -> list[tuple[str, str]]:
    """The rows of `.lsp.json`: each server with its whole command line."""
    from friday_cli.lsp.entry import ServerFile, read  # most projects have none

    try:
        table = read((ServerFile(head, "project", trust.content(path, root) or b""),))
    except FileError as error:
        return [(head, sanitize_line(f"cannot be used: {error.problem}", 400))]
    rows = [(f"{head}: {sanitize_line(entry.name, 60)}", entry.effect) for entry in table.written[:MAX_SERVERS]]
    rows += [(head, sanitize_line(problem, 400)) for problem in table.problems[:MAX_SERVERS]]
    return rows or [(head, "no language servers")]


def rows_of_profile(path: Path, head: str, root: Path) -> list[tuple[str, str]]:
    """The rows of the servers that a profile defines itself."""
    if not head.endswith(".md"):
        return []
    try:
        raw = trust.content(path, root)
        if raw is None or not profiles.lookup.is_profile(raw):
            return []
        return _rows(
            head,
            root,
            parse_profile(head, raw, origin="claude" if head.startswith(".claude/") else "project").mcp_inline,
        )
    except FileError:
        return []  # reported with the profile


def _checked(written: WrittenEntry, root: Path) -> str:
    """Which files of the project a server runs, as far as its text says it."""
    program, unchecked = ProgramText(written.command, written.args), runs_elsewhere(written.env, written.cwd)
    scripts = [name for name, _ in scripts_of(program, root, {})]
    named = sanitize_line("".join(f"; it runs {name}" for name in scripts[:MOST_SCRIPTS]), 400)
    more = f" and {len(scripts) - MOST_SCRIPTS} more files" if len(scripts) > MOST_SCRIPTS else ""
    return f"{named}{more}" + (f"; {UNCHECKED}" if unchecked or is_unchecked(program, root) else "")


def _rows(head: str, root: Path, entries: Mapping[str, Any]) -> list[tuple[str, str]]:
    from friday_cli.mcp.describe import effect
    from friday_cli.mcp.parse import check

    rows = []
    for name, data in list(entries.items())[:MAX_SERVERS]:
        try:
            written = check(head, name, data)[0]
            about = effect(written) + (_checked(written, root) if written.enabled and written.command else "")
        except FileError as error:
            about = sanitize_line(f"an MCP server that cannot be used: {error.problem}", 400)
        rows.append((f"{head}: {sanitize_line(name, 60)}", about))
    if len(entries) > MAX_SERVERS:
        rows.append((head, f"and {pluralize(len(entries) - MAX_SERVERS, 'more MCP server')}: read the file"))
    return rows
