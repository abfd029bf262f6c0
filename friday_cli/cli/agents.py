"""`friday agents`: all sessions of this person, and what a script or another terminal does to one of them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.session.fleet import FleetRow, OpenQuestion, fleet, interrupted, remove_stale_sockets
from friday_cli.store.listing import short_ids
from friday_cli.system.other_machine import REACHED_AS, typed
from friday_cli.system.paths import existing_store_path, text_of, with_tilde, working_folder

from . import output
from .help import HelpCommand, HelpGroup
from .session_args import AGENT, JSON, NAME, YES

HELP = """List sessions that need you, work or have ended; answer them.

\b
friday agents                 the list (live in a terminal)
friday agents answer ID Q yes answer its question Q
friday agents send ID "TEXT"  a message to it, or to an agent of it (7f3a:a.2)
friday agents stop ID         stop its agents and end its process
friday agents logs ID         its conversation (--follow: as it goes on)
friday agents resume --all    continue what a crash interrupted

Start one with `friday ask -b "TASK"`; open one with `friday attach ID`. `--host HOST` does all of this on another machine, through ssh."""
DAY_S = 86_400.0
CONTINUE = "You were interrupted: the process ended. Check what is already done, then continue the task."
ANSWERS = {"y": "allow", "yes": "allow", "n": "deny", "no": "deny", "session": "allow", "always": "allow"}
R = TypeVar("R")


def register(app: typer.Typer, about: str) -> None:
    """Add the family `agents`."""
    family = typer.Typer(cls=_Group, help=HELP, rich_markup_mode=None, invoke_without_command=True)
    family.callback()(list_)
    commands: dict[str, Callable[..., None]] = {
        "answer": answer,
        "send": send,
        "stop": stop,
        "logs": logs,
        "resume": resume,
    }
    for name, function in commands.items():
        family.command(name, cls=HelpCommand)(function)
    app.add_typer(family, name="agents", short_help=about)


def _run(work: Coroutine[Any, Any, R]) -> R:
    import asyncio  # 40 ms that the list does not need

    return asyncio.run(work)


class _Group(HelpGroup):
    """Without a command it lists."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super(HelpGroup, self).parse_args(ctx, args)


def list_(
    ctx: typer.Context,
    as_json: bool = JSON,
    everything: bool = typer.Option(False, "--all", "-a", help="Include sessions that ended more than a day ago."),
    here: bool = typer.Option(False, "--here", help="Only sessions of this folder."),
) -> None:
    if ctx.invoked_subcommand is not None:
        return
    if not as_json and output.on_terminal() and sys.stdin.isatty():
        _screen(lambda: read(everything=everything, here=here, mark=False))
        return
    rows = read(everything=everything, here=here)
    if as_json:
        output.show_json(rows)
    elif rows:
        show(rows)
    else:
        output.remark('no sessions. Start one: friday ask -b "TASK".')


def _screen(rows: Callable[[], list[FleetRow]]) -> None:
    """Show the list until the person quits; a session that is chosen is opened in between."""
    import subprocess

    from friday_cli.frontends.tui.fleet_screen import FleetApp  # imports the screen, which the table does not need
    from friday_cli.frontends.tui.notifications import OLD_TITLE

    chosen = ""
    read()
    while True:
        app = FleetApp(rows, ScreenActions(), chosen=chosen)
        chosen = app.run() or ""
        if app.terminal.title:
            print(OLD_TITLE, end="", flush=True)
        if not chosen:
            break
        subprocess.run([sys.executable, "-m", "friday_cli", "attach", chosen], check=False)


class ScreenActions:
    """Implements `FleetActions`."""

    async def stop(self, session: str) -> None:
        await _reached(session, _end)

    async def answer(self, session: str, question: OpenQuestion, words: str) -> bool:
        return await _reached(session, lambda port, path: _answer(port, question.id, words, "", question.choices))

    async def say(self, row: FleetRow, text: str) -> None:
        if row.pid is None:
            await self._begin(row.cwd, *_in_mode(row.mode), "-r", row.id, "--", text)
        else:
            await _reached(row.id, lambda port, path: _say(port, path, text))

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
    if mark and interrupted(path):
        from .session_lookup import reconcile  # rarely needed, and takes 100 ms

        _run(reconcile())
    if mark:
        remove_stale_sockets(path)
    since = None if everything else time.time() - DAY_S
    return fleet(path, since=since, cwd=text_of(working_folder()) if here else None)


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
            output.show(f"\n{short[row.id]} waiting: {row.waits}. `friday budget set` raises it.")
        for question in row.questions:
            what = f"wants {question.tool}: {question.text}" if question.tool else f"asks: {question.text}"
            output.show(f"\n{short[row.id]}:{question.agent} {what}")
            for number, choice in enumerate(question.choices, 1):
                output.show(f"  {number} {choice or '(in your own words)'}")
            words = "yes | no | session | always" if question.tool else "TEXT"
            if row.reachable:
                command = typed(f"friday agents answer {short[row.id]} {question.id}")
                output.show(f"  {command} {words}")


