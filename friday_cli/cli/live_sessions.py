"""What `friday agents` and `friday attach` do. Both begin without Typer, which takes a tenth of a second."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.sanitize import sanitize
from friday_cli.session.fleet import FleetRow, OpenQuestion, WatchedFleet, fleet, interrupted, remove_stale_sockets
from friday_cli.store import locks
from friday_cli.store.listing import list_sessions, newest_bodies, run_query, short_ids
from friday_cli.store.records import SessionRow
from friday_cli.system import session_socket
from friday_cli.system.other_machine import by_ssh, starts_one, typed
from friday_cli.system.paths import existing_store_path, store_path, text_of, with_tilde, working_folder

from . import output

DAY_S = 86_400.0
ANSWERS = {"y": "allow", "yes": "allow", "n": "deny", "no": "deny", "session": "allow", "always": "allow"}
R = TypeVar("R")


def begin(argv: list[str]) -> int | None:
    """Run `friday agents` without a command, or `friday attach [ID]`, and return the exit code; None for what Typer reads. Raises
    OSError."""
    words = set(argv[1:])
    try:
        if argv[:1] == ["attach"] and len(argv) < 3 and not "".join(words).startswith("-"):
            return attach("".join(words))
        if argv[:1] == ["agents"] and words <= {"--json", "--all", "-a", "--here"}:
            everything, here = bool(words & {"--all", "-a"}), "--here" in words
            code = show_all(as_json="--json" in words, everything=everything, here=here)
            sys.stdout.flush()
            return code
    except FridayError as error:
        print(f"friday: {sanitize(str(error))}", file=sys.stderr)
        return error.exit_code
    return None


def attach(session: str, *, plain: bool = False) -> int:
    """Open the chat on a session, "" for the one that runs or was used last; returns its exit code. Raises FridayError."""
    from friday_cli.frontends.options import defaults
    from friday_cli.frontends.tui.options import OPTIONS
    from friday_cli.frontends.tui.run import chat

    row = _found(session)
    values = defaults(OPTIONS) | {"resume": row.id, "cwd": row.cwd, "plain": plain}
    return chat(values, joins=row.id if session_socket.is_there(row.id) else "")


def _found(prefix: str) -> SessionRow:
    """The session with this prefix; for "" the one that runs and was used last, or the last one. Raises UsageError."""
    from friday_cli.store.sessions import find  # loads events, which the list does not need

    path = existing_store_path()
    if path is None:
        rows = []
    else:
        _mark_interrupted(path)
        owned = [name for name in session_socket.sessions() if locks.owner(path.parent / "locks", name) is not None]
        rows = run_query(
            path, lambda db: list_sessions(db, None, 1, since=math.inf, owned=[find(db, prefix)] if prefix else owned)
        )
        if not (rows or prefix):
            rows = run_query(path, lambda db: list_sessions(db, None, 1))
    if rows:
        return rows[0]
    if prefix:
        raise UsageError(f"Session {prefix} has not begun yet.")
    raise UsageError("There is no session yet.", hint=f"Start one: {starts_one()}")


def screen(*, everything: bool = False, here: bool = False) -> int:
    """Show the list until the person quits; a session that is chosen is opened in between. Returns the exit code."""
    import subprocess

    # these import the screen, which the table does not need
    from friday_cli.frontends.tui.fleet_screen import FleetApp, chosen_of
    from friday_cli.frontends.tui.notifications import OLD_TITLE

    rows = WatchedFleet(store_path(), lambda: read(everything=everything, here=here, mark=False))
    chosen, first = "", read(everything=everything, here=here)
    while True:
        app = FleetApp(rows, ScreenActions(), first=first, chosen=chosen)
        chosen = chosen_of(app)
        if app.terminal.title:
            print(OLD_TITLE, end="", flush=True)
        if not chosen:
            return app.return_code or 0
        if subprocess.run([sys.executable, "-m", "friday_cli", "attach", chosen], check=False).returncode:
            with suppress(EOFError, KeyboardInterrupt):  # the list would hide what it said
                input("Press Enter for the list. ")
        first = rows()


def show_all(*, as_json: bool, everything: bool, here: bool) -> int:
    """List the sessions: live in a terminal, else as a table, or as JSON. Returns the exit code."""
    if not as_json and output.on_terminal() and sys.stdin.isatty():
        return screen(everything=everything, here=here)
    rows = read(everything=everything, here=here)
    if output.has_table(rows, as_json=as_json, none=f"no sessions. Start one: {starts_one()}"):
        show(rows)
    return 0


def show(rows: Sequence[FleetRow]) -> None:
    """Print the rows as a table, and below it the questions that wait."""
    short = short_ids([row.id for row in rows])
    cells = [
        (
            short[row.id],
            row.state + (" (yolo)" if row.mode == "yolo" else ""),
            str(row.at_work or "-"),
            price(row),
            output.when(row.updated, short=output.on_terminal()),
            row.title,
            with_tilde(row.cwd),
        )
        for row in rows
    ]
    titles = ("ID", "STATE", "AGENTS", "COST", "LAST", "TITLE", "FOLDER")
    output.show_table(titles, cells, right=("AGENTS", "COST"), wide=("TITLE", "FOLDER"))
    for row in rows:
        if row.waits:
            output.show(f"\n{short[row.id]} waiting: {row.waits}. `{by_ssh('friday budget set')}` raises it.")
        for question in row.questions:
            what = f"wants {question.tool}: {question.text}" if question.tool else f"asks: {question.text}"
            output.show(f"\n{short[row.id]}:{question.agent} {what}")
            for number, choice in enumerate(question.choices, 1):
                output.show(f"  {number} {choice or '(in your own words)'}")
            words = "yes | no" + " | session | always" * bool(question.allows)
            if not question.tool:
                words = "NUMBER | TEXT" if question.choices else "TEXT"
            if row.reachable:
                command = typed(f"friday agents answer {short[row.id]} {question.id}")
                output.show(f"  {command} {words}")
                if question.allows:
                    output.show(f"  session and always let pass: {', '.join(question.allows.splitlines())}")


def price(row: FleetRow) -> str:
    """The cost of a session for a table."""
    from friday_cli.core.protocol import format  # 6 ms that the list as JSON does not need
    from friday_cli.core.protocol.messages import Usage

    return format.price(row.model, Usage(cost_usd=row.cost_usd)).removeprefix("cost ")


class ScreenActions:
    """Implements `FleetActions`."""

    async def stop(self, session: str) -> None:
        await reached(session, end)

    async def answer(self, session: str, question: OpenQuestion, words: str) -> bool:
        return await reached(session, lambda port, path: answer(port, question.id, words, "", question.choices))

    async def say(self, row: FleetRow, text: str) -> None:
        if row.pid is None:
            await self._begin(row.cwd, *as_it_was(row), "-r", row.id, "--", text)
        else:
            await reached(row.id, lambda port, path: say(port, path, text))

    async def newest(self, session: str, rows: int) -> list[str]:
        from . import transcript_text
        from .session_lookup import read as read_session

        top = (await read_session(session)).state.agents.get("a")
        lines = transcript_text.conversation(top) if top else ()
        return ["".join(text for text, _ in parts) for parts in lines if parts][-rows:]

    async def start(self, folder: str, text: str) -> str:
        return await self._begin(folder, "--", text)

    async def _begin(self, folder: str, *words: str) -> str:
        import asyncio
        import subprocess

        begin = [sys.executable, "-m", "friday_cli", "ask", "-b", "--cwd", folder]
        ran = await asyncio.to_thread(
            subprocess.run, [*begin, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if ran.returncode:
            raise UsageError(
                (ran.stderr or ran.stdout).strip().removeprefix("friday: ") or "The new session did not start."
            )
        return ran.stdout.partition("session ")[2].partition(" ")[0]


def read(*, everything: bool = False, here: bool = False, mark: bool = True) -> list[FleetRow]:
    """The rows. `mark`: runs of processes that died are marked as interrupted first."""
    path = existing_store_path()
    if path is None:
        return []
    if mark:
        _mark_interrupted(path)
        remove_stale_sockets(path)
    since = 0.0 if everything else time.time() - DAY_S
    return fleet(path, since=since, cwd=text_of(working_folder()) if here else None)


def _mark_interrupted(path: Path) -> None:
    """End the runs of processes that died as interrupted."""
    if interrupted(path):
        import asyncio

        from .session_lookup import reconcile  # rarely needed, and takes 100 ms

        asyncio.run(reconcile())


async def answer(session: Any, question: str, words: str, reason: str, choices: Sequence[str]) -> bool:
    """Answer a question; False if it is no longer open. Raises UsageError."""
    from friday_cli.core.permissions.approvals import ApprovalAnswer
    from friday_cli.session.commands import AnswerQuestion

    given: ApprovalAnswer | str = words
    if question.startswith("p"):
        decision = ANSWERS.get(words.lower())
        if decision is None:
            raise UsageError(f"{words!r} is not an answer to a permission request.", hint=f"Say {', '.join(ANSWERS)}.")
        scope = words.lower() if words.lower() in ("session", "always") else "once"
        given = ApprovalAnswer(decision, scope, reason)  # type: ignore[arg-type]
    elif words.isdecimal() and 0 < int(words) <= len(choices):
        given = choices[int(words) - 1]
    return bool(await session.do(AnswerQuestion(question, given)))


async def say(session: Any, path: str, text: str) -> list[str]:
    """Send a message to an agent; returns remarks for the person."""
    from friday_cli.session.attachments import PromptText
    from friday_cli.session.commands import Say, Tell

    if path and path != "a":
        await session.do(Tell(path, text))
        return []
    return list(await session.do(Say(PromptText(text))))


async def end(session: Any, path: str) -> int:
    """Let the process of a session end, and wait for that. Returns how many agents were at work."""
    count = int(session.facts.at_work)
    await session.end()
    async for _ in session.events(session.since):
        pass
    return count


def as_it_was(row: FleetRow) -> list[str]:
    """The options by which a session continues in its mode, with the limits and denials that its command line gave it."""
    options = ["--yolo"] if row.mode == "yolo" else ["--mode", row.mode] if row.mode else []
    found = run_query(store_path(), lambda db: newest_bodies(db, row.id, ("a",), ("workspace",), 1))
    for _, event in found:
        options += [f"--deny={rule}" for rule in event.get("deny", ())]
        given = event.get("flags", {})
        options += ["--assume-price"] if given.get("limits.assume_price") else []
        limits = ("max_turns", "max_tokens", "max_cost", "timeout")
        options += [f"--{name.replace('_', '-')}={given[at]}" for name in limits if (at := f"limits.{name}") in given]
    return options


async def reached(name: str, go: Callable[[Any, str], Coroutine[Any, Any, R]], *, hint: str = "") -> R:
    """What `go` makes of the session that ID or ID:PATH names, in the process that owns it. Raises UsageError."""
    from friday_cli.session.remote import RemoteSession

    from .session_lookup import find

    async with find(name) as (store, full, path):
        owner = await store.owner_pid(full)
    session = await RemoteSession.connect(full) if owner is not None else None
    if session is None:
        where = f"is open in a terminal (process {owner}) that does not listen" if owner else "is not running"
        hint = hint if owner is None else "Use it there, or detach it there with /detach."
        raise UsageError(f"Session {full[:8]} {where}.", hint=hint)
    try:
        return await go(session, path)
    finally:
        await session.close()
