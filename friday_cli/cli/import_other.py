"""`friday import`: takes over what is configured in another assistant."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Literal

import typer

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.format import pluralize
from friday_cli.extensions.importing import take
from friday_cli.extensions.importing.found import Found
from friday_cli.extensions.profiles import user_folder
from friday_cli.system.paths import config_dir, with_tilde, working_folder

from . import output
from .help import HelpCommand
from .project_context import load_context
from .session_args import JSON

_ASSISTANT = typer.Argument(metavar="claude|codex|opencode", help="The assistant.")


def register(app: typer.Typer, about: str) -> None:
    """Add the command `import`."""
    app.command("import", cls=HelpCommand, help=IMPORT_HELP.format(about=about))(import_)


IMPORT_HELP = """{about}

MCP servers, hooks, permission rules, agents, commands and instructions in your home folder are listed, together with what has no counterpart in
Friday, and written once you agree. What you already have is never changed. Friday reads the files of a project in place (`friday trust`)."""


def import_(
    assistant: Literal["claude", "codex", "opencode"] = _ASSISTANT,
    yes: bool = typer.Option(False, "--yes", "-y", help="Write without asking."),
    as_json: bool = JSON,
) -> None:
    """Import what is configured in another assistant. --json only lists it."""
    folder = user_folder(load_context().directory)
    reader = import_module(f"friday_cli.extensions.importing.{assistant}")
    found: Found = reader.read(Path.home(), os.environ, working_folder())
    rows = take.items(found, folder)
    if as_json:
        keys = ("kind", "name", "about", "state", "secrets")
        output.show_json({"found": [{key: getattr(row, key) for key in keys} for row in rows], "left": found.left})
        return
    new = [row for row in rows if not row.state]
    if rows:
        table = [(row.kind, row.name, row.about, row.state or "new") for row in rows]
        output.show_table(("KIND", "NAME", "WHAT", "STATE"), table, wide=("NAME", "WHAT"))
    for line in found.left:
        output.remark(f"not imported: {line}")
    for row in new:
        if row.secrets:
            where = f"the server {row.name} contains {', '.join(row.secrets)} in plain text"
            output.remark(f"warning: {where}; it is copied to mcp.json, readable by you only")
    if not new:
        output.remark("nothing new to import")
        return
    question = f"Write {pluralize(len(new), 'item')} to {with_tilde(config_dir())}?"
    if not output.confirm(question, yes=yes, otherwise="Nothing was written"):
        return
    written = 0
    for row in new:
        try:
            row.write()
            written += 1
        except FridayError as error:
            output.remark(f"{row.kind} {row.name}: {error}")
    output.remark(f"wrote {pluralize(written, 'item')}")
    if written < len(new):
        raise typer.Exit(1)
