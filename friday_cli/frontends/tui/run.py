"""Opens the chat: from the options of the command line to an exit code.

`values` are options by name: model, effort, profile, mode, yolo, cwd, continue_, resume ("" lets the user pick), prompt.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.sanitize import sanitize
from friday_cli.system import event_loop
from friday_cli.system.paths import working_folder

from ..options import session_options

if TYPE_CHECKING:
    from friday_cli.session.open_context import Options

    from .controller import SessionController


def main(values: Mapping[str, Any]) -> int:
    """As `chat`; an error is printed as one line on standard error."""
    try:
        return chat(values)
    except FridayError as error:
        print(f"friday: {sanitize(str(error))}", file=sys.stderr)
        return error.exit_code


def chat(values: Mapping[str, Any], *, joins: str = "") -> int:
    """Run the chat until the user quits. Returns the exit code. Raises FridayError. `joins`: a session (its whole id) that is
    open already, so that it is decided whether its folder is trusted."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("The chat needs a terminal.", hint='For one answer: friday ask "...".')
    cwd = working_folder(values.get("cwd"))
    if not (joins or values.get("trust") or _trust_decided(cwd)):
        return 0
    return event_loop.run(_chat(values, cwd, joins))


def _trust_decided(cwd: Path) -> bool:
    """Ask whether the folder is trusted, if it has files that need it. False when the user quits."""
    from friday_cli.extensions import trust

    trust_status = trust.is_trusted(cwd)
    if not trust_status.seen:
        return True  # the question is not imported when there is nothing to ask
    from .terminal.trust_prompt import decided

    return decided(cwd, trust_status)


async def _chat(values: Mapping[str, Any], cwd: Path, joins: str) -> int:
    resume = joins or await _session_to_resume(values, cwd)
    if values.get("plain") or os.environ.get("TERM") == "dumb":
        return await _plain(values, cwd, resume)
    from .app import FridayApp
    from .notifications import OLD_TITLE
    from .terminal.program_status import CLEAR

    pick = values.get("resume") == ""
    first = values.get("prompt") or ""
    app = FridayApp(lambda: _options(values, cwd, resume), cwd=cwd, first=first, pick=pick, joins=joins)
    try:
        code = await app.run_async()
    finally:
        ends = (OLD_TITLE if app.notifier.terminal.title else "") + (CLEAR if app.notifier.status.reported else "")
        if ends and sys.__stderr__ is not None:
            with suppress(OSError):  # the terminal may be closed
                sys.__stderr__.write(ends)  # the stream that Textual writes to
                sys.__stderr__.flush()
        await app.notifier.close()
        detached = app.controller.detached and app.services.failure is None
        comes_back = _comes_back(app.controller)
        await (_go_on(app.controller) if detached else app.controller.close())
    if app.services.failure is not None:
        print(f"friday: {sanitize(_error_text(app.services.failure))}", file=sys.stderr)
        code = app.services.failure.exit_code if isinstance(app.services.failure, FridayError) else 1
    _print_end(app.controller.last, *comes_back())
    return code or 0


async def _plain(values: Mapping[str, Any], cwd: Path, resume: str | None) -> int:
    """The chat as plain lines."""
    from .plain.chat import PlainChat

    if not values.get("plain"):
        reason = "this terminal (TERM=dumb) has no screen to draw on"
        print(f"friday: {reason}: plain text, as with --plain", file=sys.stderr)
    pick = values.get("resume") == ""
    chat = PlainChat(lambda: _options(values, cwd, resume), cwd=cwd, first=values.get("prompt") or "", pick=pick)
    try:
        code = await chat.run()
    finally:
        comes_back = _comes_back(chat.controller)
        await (_go_on(chat.controller) if chat.controller.detached else chat.controller.close())
    _print_end(chat.controller.last, *comes_back())
    return code


def _comes_back(controller: SessionController) -> Callable[[], tuple[str, str]]:
    """Called when the chat has ended: what becomes of the session, and the command that comes back to it, "" for none."""
    remote, session = controller.remote, controller.session
    if remote is None:

        def saved() -> tuple[str, str]:  # what was not saved may be at its end
            kept = session is None or session.facts.kept
            return ("saved. Resume", "-r") if kept else ("was not saved, or only its beginning", "")

        return saved
    ends = remote.ending or remote.ended.is_set() or (remote.facts.idle and not remote.facts.at_work)
    words = "saved. Resume" if ends else "continues without this terminal"
    return lambda: (words, "attach")


async def _go_on(controller: SessionController) -> None:
    """Serve the session without the terminal until nothing is left to do, then close it."""
    from friday_cli.system.other_machine import typed

    from ..host import terminal
    from ..host.owner import BackgroundOwner

    session = controller.require_session()
    owner = BackgroundOwner(session, controller.options, busy=lambda: controller.loop.running)
    try:
        owner.open()
        controller.on_change = owner.frontends_changed
        if not controller.loop.running:  # a loop reads how its rounds end
            await controller.fold.stop(cancel=True)
        name = session.id[:8]
        if terminal.can_let_go():  # else its window was closed
            opens, lists = (sanitize(typed(f"friday {command}")) for command in (f"attach {name}", "agents"))
            print(
                f"friday: session {name} continues in the background. `{opens}` opens it, `{lists}` lists it.",
                flush=True,
            )
            terminal.let_go()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, owner.end)
        await owner.until_unused()
    finally:
        await owner.close()
        await controller.close()


def _print_end(session: str, what: str, command: str) -> None:
    """Print how to come back to a session that has messages."""
    if session:
        from friday_cli.system.other_machine import REACHED_AS, typed  # not before the first screen

        name = session[:8]
        again = f"friday {command} {name}"
        if os.environ.get(REACHED_AS):
            again = typed(f"friday attach {name}")
        with suppress(OSError):
            print(f"friday: session {name} {what}" + (f": `{sanitize(again)}`" if command else "."), file=sys.stderr)


def _error_text(failure: BaseException) -> str:
    """The text of an error; the traceback of a defect goes to a log file."""
    if isinstance(failure, FridayError):
        return str(failure)
    from friday_cli.diagnostics.log_file import report_defect

    return report_defect(failure)


def _options(values: Mapping[str, Any], cwd: Path, resume: str | None) -> Options:
    flags = {name: values[name] for name in ("subagent_model", "fallback_model", "service_tier") if values.get(name)}
    return session_options(values, cwd, resume=resume, attended=True, flags=flags)


async def _session_to_resume(values: Mapping[str, Any], cwd: Path) -> str | None:
    """The id of the session to resume; None for a new one."""
    if not (values.get("continue_") or values.get("resume")):
        return None
    from friday_cli.session import lists

    return await lists.session_to_resume(values.get("resume") or "", cwd)
