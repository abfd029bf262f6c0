"""The command line: one Typer app. Only the module of the named command is imported, and Typer only by what needs it."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from friday_cli import __version__
from friday_cli.core.protocol.errors import FridayError, words_of
from friday_cli.core.text.sanitize import sanitize

if TYPE_CHECKING:
    import typer

EXAMPLES = """\b
Examples:
  friday                                   the chat, in a terminal
  friday ask "What does this project do?"
  friday ask --model demo "What is in this folder?"
  friday sessions list
  friday sessions show 7f3a --tree
  friday profiles show researcher
  friday doctor

`friday COMMAND --help` shows the options of a command. NO_COLOR turns colors off; FRIDAY_HOME moves all files."""

COMMANDS = {
    "ask": "Answer one prompt and exit.",
    "map": "Run one task for each of many items, within a cost cap.",
    "eval": "Compare settings on your own tasks: run, check, report.",
    "demo": "Try Friday without a key and without a network.",
    "agents": "List sessions that need you, work or have ended; answer them.",
    "attach": "Open the chat on a session that runs in the background.",
    "sessions": "Sessions: list, show, diff, rewind, export, stats.",
    "cassette": "Recorded sessions as tests: list, add, check, show, accept.",
    "verify": "Check a receipt that somebody else made of a session.",
    "worktrees": "Changes of sub-agents in git worktrees: show, apply, discard.",
    "usage": "Show cost and tokens by day, model, profile and folder.",
    "budget": "Caps over all sessions, per day and week: show, set, clear.",
    "memory": "Notes saved by agents: list, show, promote, forget.",
    "profiles": "Profiles of sub-agents: list, show, check, login, new.",
    "skills": "Skills that agents load: list, show, check, new.",
    "mcp": "MCP servers: list, add, login, call; Friday as one: serve.",
    "lsp": "Language servers: list, check files.",
    "acp": "Friday as the agent of an editor (Zed, JetBrains, Neovim).",
    "plugins": "Plugins: list, add, remove, check.",
    "models": "List the usable models, and why others are not usable.",
    "auth": "API keys of model services: set, list, remove.",
    "permissions": "Permission rules: list, explain a decision.",
    "hooks": "Programs that run on events: list, test.",
    "import": "Import settings from Claude Code, Codex or OpenCode.",
    "trust": "Trust the settings, profiles and skills of a project.",
    "config": "Settings: path, show, get, set, unset, edit, schema.",
    "doctor": "Check the installation, offline.",
}
"""The commands with their summaries, in the order of the help. The module of the same name registers each."""
FAST_MODULES = ("sessions_list", "sessions_show", "mcp_serve")
"""Modules with a single command of a family, which start faster without the rest of the family."""
MODULES = {"import": "import_other"}
"""Modules with another name than their command: `import` is not a name in Python."""


def _show_version(wanted: bool) -> None:
    if wanted:
        import typer

        print(f"friday {__version__}")
        raise typer.Exit()


def _app(argv: list[str]) -> typer.Typer:
    """Build the app. Commands that are not named in `argv` get only a name and summary. The completion options of Typer
    take 50 ms, so they are omitted if a command is named."""
    import typer

    from . import chat
    from .help import HelpCommand, HelpGroup

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
            module = "_".join([name, *words[words.index(name) + 1 :][:1]])
            named = module if module in FAST_MODULES else MODULES.get(name, name)
            import_module(f".{named}", __name__).register(app, summary)
        else:
            app.command(name, cls=HelpCommand, help=summary)(lambda: None)
    return app


def run(argv: list[str]) -> int:
    """Run a command and return its exit code. An error is one line on standard error. Raises BrokenPipeError if
    standard output is closed, and KeyboardInterrupt."""
    if argv[:1] in (["agents"], ["attach"]):
        from .live_sessions import begin

        try:
            code = begin(argv)
        except BrokenPipeError:
            raise
        except OSError as error:
            return _report_os_error(error)
        if code is not None:
            return code
    import typer
    from typer.main import get_command

    command = get_command(_app(argv))
    if "_FRIDAY_COMPLETE" in os.environ:
        return _complete(command)
    try:
        if argv[:1] in (["agents"], ["attach"]) and any(word.startswith("--host") for word in argv):
            from .other_host import run_there  # only with that option

            if (code := run_there(argv)) is not None:
                return code
        with command.make_context("friday", list(argv)) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:  # Ctrl+C or Ctrl+D at a question
        return 130
    except SystemExit as end:  # raised by the completion options of Typer
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except typer.TyperException as error:
        return _report_usage_error(error, argv)
    except FridayError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _report_os_error(error)
    except Exception as error:
        from friday_cli.diagnostics.log_file import report_defect  # importing logging takes 5 ms

        return _fail(report_defect(error), 1)
    return 0


def _report_os_error(error: OSError) -> int:
    return _fail(words_of(error, name="standard output" if error.errno == errno.ENOSPC else ""), 1)


def _fail(text: str, code: int) -> int:
    print(f"friday: {sanitize(text)}", file=sys.stderr)
    return code


def _report_usage_error(error: typer.TyperException, argv: list[str]) -> int:
    """Report arguments that Typer rejects, with the help to read."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else f"friday {'ask ' if argv[:1] == ['ask'] else ''}".strip()
    text = " ".join(error.format_message().replace("Value error, ", "").replace("(s)", "").split())
    text = text.rstrip(".")
    text = f"{text}{'' if text.endswith('?') else '.'}"
    if command in ("friday", "friday ask") and text.startswith("No such") and (named := _name_here(text)):
        text = named
    elif argv and len(argv[0].split()) > 1:
        text += ' To send a prompt, use: friday ask "PROMPT".'
    elif command == "friday" and text.startswith("No such command"):
        from shlex import join  # only for this message

        at = next((at for at, word in enumerate(argv) if f"No such command {word!r}" in text), 0)
        text += f" To begin the chat with it: {join(['friday', *argv[:at], '-i', ' '.join(argv[at:])])}."
    elif argv[:1] == ["ask"] and "'-r' requires" in text:
        text += " `friday sessions list` shows them; -c takes the last one."
    elif argv[:1] in (["ask"], ["demo"]) and "unexpected extra argument" in text:
        text += " Put a prompt of several words in quotes."
    elif argv[:1] == ["map"] and "--glob" in argv and "unexpected extra argument" in text:
        text = "The pattern of --glob has become many names: put it in quotes, as in --glob '*.py'."
    text += f" See `{command} --help`."
    if argv[:1] == ["ask"]:
        import_module(".ask", __name__).report_misuse(argv, text, error.exit_code)
    return _fail(text, error.exit_code)


def _name_here(text: str) -> str:
    from .other_names import name_here  # only for this message

    return name_here(text)


def _complete(command: Any) -> int:
    """Print the completions for a shell. Errors are not shown."""
    try:
        command.main([], prog_name="friday")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
