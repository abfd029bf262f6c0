"""`friday demo`: a scripted demonstration without a key and without a network."""

from __future__ import annotations

import typer

from friday_cli.llm.models.presets import DEMO_PROMPT

from .help import HelpCommand

MODELS = {"model": "demo", "subagent_model": "demo", "fallback_model": "demo"}
HELP = """Try Friday without a key and without a network.

A script replaces the model and costs nothing; tools, permissions, sub-agents and session are real and work in this folder.
Three sub-agents make an overview of it, and one of them asks for a permission. On a terminal this opens the chat
(`friday --model demo`) with a first message; otherwise, or with --plain, it prints only the answer (`friday ask --model
demo`)."""


def register(app: typer.Typer, _: str) -> None:
    """Add the command `demo`."""

    @app.command("demo", cls=HelpCommand, help=HELP)
    def command(
        prompt: str = typer.Argument(
            DEMO_PROMPT, metavar="PROMPT", help="The prompt; the demo reports prompts it cannot answer."
        ),
        cwd: str = typer.Option(".", "--cwd", "-C", help="Folder to work in.", metavar="DIR"),
        plain: bool = typer.Option(False, "--plain", help="Print only the answer, without the chat."),
    ) -> None:
        from friday_cli.frontends.tui.options import wants_chat

        if wants_chat([]) and not plain:
            from friday_cli.frontends.tui.run import chat

            raise typer.Exit(chat({**MODELS, "prompt": prompt, "cwd": cwd}))
        from friday_cli.frontends.oneshot.options import defaults
        from friday_cli.frontends.oneshot.run import ask

        raise typer.Exit(ask({**defaults(), **MODELS, "prompt": prompt, "cwd": cwd}))
