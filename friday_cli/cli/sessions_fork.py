"""`friday sessions fork`: a new session with the history of another one, up to a message or a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentStarted, Envelope, WorkspaceFound, kind
from friday_cli.core.text.diff import difference
from friday_cli.session.replay import step_fork
from friday_cli.session.rewind import fork as fork_session
from friday_cli.view import SessionView

from .output import Style, confirm, remark, show, show_json, show_painted, show_table
from .session_args import JSON, NAME, YES
from .session_lookup import Record, find, read, refuse_agent, whole_session
from .sessions_list import price

COLORS: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}


def fork(
    name: str = NAME,
    *,
    at: int | None = typer.Option(
        None, "--at", metavar="N", min=1, help="Copy only what came before your N-th message. Default: everything."
    ),
    step: str = typer.Option(
        "",
        "--step",
        metavar="AGENT:N",
        help="Copy what came before the N-th turn of an agent, with its files, and go on.",
    ),
    model: str = typer.Option("", "--model", "-m", metavar="MODEL", help="With --step: the model that goes on."),
    profile: str = typer.Option(
        "", "--profile", metavar="NAME", help="With --step: the profile with which the main agent goes on."
    ),
    say: str = typer.Option("Continue.", "--say", metavar="TEXT", help="With --step: the message to go on with."),
    trust: bool = typer.Option(
        False, "--trust", help="With --step: trust the project's files in the worktree for this run."
    ),
    compare: bool = typer.Option(False, "--compare", help="With --step: compare the outcome with the original."),
    yes: bool = YES,
    as_json: bool = JSON,
) -> None:
    """Create a session with the history of another one.

    The other session is not changed and may be running. Resume the new one with `friday -r ID`.

    With --step the files of that moment are made in a git worktree, and the agent goes on there at once, with a model, as `friday ask` does. What
    cannot be had as it was is named first.

    \b
    friday sessions fork 7f3a --at 2
    friday sessions fork 7f3a --step a.2:7 -m haiku --compare
    friday sessions fork 7f3a --step a:3 --say "Use the standard library."
    """
    if step and (at is not None or as_json):
        raise UsageError(
            "--at and --json cannot be combined with --step.",
            hint="The step says where to fork, and the outcome is shown as text.",
        )
    if step:
        raise typer.Exit(_from_step(name, step, _Continuation(model, profile, say, trust), compare=compare, yes=yes))
    if model or profile or trust or compare or say != "Continue.":
        raise UsageError("--model, --profile, --say, --trust and --compare need --step.")
    created = asyncio.run(_fork(name, at))
    if as_json:
        show_json({"session_id": created})
        return
    show(created)
    remark(f"resume it with `friday -r {created[:8]}`")


async def _fork(name: str, at: int | None) -> str:
    async with whole_session(name, "Only a whole session can be forked.") as (store, session):
        return await fork_session(store, session, at=at)


class _Continuation(NamedTuple):
    """How an agent goes on from a step: "" for the model and the profile that it had."""

    model: str
    profile: str
    say: str
    """The message to go on with."""
    trust: bool
    """Whether the files that steer agents count in the worktree."""


def _from_step(name: str, step: str, how: _Continuation, *, compare: bool, yes: bool) -> int:
    path, _, number = step.rpartition(":")
    if not path or not number.isdecimal():
        raise UsageError(f"--step {step}: write an agent and the number of its turn, such as a.2:7.")
    if how.profile and path != "a":
        raise UsageError("--profile needs a step of the main agent: a sub-agent keeps its profile.")
    record = asyncio.run(read(name))
    refuse_agent(record.id, record.agent, "Only a whole session can be forked.")
    made = asyncio.run(step_fork.prepare(record.id, record.envelopes, path, int(number)))
    for text in made.missing:
        remark(f"not as it was then: {text}")
    created = ""
    try:
        question = f"Go on from turn {number} of {path} in {made.folder}?"
        if not confirm(question, yes=yes or not made.missing, otherwise="Nothing was forked"):
            return 0
        created = asyncio.run(_make(record.id, made, path, how.model))
    finally:
        if not created:
            step_fork.remove(made.place, made.place)
    remark(f"forked as session {created[:8]}, in {made.folder}")
    from friday_cli.frontends.oneshot.options import defaults
    from friday_cli.frontends.oneshot.run import ask

    where: dict[str, Any] = {"resume": created} if path == "a" else {"resume_agent": f"{created}:{path}"}
    where |= {"model": how.model or None, "profile": how.profile or None, "trust": how.trust}
    code = ask({**defaults(), **_rights(record, made.before), **where, "prompt": how.say, "cwd": str(made.folder)})
    if compare:
        _compare(record, asyncio.run(read(created)), path, made.before)
    return code


def _rights(record: Record, before: int) -> dict[str, Any]:
    """The mode and the rules of the command line that the session had."""
    kept = [e.event for e in record.envelopes if (e.seq or 0) < before]
    mode = next((e.mode for e in reversed(kept) if isinstance(e, AgentStarted) and not e.parent), "")
    found = next((e for e in reversed(kept) if isinstance(e, WorkspaceFound)), WorkspaceFound())
    remark(f"mode {mode}, as in the original")
    rules = {"allow": found.allow, "deny": found.deny}
    return {**rules, "yolo": True} if mode == "yolo" else {**rules, "mode": mode or None}


async def _make(session: str, made: step_fork.StepFork, path: str, model: str) -> str:
    name = ""
    if model and path != "a":
        from friday_cli.llm.models import resolve

        from .project_context import load_context

        choice = resolve(model, load_context().settings)
        name = f"{choice.provider}/{choice.model}"
    async with find(session) as (store, found, _):
        models = {path: name} if name else {}
        return await fork_session(store, found, before=made.before, folder=made.folder, models=models)


def _compare(old: Record, new: Record, path: str, before: int) -> None:
    """Print what came of the step in both sessions."""
    start = SessionView.of(e for e in old.envelopes if (e.seq or 0) < before)
    rows, results = [], []
    for title, record in (("original", old), ("fork", new)):
        agent, used = record.state.agents[path], record.state.usage_of(path)
        since = start.usage_of(path)
        cost = None if used.cost_usd is None or since.cost_usd is None else used.cost_usd - since.cost_usd
        turns = _turns(record.envelopes, path) - _turns([e for e in old.envelopes if (e.seq or 0) < before], path)
        rows.append(
            (title, agent.model, agent.status, str(turns), f"{used.billed - since.billed:,}", price(agent.model, cost))
        )
        results.append(agent.end.text if agent.end is not None else "")
    show_table(("SESSION", "MODEL", "STATUS", "TURNS", "TOKENS", "COST"), rows, right=("TURNS", "TOKENS", "COST"))
    text, _, _ = difference(*(f"{result}\n" for result in results))
    for row in text.splitlines() or ["the results are the same"]:
        show_painted((row, COLORS.get(row[:1], "")))


def _turns(envelopes: Sequence[Envelope], path: str) -> int:
    return sum(e.agent == path and kind(e.event) == "turn_started" for e in envelopes)
