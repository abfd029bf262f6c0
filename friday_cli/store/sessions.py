"""Questions about sessions and agents, answered from their rows."""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import Any

from friday_cli.core.errors import UsageError
from friday_cli.core.events import AgentFinished
from friday_cli.core.messages import Usage

from .journal import key_of
from .rows import AgentRow, SessionRow, StatRow

_TOKENS = "a.input + a.cache_write + a.output"
_COST = "CASE WHEN count(a.cost) = count(*) THEN sum(a.cost) END"


def list_sessions(db: sqlite3.Connection, cwd: str | None, limit: int | None) -> list[SessionRow]:
    """Sessions in which something ran, the newest first."""
    rows = db.execute(
        "SELECT s.id, s.cwd, s.title, s.model, s.created, s.updated,"
        " max(iif(a.depth = 0, a.status, '')), max(iif(a.depth = 0, a.stop_reason, '')), sum(a.depth > 0),"
        f" sum({_TOKENS}), {_COST} FROM sessions s JOIN agents a ON a.session = s.key"
        " WHERE ?1 IS NULL OR s.cwd = ?1 GROUP BY s.key ORDER BY s.updated DESC, s.key DESC LIMIT ?2",
        (cwd, -1 if limit is None else limit),
    )
    return [SessionRow(*row) for row in rows]


def find(db: sqlite3.Connection, prefix: str, cwd: str | None) -> str:
    """The id of the one session that begins with `prefix`."""
    wanted = prefix.strip().lower()
    rows: list[tuple[str, str]] = []
    if re.fullmatch(r"[0-9a-f-]{1,36}", wanted):
        rows = db.execute(
            "SELECT id, title FROM sessions WHERE id >= ?1 AND id < ?1 || 'g' AND (?2 IS NULL OR cwd = ?2)"
            " ORDER BY updated DESC",
            (wanted, cwd),
        ).fetchall()
    if len(rows) == 1:
        return rows[0][0]
    if not rows:
        raise UsageError(f"There is no session {prefix!r}.", hint="`friday sessions list --all` shows them.")
    names = "; ".join(f"{_short(name, rows)} {title}".strip() for name, title in rows[:5])
    more = f"; and {len(rows) - 5} more" if len(rows) > 5 else ""
    raise UsageError(f"{prefix!r} fits {len(rows)} sessions: {names}{more}.", hint="Name more of the id.")


def _short(name: str, rows: Sequence[tuple[str, str]]) -> str:
    """As much of an id as tells it from the others."""
    size = 8
    while size < len(name) and sum(other.startswith(name[:size]) for other, _ in rows) > 1:
        size += 4
    return name[:size]


def agents(db: sqlite3.Connection, session: str) -> list[AgentRow]:
    """The agents of a session, parents before their children, in the order of their paths."""
    rows = db.execute(
        "SELECT path, parent, profile, task, model, call_id, background, run, status, stop_reason,"
        " input, cache_read, cache_write, output, reasoning, cost, started, finished, active_s"
        " FROM agents WHERE session = ?",
        (key_of(db, session),),
    )
    found = [_agent(row) for row in rows]
    return sorted(found, key=lambda row: [int(n) if n.isdigit() else 0 for n in row.path.split(".")])


def _agent(row: tuple[Any, ...]) -> AgentRow:
    path, parent, profile, task, model, call_id, background, run, status, stop_reason = row[:10]
    started, finished, active_s = row[16:]
    return AgentRow(
        path, parent, profile, task, model, call_id, bool(background), run, status, stop_reason, Usage(*row[10:16]),
        started, finished, active_s,
    )  # fmt: skip


def stats(db: sqlite3.Connection) -> list[StatRow]:
    """What every profile did with every model, the most used first."""
    ends: dict[tuple[str, str], list[tuple[bool, float, str]]] = {}
    for profile, model, body in db.execute(
        "SELECT a.profile, a.model, CAST(e.body AS BLOB) FROM events e INDEXED BY ends"
        " JOIN agents a ON a.session = e.session AND a.path = e.agent WHERE e.kind = 'agent_finished'"
    ):
        event = _finished(body)
        if event is not None:
            ends.setdefault((profile, model), []).append((event.success, event.duration_s, event.stop_reason))
    rows = []
    for profile, model, count, tokens, cost in db.execute(
        f"SELECT a.profile, a.model, count(*), sum({_TOKENS}), {_COST} FROM agents a GROUP BY a.profile, a.model"
    ):
        mine = ends.get((profile, model), [])
        well = sum(success for success, _, _ in mine)
        times = sorted(duration for _, duration, _ in mine)
        why = dict(Counter(reason for _, _, reason in mine).most_common())
        rows.append(
            StatRow(
                profile,
                model,
                count,
                len(mine),
                well,
                well / len(mine) if mine else None,
                tokens,
                cost,
                _rank(times, 0.5),
                _rank(times, 0.95),
                why,
            )
        )
    return sorted(rows, key=lambda row: (-row.runs, row.profile, row.model))


def _finished(body: bytes) -> AgentFinished | None:
    from friday_cli.core.decoding import decode_event

    try:
        event: Any = decode_event(body)
    except ValueError:
        return None  # a damaged row counts for nothing
    return event if isinstance(event, AgentFinished) else None


def _rank(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed; 0 without values."""
    if not ordered:
        return 0.0
    return ordered[math.ceil(len(ordered) * share) - 1]
