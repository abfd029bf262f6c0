"""`friday sessions replay`: plays a recorded session again, without a model and without its tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Envelope, WorktreeChanged
from friday_cli.core.protocol.format import pluralize, seconds
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.tool_catalog import BASH
from friday_cli.frontends.options import map_tool
from friday_cli.session.replay import step_fork
from friday_cli.session.replay.answers import ReplayOptions
from friday_cli.session.replay.clock import run
from friday_cli.session.replay.compare import Divergence
from friday_cli.session.replay.drive import Replayed
from friday_cli.session.replay.drive import replay as play
from friday_cli.session.replay.recording import Recording, read_recording
from friday_cli.view import SessionView

from .output import confirm, remark, show, show_json, show_painted
from .session_args import JSON, LAST, YES
from .session_follow import ConversationPrinter
from .session_lookup import read, refuse_agent

Speed = Literal["1", "4", "max"]
Tools = Literal["log", "run"]
COMMANDS = 5
"""Commands that are named in the question whether they may run again."""


SPEED = typer.Option("max", "--speed", help="1: as long as it took, and show it; 4: four times as fast; max: at once.")
TOOLS = typer.Option(
    "log",
    "--tools",
    help="log: results as recorded; run: files and commands again, in the sandbox, in a copy of the folder.",
)


def replay(
    name: str = LAST,
    speed: Speed = SPEED,
    tools: Tools = TOOLS,
    go_on: bool = typer.Option(False, "--go-on", help="Go on after a difference, and list all of them."),
    yes: bool = YES,
    as_json: bool = JSON,
) -> None:
    """Play a recorded session again, without a model.

    No request is sent, no tool runs (except with --tools run), it costs nothing. The agents are made of today's profiles, rules and AGENTS.md; models, tools, hooks and people answer as recorded. The first request that is
    not the recorded one is named with agent, turn and line, and the exit code is 1.
    """
    record = asyncio.run(read(name, last=True))
    refuse_agent(record.id, record.agent, "Only a whole session can be replayed.")
    recording = read_recording(record.envelopes)
    folder = Path(recording.cwd)
    if not folder.is_dir():
        raise UsageError(f"The folder of session {record.id[:8]} is gone: {recording.cwd}.")
    watch = _shown(record.title) if speed != "max" and not as_json else lambda envelope: None
    pace = None if speed == "max" else float(speed)
    if tools == "log":
        options = ReplayOptions(folder=folder, go_on=go_on, watch=watch, map_tool=map_tool)
        result = run(play(recording, options), pace)
    else:
        with _copy(record.id, recording, yes=yes) as copy:
            options = ReplayOptions(folder=copy, go_on=go_on, runs_tools=True, watch=watch, map_tool=map_tool)
            result = run(play(recording, options), pace)
    if as_json:
        show_json(result)
    else:
        for places in by_change(result.divergences).values():
            show_divergence(places[0])
            if len(places) > 1:
                show(f"  the same at {', '.join(dict.fromkeys(found.place for found in places[1:]))}")
        show(f"session {record.id[:8]}: {summary(recording, result)}")
    if result.divergences:
        raise typer.Exit(1)


@contextmanager
def _copy(session: str, recording: Recording, *, yes: bool) -> Iterator[Path]:
    """The folder as it was when the session began, while its tools run there. Raises UsageError."""
    if any(isinstance(envelope.event, WorktreeChanged) for envelope in recording.envelopes):
        raise UsageError("Tools of sub-agents that worked in git worktrees cannot be run again.")
    if any(process.found.folders for process in recording.processes):
        raise UsageError(
            "Tools of a session with more than one folder (--add-dir) cannot be run again: only the first folder is copied."
        )
    made = asyncio.run(step_fork.prepare(session, recording.envelopes, "a", 1))
    try:
        for text in made.missing:
            remark(f"not as it was: {text}")
        calls = [call.started for each in recording.calls.values() for call in each if call.started.tool == BASH]
        for call in calls[:COMMANDS]:
            remark(f"runs: {sanitize_line(call.title, 120)}")
        more = f" and {len(calls) - COMMANDS:,} more commands" if len(calls) > COMMANDS else ""
        if not confirm(
            f"Run the tools of session {session[:8]} again{more}, in the sandbox and without the network?",
            yes=yes,
            otherwise="Nothing was run",
        ):
            raise typer.Exit(0)
        yield made.folder
    finally:
        step_fork.remove(Path(recording.cwd), made.place)


def _shown(title: str) -> Callable[[Envelope], object]:
    """Prints the conversation of the main agent as it is played."""
    show_painted((title or "(untitled)", "bold"))
    state = SessionView()
    printer = ConversationPrinter(state, "a")

    def watch(envelope: Envelope) -> None:
        printer.show(state.apply(envelope))

    return watch


def by_change(divergences: Iterable[Divergence]) -> dict[tuple[str, ...], list[Divergence]]:
    """The differences by what changed: one change can meet many requests."""
    found: dict[tuple[str, ...], list[Divergence]] = {}
    for one in divergences:
        found.setdefault(one.change, []).append(one)
    return found


def show_divergence(found: Divergence) -> None:
    """Print a difference in two or three lines."""
    first, *rows = found.text.split("\n")
    show_painted((first, "yellow"))
    for row in rows:
        show_painted((row, "red" if row.lstrip().startswith("-") else "green"))


def summary(recording: Recording, result: Replayed) -> str:
    """What was replayed and what came of it, in one line."""
    played = f"{pluralize(result.agents, 'agent')}, {pluralize(result.requests, 'request')}, {pluralize(result.calls, 'call')}"
    lasted = f"{seconds(recording.seconds)} when recorded"
    if result.divergences:
        return f"differs from the recording ({pluralize(len(by_change(result.divergences)), 'difference')}); {played} replayed"
    killed = f", of which {result.killed} died" if result.killed else ""
    more = f" in {result.processes} processes{killed}" if result.processes > 1 or killed else ""
    text = f"replayed without a difference: {played}{more}; $0, {lasted}"
    if result.stops_at:
        remark(f"the replay ended before the recording: {result.stops_at}")
    return text
