"""`friday cassette`: recorded sessions in a project, which are replayed as its tests."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import typer

from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.frontends.options import map_tool
from friday_cli.session.replay.answers import ReplayOptions
from friday_cli.session.replay.cassette import FOLDER, Cassettes
from friday_cli.session.replay.clock import run
from friday_cli.session.replay.compare import Divergence
from friday_cli.session.replay.drive import Replayed
from friday_cli.session.replay.drive import replay as play
from friday_cli.session.replay.recording import read_recording
from friday_cli.system.paths import working_folder

from .help import add_family
from .output import confirm, remark, show, show_json, show_table
from .session_args import JSON, NAME, YES
from .session_lookup import read, refuse_agent
from .sessions_replay import show_divergence

FROM = typer.Option(str(FOLDER), "--from", metavar="FOLDER", help="Where the cassettes are.")
CASSETTE = typer.Argument(metavar="NAME", help="The cassette.")
ONE = typer.Argument("", metavar="NAME", help="One cassette; default: all.")
LISTED = 5
"""Cassettes that are named for one change."""


def register(app: typer.Typer, about: str) -> None:
    """Add the family `cassette`."""
    commands: dict[str, Callable[..., None]] = {
        "list": list_,
        "add": add,
        "check": check,
        "show": show_,
        "accept": accept,
    }
    add_family(app, "cassette", about, commands)


def list_(folder: str = FROM, as_json: bool = JSON) -> None:
    """List the cassettes of this project."""
    shelf = Cassettes(Path(folder))
    rows, broken = list[tuple[str, int, int, str]](), list[str]()
    for name in shelf.names():
        try:
            recording = read_recording(shelf.read(name, working_folder()))
            prompts = recording.processes[0].prompts
            about = sanitize_line(prompts[0].start.task, 200) if prompts else ""
            rows.append((name, len(recording.profiles), sum(map(len, recording.requests.values())), about))
        except (FileError, UsageError) as error:
            broken.append(f"{name}: {error}")
    if as_json:
        show_json([{"name": name, "agents": agents, "requests": requests} for name, agents, requests, _ in rows])
    elif rows:
        table = [(name, str(agents), str(requests), about) for name, agents, requests, about in rows]
        show_table(("NAME", "AGENTS", "REQUESTS", "TASK"), table, right=("AGENTS", "REQUESTS"), wide=("TASK",))
    elif not broken:
        remark(f"no cassettes in {folder}; `friday cassette add ID NAME` makes one of a session.")
    for problem in broken:
        remark(problem)
    if broken:
        raise typer.Exit(1)


def add(
    session: str = NAME,
    name: str = CASSETTE,
    folder: str = FROM,
    yes: bool = YES,
) -> None:
    """Make a cassette of a recorded session.

    It has the messages, replies and results of the session. Likely keys are masked, the paths of the folder and of your home are replaced. Look
    at it before you commit it.
    """
    record = asyncio.run(read(session))
    refuse_agent(record.id, record.agent, "Only a whole session becomes a cassette.")
    read_recording(record.envelopes)
    shelf = Cassettes(Path(folder))
    if shelf.path(name).exists() and not confirm(
        f"Replace the cassette {name}?", yes=yes, otherwise="Nothing was changed"
    ):
        return
    path = shelf.write(name, record.envelopes)
    shelf.remove_unused()
    remark(f"wrote {path}; `friday cassette check {name}` replays it")


def check(name: str = ONE, folder: str = FROM, as_json: bool = JSON) -> None:
    """Replay cassettes, and name what differs now.

    Today's profiles, hooks, skills, AGENTS.md and rules are used, and no model or key. A change that meets several cassettes is shown once. The exit code is 1 if anything differs from the recordings. What a changed text does
    to a model's answers, no replay can tell: look at the change, and accept it.
    """
    shelf = Cassettes(Path(folder))
    results = {one: _played(shelf, one) for one in _chosen(shelf, name, folder)}
    if as_json:
        show_json({one: result.divergences for one, result in results.items()})
    else:
        _show_changes(results)
    if any(result.divergences for result in results.values()):
        raise typer.Exit(1)


def show_(name: str = CASSETTE, folder: str = FROM) -> None:
    """Show what a cassette has, in order."""
    recording = read_recording(Cassettes(Path(folder)).read(name, working_folder()))
    for path, requests in recording.requests.items():
        _, end = recording.ends.get(path, [(0, None)])[-1]
        how = f"{end.status} ({end.stop_reason})" if end else "did not end"
        show(f"{path} {recording.profiles.get(path, '')}: {pluralize(len(requests), 'request')}, {how}")
        for request in requests:
            purpose = request.event.purpose if request.event else "interrupted"
            reply = request.reply
            what = (
                ", ".join(call.name for call in reply.calls) if reply and reply.calls else reply.text if reply else ""
            )
            what = what or (request.failure.message if request.failure else "")
            show(f"  {request.number} turn {request.turn} ({purpose}): {sanitize_line(what, 100)}")


def accept(
    name: str = ONE,
    folder: str = FROM,
    every: bool = typer.Option(False, "--all", help="Accept the changes of all cassettes."),
    yes: bool = YES,
) -> None:
    """Show what differs now, and make it the recording.

    The recorded replies and results stay. A change that meets several cassettes is shown once. To get new replies of the model, record a new session instead.
    """
    if bool(name) == every:
        raise UsageError("Name a cassette, or use --all.")
    shelf = Cassettes(Path(folder))
    results = {one: _played(shelf, one, go_on=True) for one in _chosen(shelf, name, folder)}
    changed = {one: result for one, result in results.items() if result.divergences}
    _show_changes(results)
    if not changed or not confirm(
        f"Accept this for {pluralize(len(changed), 'cassette')}?", yes=yes, otherwise="Nothing was changed"
    ):
        return
    for one, result in changed.items():
        shelf.write(one, result.log)
    shelf.remove_unused()
    left = [one for one in changed if _played(Cassettes(Path(folder)), one).divergences]
    remark(f"accepted for {pluralize(len(changed) - len(left), 'cassette')}")
    if left:
        remark(f"{', '.join(left)}: the recorded replies do not fit what happens now; record these sessions again")
        raise typer.Exit(1)


def _chosen(shelf: Cassettes, name: str, folder: str) -> list[str]:
    names = [name] if name else shelf.names()
    if not names:
        raise UsageError(
            f"There are no cassettes in {folder}.", hint="`friday cassette add ID NAME` makes one of a session."
        )
    return names


def _played(shelf: Cassettes, name: str, *, go_on: bool = False) -> Replayed:
    here = working_folder()
    recording = read_recording(shelf.read(name, here))
    options = ReplayOptions(folder=here, go_on=go_on, runs_hooks=True, map_tool=map_tool)
    return run(play(recording, options))


def _show_changes(results: dict[str, Replayed]) -> None:
    """Show each difference once, with the cassettes that it meets."""
    found: dict[tuple[str, ...], list[tuple[str, Divergence]]] = defaultdict(list)
    for name, result in results.items():
        for divergence in result.divergences:
            found[divergence.change].append((name, divergence))
    for places in found.values():
        names = list(dict.fromkeys(name for name, _ in places))
        listed = ", ".join(names[:LISTED]) + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")
        show(f"{listed}:")
        show_divergence(places[0][1])
    differ = sum(bool(result.divergences) for result in results.values())
    same = f"{pluralize(len(results), 'cassette')}: {len(results) - differ} as recorded"
    show(f"{same}, {differ} with {pluralize(len(found), 'difference')}" if differ else same)
