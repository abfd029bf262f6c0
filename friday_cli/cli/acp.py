"""`friday acp`: Friday as the agent of an editor."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer

from friday_cli.frontends.acp.options import OPTIONS

from .help import HelpCommand
from .parameters import set_parameters

HELP = """Friday as the agent of an editor (Zed, JetBrains, Neovim).

Speaks the Agent Client Protocol on standard input and output.

For the settings of Zed, JetBrains, Neovim and others: the command is `friday`, its argument is `acp`. In Zed's settings.json that is an
entry of "agent_servers" with "command": "friday" and "args": ["acp"]. The editor shows the tree of sub-agents, asks the questions, and
stops what you stop."""


def register(app: typer.Typer, _: str) -> None:
    """Add the command `acp`."""

    def command(**values: Any) -> None:
        if values["login"]:
            service = typer.prompt("Service", "anthropic")
            os.execv(sys.executable, [sys.executable, "-m", "friday_cli", "auth", "set", service])
        from friday_cli.frontends.acp.run import acp  # imports the session, which the help does not need

        for option in OPTIONS:
            if option.kind == "many":
                values[option.dest] = tuple(values[option.dest] or ())
        raise typer.Exit(acp(values))

    set_parameters(command, [], OPTIONS)
    app.command("acp", cls=HelpCommand, help=HELP)(command)
