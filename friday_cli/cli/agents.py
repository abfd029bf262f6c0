"""`friday agents`: all sessions of this person, and what a script or another terminal does to one of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.system.other_machine import REACHED_AS, typed
from friday_cli.system.paths import with_tilde

from . import live_sessions, output
from .help import HelpCommand, HelpGroup
from .session_args import AGENT, JSON, NAME, YES

HELP = """List sessions that need you, work or have ended; answer them.

\b
friday agents                 the list (live in a terminal)
friday agents answer ID Q yes answer its question Q, which the table names
friday agents send ID "TEXT"  a message to it, or to an agent of it (7f3a:a.2)
friday agents stop ID         stop its agents and end its process
friday agents logs ID         its conversation (--follow: as it goes on)
friday agents resume --all    continue what a crash interrupted

In the live list: Enter opens a session, Space shows its end, y, n and 1 to 9 answer, r writes to it, x twice stops it, / finds, n begins another, q quits.

Start one with `friday ask -b "TASK"`; open one with `friday attach ID`. `--host HOST` does all of this on another machine, through ssh."""
CONTINUE = "You were interrupted: the process ended. Check what is already done, then continue the task."
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
    raise typer.Exit(live_sessions.show_all(as_json=as_json, everything=everything, here=here))


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
        rows = (row for row in live_sessions.read(mark=False) if row.id == session.id)
        asked = next((asked for row in rows for asked in row.questions if asked.id == question), None)
        if asked and asked.tool and not asked.allows and words.lower() in ("session", "always"):
            raise UsageError(f"{question} can be allowed for this call only.", hint="Say yes or no.")
        choices = asked.choices if asked else ()
        return await live_sessions.answer(session, question, words, reason, choices)

    if not _run(live_sessions.reached(name, go)):
        raise UsageError(
            f"{question} is not open: it was answered elsewhere, or withdrawn.",
            hint=f"`{typed('friday agents')}` lists what is.",
        )
    output.remark(f"answered {question}.")


def send(name: str = AGENT, text: str = typer.Argument(metavar="TEXT", help="The message.")) -> None:
    """Send a message to a session, or to one of its agents (ID:PATH)."""

    async def go(session: Any, path: str) -> None:
        for line in await live_sessions.say(session, path, text):
            output.remark(line)

    there = os.environ.get(REACHED_AS)  # `ask` goes to no other machine
    again = (
        typed(f"friday attach {name.partition(':')[0]}")
        if there
        else f'friday ask -b -r {name.partition(":")[0]} "TEXT"'
    )
    _run(live_sessions.reached(name, go, hint=f"`{again}` resumes it."))
    output.remark("sent.")


def stop(name: str = AGENT) -> None:
    """Stop a session and its process; with ID:PATH one agent."""
    from friday_cli.core.protocol.format import pluralize
    from friday_cli.session.commands import Stop

    async def go(session: Any, path: str) -> int:
        return int(await session.do(Stop(path))) if path else await live_sessions.end(session, path)

    output.remark(f"{pluralize(_run(live_sessions.reached(name, go)), 'agent')} stopped.")


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

    rows = [row for row in live_sessions.read(everything=True) if row.state == "interrupted"]
    if name:
        rows = [row for row in rows if row.id.startswith(name)]
    elif not everything:
        raise UsageError(
            "No session was named.", hint=f"Name a session, or use --all. `{typed('friday agents')}` lists them."
        )
    if not rows:
        raise UsageError(f"No session {name} was interrupted." if name else "No session was interrupted.")
    for row in rows:
        output.show(
            f"{row.id[:8]}  {row.title}  ({with_tilde(row.cwd)}; cost {live_sessions.price(row)} so far; {row.model}, mode {row.mode or 'ask'})"
        )
    output.show(
        "Each continues with its model, its mode, and what its command line limited and denied. Without a limit it may cost as much as "
        "its task needs."
    )
    if output.confirm(f"Resume {pluralize(len(rows), 'session')}?", yes=yes, otherwise="Nothing was resumed"):
        begin = [sys.executable, "-m", "friday_cli", "ask", "-b"]
        ended = [
            subprocess.run(
                [*begin, *live_sessions.as_it_was(row), "-r", row.id, "--cwd", row.cwd, CONTINUE],
                stdin=subprocess.DEVNULL,
                check=False,
            )
            for row in rows
        ]
        if code := max(ran.returncode for ran in ended):
            raise typer.Exit(code)
