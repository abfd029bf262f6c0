"""`friday demo`: the main job without a key and without a network."""

from __future__ import annotations

import typer

from .help import Command

PROMPT = "What is in this folder?"
HELP = """See Friday work, without a key and without a network.

A script stands in for the model (it says so, and costs nothing); the tools, permissions, sub-agents and the session are
the real ones, at work in this folder. Nothing is changed. It is `friday ask --model demo` with a prompt to begin with."""


def register(app: typer.Typer) -> None:
    """Add the command `demo`."""

    @app.command("demo", cls=Command, help=HELP)
    def command(
        prompt: str = typer.Argument(
            PROMPT, metavar="PROMPT", help="What to ask it; it says so when it cannot answer."
        ),
        cwd: str = typer.Option(".", "--cwd", "-C", help="Folder to work in.", metavar="DIR"),
    ) -> None:
        from ..faces.ask.options import defaults
        from ..faces.ask.run import ask

        models = {"model": "demo", "subagent_model": "demo", "fallback_model": "demo"}
        raise typer.Exit(ask({**defaults(), **models, "prompt": prompt, "cwd": cwd}))
