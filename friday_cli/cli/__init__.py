"""The command line: one Typer app. Only the module of the command that is named is imported."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import Any

import typer
from typer.main import get_command

from friday_cli import __version__
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.sanitize import sanitize

from . import chat
from .help import HelpCommand, HelpGroup

EXAMPLES = """\b
Examples:
  friday                                   the chat, in a terminal
  friday ask "What does this project do?"
  friday ask --model demo "What is in this folder?"
  friday sessions list
  friday sessions show 7f3a --tree
  friday profiles show researcher
  friday doctor

`friday COMMAND --help` tells more about each. NO_COLOR is honoured; FRIDAY_HOME moves all files."""

COMMANDS = {
    "ask": "Answer one prompt and leave.",
    "demo": "See Friday work, without a key and without a network.",
    "sessions": "What was done: list, show, diff, rewind, export, stats.",
    "worktrees": "Work that sub-agents did apart: show, apply, discard.",
    "memory": "Notes that agents kept: list, show, promote, forget.",
    "profiles": "The kinds of sub-agents: list, show, check, make a new one.",
    "models": "Show which models can be used now, and why the others cannot.",
    "auth": "Keep keys of model services: set, list, remove.",
    "permissions": "Permission rules: list them, explain a decision.",
    "trust": "Trust a project with what it brings along.",
    "config": "Settings: path, show, get, set, unset.",
    "doctor": "Look for what is wrong here, offline.",
}
"""The commands in the order of the help, with their summaries. Each is registered by the module of its name."""
LIGHT = ("sessions_list", "sessions_show")
"""Modules with one command of a family that starts faster without the others."""


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"friday {__version__}")
        raise typer.Exit()


def _app(argv: list[str]) -> typer.Typer:
    """The command line. A command that is not named has only its name and summary. Typer's own options (completion) are
    left out where a command is named: they take 50 ms."""
    completed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    words = argv or (completed.split() if "_FRIDAY_COMPLETE" in os.environ else [])
    options = not argv or argv[0].startswith("-")
    app = typer.Typer(
        name="friday",
        cls=HelpGroup,
        epilog=EXAMPLES,
        add_completion=options,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True)(chat.callback(_show_version, options=options))
    for name, summary in COMMANDS.items():
        if name in words:
            one = "_".join([name, *words[words.index(name) + 1 :][:1]])
            import_module(f".{one if one in LIGHT else name}", __name__).register(app, summary)
        else:
            app.command(name, cls=HelpCommand, help=summary)(lambda: None)
    return app


def run(argv: list[str]) -> int:
    """Run a command; returns its exit code. Whatever goes wrong is one line on standard error.

    Raises BrokenPipeError when nobody reads standard output any more, and KeyboardInterrupt.
    """
    command = get_command(_app(argv))
    if "_FRIDAY_COMPLETE" in os.environ:
        return _completed(command)
    try:
        with command.make_context("friday", list(argv)) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except SystemExit as end:  # how Typer's completion options end
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except typer.TyperException as error:
        return _misused(error, argv)
    except FridayError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        raise
    except OSError as error:
        name = error.filename or ("standard output" if error.errno == errno.ENOSPC else "")
        where = f"{name}: " if name else ""
        return _fail(f"{where}{error.strerror or error}.", 1)
    except Exception as error:
        from friday_cli.diagnostics.log_file import unforeseen  # logging takes 5 ms

        return _fail(unforeseen(error), 1)
    return 0


def _fail(text: str, code: int) -> int:
    print(f"friday: {sanitize(text)}", file=sys.stderr)
    return code


def _misused(error: typer.TyperException, argv: list[str]) -> int:
    """Words that Typer could not make sense of: what is wrong, and where it is explained."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else f"friday {'ask ' if argv[:1] == ['ask'] else ''}".strip()
    text = " ".join(error.format_message().replace("Value error, ", "").replace("(s)", "").split())
    text = text.rstrip(".")
    text = f"{text}{'' if text.endswith('?') else '.'}"
    if argv and len(argv[0].split()) > 1:
        text += " To ask that, write friday ask, and the prompt in quotes."
    elif argv[:1] in (["ask"], ["demo"]) and "unexpected extra argument" in text:
        text += " A prompt of several words needs quotes around it."
    text += f" See `{command} --help`."
    if argv[:1] == ["ask"]:
        import_module(".ask", __name__).report_misuse(argv, text, error.exit_code)
    return _fail(text, error.exit_code)


def _completed(command: Any) -> int:
    """What a shell asks for when Tab is pressed; without an answer rather than with an error."""
    try:
        command.main([], prog_name="friday")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
