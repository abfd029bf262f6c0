"""Opening the chat: from the options of the command line to an exit code, with the terminal left as it was.

Interface: `chat(values)`; `values` are options by name: model, effort, profile, mode, yolo, cwd, continue_, resume ("" lets
the person pick), prompt.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.sanitize import sanitize
from friday_cli.paths import working_folder

if TYPE_CHECKING:
    from friday_cli.session.open import Options


def main(values: Mapping[str, Any]) -> int:
    """As `chat`, with what went wrong as one line on standard error."""
    try:
        return chat(values)
    except FridayError as error:
        print(f"friday: {sanitize(str(error))}", file=sys.stderr)
        return error.exit_code


def chat(values: Mapping[str, Any]) -> int:
    """Run the chat until the person leaves it. Returns the exit code."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("The chat needs a terminal.", hint='For one answer: friday ask "...".')
    cwd = working_folder(values.get("cwd"))
    if not values.get("trust") and not _may_begin(cwd):
        return 0
    return asyncio.run(_chat(values, cwd))


def _may_begin(cwd: Path) -> bool:
    """Whether the person goes on, after the question whether the folder may steer Friday, where there is one."""
    from friday_cli.extensions import trust

    standing = trust.is_trusted(cwd)
    if not standing.files:  # nothing to ask about; what the question needs takes a while to load
        return True
    from .terminal.trust_prompt import decided

    return decided(cwd, standing)


async def _chat(values: Mapping[str, Any], cwd: Path) -> int:
    resume = await _which(values, cwd)
    if values.get("plain") or os.environ.get("TERM") == "dumb":
        return await _plain(values, cwd, resume)
    from .app import FridayApp
    from .notifications import OLD_TITLE

    app = FridayApp(
        lambda: _options(values, cwd, resume),
        cwd=cwd,
        first=values.get("prompt") or "",
        pick=values.get("resume") == "",
    )
    try:
        code = await app.run_async()
    finally:
        if app.notifier.titled and sys.__stderr__ is not None:
            with suppress(OSError):  # the window may be gone
                sys.__stderr__.write(OLD_TITLE)  # the way by which the chat wrote to the terminal
                sys.__stderr__.flush()
        await app.controller.close()
    if app.failure is not None:
        print(f"friday: {sanitize(_words(app.failure))}", file=sys.stderr)
        _kept(app.controller.last)
        return app.failure.exit_code if isinstance(app.failure, FridayError) else 1
    _kept(app.controller.last)
    return code or 0


async def _plain(values: Mapping[str, Any], cwd: Path, resume: str | None) -> int:
    """The chat as linear text."""
    from .plain.chat import PlainChat

    if not values.get("plain"):
        print(
            "friday: this terminal (TERM=dumb) has no screen to draw on: plain text, as with --plain", file=sys.stderr
        )
    pick = values.get("resume") == ""
    chat = PlainChat(lambda: _options(values, cwd, resume), cwd=cwd, first=values.get("prompt") or "", pick=pick)
    try:
        code = await chat.run()
    finally:
        await chat.controller.close()
    _kept(chat.controller.last)
    return code


def _kept(session: str) -> None:
    """Say how to go on with a session in which something was said."""
    if session:
        with suppress(OSError):
            print(f"friday: session {session[:8]} is kept; `friday -r {session[:8]}` goes on with it", file=sys.stderr)


def _words(failure: BaseException) -> str:
    """What a person reads of an end nobody wished for; a defect's traceback goes to a log file."""
    if isinstance(failure, FridayError):
        return str(failure)
    from friday_cli.diagnostics.log_file import unforeseen

    return unforeseen(failure)


def _options(values: Mapping[str, Any], cwd: Path, resume: str | None) -> Options:
    from friday_cli.session.open import Options

    models = ("subagent_model", "fallback_model")
    return Options(
        cwd,
        add_dirs=tuple(Path(d) for d in values.get("add_dir") or ()),
        model=values.get("model"),
        effort=values.get("effort"),
        profile=values.get("profile"),
        mode="yolo" if values.get("yolo") else values.get("mode"),
        allow=tuple(values.get("allow") or ()),
        deny=tuple(values.get("deny") or ()),
        trusted=bool(values.get("trust")),
        attended=True,
        resume=resume,
        flags={name: values[name] for name in models if values.get(name)},
    )


async def _which(values: Mapping[str, Any], cwd: Path) -> str | None:
    """The session to go on with, None for a new one."""
    if not (values.get("continue_") or values.get("resume")):
        return None
    from friday_cli.paths import store_path
    from friday_cli.store import Store

    async with Store(store_path()) as store:
        return await store.choose(values.get("resume") or "", cwd)