def price(row: FleetRow) -> str:
    """The cost of a session for a table."""
    from friday_cli.core.protocol import format  # 6 ms that the list as JSON does not need
    from friday_cli.core.protocol.messages import Usage

    return format.price(row.model, Usage(cost_usd=row.cost_usd)).removeprefix("cost ")


def answer(
    name: str = NAME,
    question: str = typer.Argument(metavar="QUESTION", help="Its id, which the list shows, such as p12."),
    words: str = typer.Argument(
        metavar="ANSWER", help="yes, no, session or always; for a question its answer, or the number of a choice."
    ),
    reason: str = typer.Option("", "--reason", metavar="TEXT", help="The reason for a no; the agent reads it."),
) -> None:
    """Answer a question of a session. The id keeps the answer from meaning another question."""

    async def go(session: Any, path: str) -> bool:
        choices: tuple[str, ...] = ()
        if words.isdecimal():
            row = next((row for row in read(everything=True) if row.id == session.id), None)
            choices = next((q.choices for q in row.questions if q.id == question), ()) if row else ()
        return await _answer(session, question, words, reason, choices)

    if not _run(_reached(name, go)):
        raise UsageError(
            f"{question} is not open: it was answered elsewhere, or withdrawn.",
            hint=f"`{typed('friday agents')}` lists what is.",
        )
    output.remark(f"answered {question}.")


async def _answer(session: Any, question: str, words: str, reason: str, choices: Sequence[str]) -> bool:
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


def send(name: str = AGENT, text: str = typer.Argument(metavar="TEXT", help="The message.")) -> None:
    """Send a message to a session, or to one of its agents (ID:PATH)."""

    async def go(session: Any, path: str) -> None:
        for line in await _say(session, path, text):
            output.remark(line)

    there = os.environ.get(REACHED_AS)  # `ask` goes to no other machine
    again = (
        typed(f"friday attach {name.partition(':')[0]}")
        if there
        else f'friday ask -b -r {name.partition(":")[0]} "TEXT"'
    )
    _run(_reached(name, go, hint=f"`{again}` resumes it."))


async def _say(session: Any, path: str, text: str) -> list[str]:
    """Send a message to an agent; returns remarks for the person."""
    from friday_cli.session.attachments import PromptText
    from friday_cli.session.commands import Say, Tell

    if path and path != "a":
        await session.do(Tell(path, text))
        return []
    return list(await session.do(Say(PromptText(text))))


def stop(name: str = AGENT) -> None:
    """Stop a session and its process; with ID:PATH one agent."""
    from friday_cli.core.protocol.format import pluralize
    from friday_cli.session.commands import Stop

    async def go(session: Any, path: str) -> int:
        return int(await session.do(Stop(path))) if path else await _end(session, path)

    output.remark(f"{pluralize(_run(_reached(name, go)), 'agent')} stopped.")


async def _end(session: Any, path: str) -> int:
    """Let the process of a session end, and wait for that. Returns how many agents were at work."""
    count = int(session.facts.at_work)
    await session.end()
    async for _ in session.events(session.since):
        pass
    return count


def logs(
    name: str = AGENT, follow: bool = typer.Option(False, "--follow", "-f", help="Show what happens until it ends.")
) -> None:
    """Show the conversation of a session: `friday sessions show`."""
    from .sessions_show import show as show_session

    show_session(name, tree=False, timeline=False, agent=None, follow=follow, json=False)


def resume(
    name: str = typer.Argument("", metavar="ID", help="One interrupted session; all with --all."),
    everything: bool = typer.Option(False, "--all", "-a", help="Every session that was interrupted while it worked."),
    yes: bool = YES,
) -> None:
    """Continue sessions that a crash or a restart interrupted."""
    import subprocess

    from friday_cli.core.protocol.format import pluralize

    rows = [row for row in read(everything=True) if row.state == "interrupted"]
    if name:
        rows = [row for row in rows if row.id.startswith(name)]
    elif not everything:
        raise UsageError(
            "No session was named.", hint=f"Name a session, or use --all. `{typed('friday agents')}` lists them."
        )
    if not rows:
        raise UsageError("No such session was interrupted." if name else "No session was interrupted.")
    for row in rows:
        output.show(
            f"{row.id[:8]}  {row.title}  ({with_tilde(row.cwd)}; {price(row)} so far; {row.model}, mode {row.mode or 'ask'})"
        )
    output.show(
        "Each continues with its model and mode, and may cost as much as its task needs; the limits in your settings apply."
    )
    if output.confirm(f"Resume {pluralize(len(rows), 'session')}?", yes=yes, otherwise="Nothing was resumed"):
        begin = [sys.executable, "-m", "friday_cli", "ask", "-b"]
        ended = [
            subprocess.run(
                [*begin, *_in_mode(row.mode), "-r", row.id, "--cwd", row.cwd, CONTINUE],
                stdin=subprocess.DEVNULL,
                check=False,
            )
            for row in rows
        ]
        if code := max(ran.returncode for ran in ended):
            raise typer.Exit(code)


def _in_mode(mode: str) -> list[str]:
    """The option for a permission mode."""
    return ["--yolo"] if mode == "yolo" else ["--mode", mode] if mode else []


async def _reached(name: str, go: Callable[[Any, str], Coroutine[Any, Any, R]], *, hint: str = "") -> R:
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
