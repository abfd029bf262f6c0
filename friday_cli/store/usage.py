"""What sessions used, by day, folder, profile and model, read from their events: each request once, also of agents that run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from datetime import date, datetime

import msgspec

from friday_cli.core.protocol.format import is_demo
from friday_cli.core.protocol.messages import NO_USAGE, Usage

from .sessions import copied_events

DELETED = "(deleted sessions)"
"""Stands for the folder and the profile of what deleted sessions used."""
_KINDS = (
    "session_started",
    "agent_started",
    "prefix",
    "turn_finished",
    "tool_finished",
    "attempt_failed",
    "compacted",
    "intent_stated",
    "verdict",
    "replies_collected",
    "agent_finished",
)


class UsedRow(msgspec.Struct, frozen=True):
    """What the agents of one profile used with one model, in one folder, on one local day (`2026-11-28`)."""

    day: str
    folder: str
    profile: str
    model: str
    usage: Usage
    """Its cost is that of the requests whose price is known."""
    unpriced: int = 0
    """Tokens of the requests whose price is unknown."""


class _Event(msgspec.Struct, frozen=True):
    """What counts of an event; everything else is skipped while it is decoded."""

    profile: str = ""
    model: str = ""
    usage: Usage = NO_USAGE
    forked: str = ""
    taken: int = 0
    batch: str = ""


class _Collected(msgspec.Struct, frozen=True):
    """The replies of a service's batch, as its newest event has them. `key`: day of the first one, folder, profile, model."""

    first: float
    """Unix seconds of its first event: the caps of `friday budget` count all of it on that day."""
    at: float
    """Unix seconds of its newest event."""
    key: tuple[str, str, str, str]
    usage: Usage


class _AgentUsage(msgspec.Struct):
    """An agent while its events are read. `counted` is what its requests used so far: the end of a run has the total."""

    profile: str = ""
    model: str = ""
    counted: Usage = NO_USAGE


def used(db: sqlite3.Connection, since: str) -> list[UsedRow]:
    """What was used from the local day `since` on, the days in order. What a fork copied counts in its original only. The demo
    is left out: it costs nothing."""
    found: dict[tuple[str, str, str, str], tuple[Usage, int]] = {}
    batches: dict[str, _Collected] = {}
    requests = list(_requests(db, since, batches))
    collected = ((batch.key, batch.usage) for batch in batches.values())
    for key, usage in (*requests, *collected, *_of_deleted(db, since, batches)):
        if key[0] >= since and usage != NO_USAGE and not is_demo(key[3]):
            total, unpriced = found.get(key, (NO_USAGE, 0))
            if usage.cost_usd is None:
                usage, unpriced = msgspec.structs.replace(usage, cost_usd=0.0), unpriced + usage.billed
            found[key] = total + usage, unpriced
    return [UsedRow(*key, usage, unpriced) for key, (usage, unpriced) in sorted(found.items())]


def _requests(
    db: sqlite3.Connection, since: str, batches: dict[str, _Collected]
) -> Iterator[tuple[tuple[str, str, str, str], Usage]]:
    """((day, folder, profile, model), usage) of each request. `batches` gets those of services by name, which count once."""
    copied = copied_events(db)
    counted = {session for (session,) in db.execute("SELECT DISTINCT session FROM spending")}
    start = datetime.fromisoformat(since).timestamp()
    decode = msgspec.json.Decoder(_Event).decode
    kinds = ", ".join(f"'{kind}'" for kind in _KINDS)
    for session, folder in db.execute("SELECT key, cwd FROM sessions WHERE updated >= ?", (start,)).fetchall():
        agents: dict[str, _AgentUsage] = {}
        for seq, path, at, kind, body in db.execute(
            f"SELECT seq, agent, at, kind, CAST(body AS BLOB) FROM events WHERE session = ? AND kind IN ({kinds}) ORDER BY seq",
            (session,),
        ):
            try:
                event = decode(body)
            except (msgspec.DecodeError, ValueError):
                continue  # a damaged row is ignored
            if event.forked in counted and session not in copied:
                copied[session] = event.taken  # the original was deleted, and is in the ledger
            if kind == "replies_collected":
                known = batches.get(event.batch)
                first = at if known is None else min(at, known.first)
                day = date.fromtimestamp(first).isoformat()
                if known is None or known.at <= at:
                    key = (day, folder, event.profile, event.model)
                    batches[event.batch] = _Collected(first, at, key, event.usage)
                else:
                    batches[event.batch] = msgspec.structs.replace(known, first=first, key=(day, *known.key[1:]))
                continue
            agent = agents.setdefault(path, _AgentUsage())
            agent.profile, agent.model = event.profile or agent.profile, event.model or agent.model
            usage = _left(event.usage, agent.counted) if kind == "agent_finished" else event.usage
            agent.counted += usage
            if seq > copied.get(session, 0) and not usage.collected:
                yield (date.fromtimestamp(at).isoformat(), folder, agent.profile, agent.model), usage


def _left(total: Usage, counted: Usage) -> Usage:
    """What the end of a run adds to what its requests used, such as the reply that a stop cut off."""
    if total == NO_USAGE:
        return NO_USAGE
    fields = ("input", "cache_read", "cache_write", "output", "reasoning")
    more = {name: max(0, getattr(total, name) - getattr(counted, name)) for name in fields}
    if total.cost_usd is None or counted.cost_usd is None:
        return Usage(**more, cost_usd=None if any(more.values()) else 0.0)
    return Usage(**more, cost_usd=max(0.0, round(total.cost_usd - counted.cost_usd, 9)))


def _of_deleted(
    db: sqlite3.Connection, since: str, batches: Mapping[str, object]
) -> Iterator[tuple[tuple[str, str, str, str], Usage]]:
    """The same for sessions that were deleted: of them only day, service, tokens and cost are known. `batches` have an event."""
    for name, day, service, tokens, cost in db.execute(
        "SELECT session, day, service, tokens, cost FROM spending WHERE day >= ?"
        " AND session NOT IN (SELECT id FROM sessions)",
        (since,),
    ):
        if name not in batches:
            yield (day, DELETED, DELETED, f"{service}/?"), Usage(input=tokens, cost_usd=cost)
