"""Queries on sessions and agents: find by prefix, list the agents, statistics by profile and model."""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from friday_cli.core.limits.forecast import forecast
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import AgentFinished, AnyEvent, SessionStarted
from friday_cli.core.protocol.forecast import Forecast
from friday_cli.core.protocol.messages import Usage

from .delegations import past_runs
from .journal import key_of
from .listing import COST, TOKENS, short_ids
from .records import StatRow, StoredAgent


def find(db: sqlite3.Connection, prefix: str) -> str:
    """The id of the session that starts with `prefix`. Raises UsageError if there is not exactly one."""
    wanted = prefix.strip().lower()
    rows: list[tuple[str, str]] = []
    if re.fullmatch(r"[0-9a-f-]{1,36}", wanted):
        rows = db.execute(
            "SELECT id, title FROM sessions WHERE id >= :wanted AND id < :wanted || 'g' ORDER BY updated DESC",
            {"wanted": wanted},
        ).fetchall()
    if len(rows) == 1:
        return rows[0][0]
    if not rows:
        raise UsageError(f"There is no session {prefix!r}.", hint="`friday sessions list --all` shows all sessions.")
    short = short_ids([name for name, _ in rows])
    names = "; ".join(f"{short[name]} {title}".strip() for name, title in rows[:5])
    more = f"; and {len(rows) - 5} more" if len(rows) > 5 else ""
    raise UsageError(f"{prefix!r} matches {len(rows)} sessions: {names}{more}.", hint="Enter more of the id.")


def agents(db: sqlite3.Connection, session: str) -> list[StoredAgent]:
    """The agents of a session in the order of their paths, parents before children."""
    rows = db.execute(
        "SELECT path, parent, profile, task, model, call_id, background, run, status, stop_reason,"
        " input, cache_read, cache_write, output, reasoning, cost, started, finished, active_s"
        " FROM agents WHERE session = ?",
        (key_of(db, session),),
    )
    found = [_agent(row) for row in rows]
    return sorted(found, key=lambda row: [int(n) if n.isdigit() else 0 for n in row.path.split(".")])


def _agent(row: tuple[Any, ...]) -> StoredAgent:
    return StoredAgent(*(*row[:6], bool(row[6]), *row[7:10], Usage(*row[10:16]), *row[16:]))


def stats(db: sqlite3.Connection) -> list[StatRow]:
    """Statistics for each profile and model, the most used first. Events that a fork copied from an existing session
    are counted only in that session."""
    copied = copied_events(db)
    ends: dict[tuple[str, str], list[tuple[bool, float, str]]] = {}
    used: dict[tuple[str, str], dict[tuple[int, str], Usage]] = {}
    for key, seq, path, profile, model, body in db.execute(
        "SELECT e.session, e.seq, e.agent, a.profile, a.model, CAST(e.body AS BLOB) FROM events e INDEXED BY ends"
        " JOIN agents a ON a.session = e.session AND a.path = e.agent WHERE e.kind = 'agent_finished'"
    ):
        event = _event(body) if seq > copied.get(key, 0) else None
        if isinstance(event, AgentFinished):
            ends.setdefault((profile, model), []).append((bool(event.success), event.duration_s, event.stop_reason))
            if event.usage != Usage():
                used.setdefault((profile, model), {})[key, path] = event.usage  # the total of all its runs
    before_fork = _usage_before_fork(db, copied)
    rows = []
    for profile, model, count, tokens, cost in db.execute(
        f"SELECT a.profile, a.model, count(*), sum({TOKENS}), {COST} FROM agents a GROUP BY a.profile, a.model"
    ):
        runs = ends.get((profile, model), [])
        succeeded = sum(success for success, _, _ in runs)
        times = sorted(duration for _, duration, _ in runs)
        before, spent = before_fork.get((profile, model), (0, Usage()))
        if cost is not None:
            cost = max(cost - (spent.cost_usd or 0.0), 0.0)
        rows.append(
            StatRow(
                profile=profile,
                model=model,
                agents=count - before,
                runs=len(runs),
                succeeded=succeeded,
                success_rate=succeeded / len(runs) if runs else None,
                tokens=tokens - spent.billed,
                cost_usd=cost,
                p50_s=_percentile(times, 0.5),
                p95_s=_percentile(times, 0.95),
                stop_reasons=dict(Counter(reason for _, _, reason in runs).most_common()),
                cache_share=sum(
                    (usage for usage in used.get((profile, model), {}).values() if usage.cached), Usage()
                ).cache_share,
                forecast=_forecast(db, profile, model),
            )
        )
    return sorted((row for row in rows if row.agents or row.runs), key=lambda row: (-row.runs, row.profile, row.model))


def _forecast(db: sqlite3.Connection, profile: str, model: str) -> Forecast | None:
    found = forecast(profile, model, past_runs(db, profile, model), None)
    return found if found.runs else None


def copied_events(db: sqlite3.Connection) -> dict[int, int]:
    """For each fork of an existing session: its key, and the number of the last event that it copied."""
    rows = db.execute(
        "SELECT s.key, CAST(e.body AS BLOB) FROM sessions s JOIN events e ON e.session = s.key AND e.seq = 1"
        " WHERE e.kind = 'session_started' AND instr(e.body, '\"forked\"')"
    ).fetchall()
    found = [(key, event) for key, body in rows if isinstance(event := _event(body), SessionStarted) and event.forked]
    keys: dict[str, int] = dict(db.execute("SELECT id, key FROM sessions").fetchall()) if found else {}
    return {key: e.taken or _common_events(db, key, keys[e.forked]) for key, e in found if e.forked in keys}


def _common_events(db: sqlite3.Connection, fork: int, other: int) -> int:
    """The number of the last event that a fork has in common with another session, found by equal times. For the forks
    of the first versions, whose log does not contain this number."""
    (number,) = db.execute(
        "SELECT coalesce(min(f.seq), (SELECT max(seq) + 1 FROM events WHERE session = :fork)) FROM events f"
        " LEFT JOIN events o ON o.session = :other AND o.seq = f.seq AND o.agent = f.agent AND o.kind = f.kind"
        " AND o.at = f.at WHERE f.session = :fork AND f.seq > 1 AND o.seq IS NULL",
        {"fork": fork, "other": other},
    ).fetchone()
    return int(number) - 1


def _usage_before_fork(db: sqlite3.Connection, copied: Mapping[int, int]) -> dict[tuple[str, str], tuple[int, Usage]]:
    """By profile and model: the agents of forks that ran only before the fork, and the usage before the fork."""
    out: dict[tuple[str, str], tuple[int, Usage]] = {}
    for key, last in copied.items():
        spent: dict[str, Usage] = {}
        for path, body in db.execute(
            "SELECT agent, CAST(body AS BLOB) FROM events WHERE session = ? AND seq <= ? AND kind IN ('agent_started',"
            " 'agent_finished', 'turn_finished', 'attempt_failed', 'compacted', 'intent_stated', 'verdict') ORDER BY seq",
            (key, last),
        ):
            event = _event(body)
            usage = getattr(event, "usage", Usage())
            if isinstance(event, AgentFinished) and usage != Usage():  # the total of all its runs
                spent[path] = usage
            else:
                spent[path] = spent.get(path, Usage()) + usage
        later = "SELECT DISTINCT agent FROM events WHERE session = ? AND seq > ? AND kind = 'agent_started'"
        continued = {path for (path,) in db.execute(later, (key, last))}
        for path, usage in spent.items():
            row = db.execute("SELECT profile, model FROM agents WHERE session = ? AND path = ?", (key, path)).fetchone()
            count, total = out.get(row, (0, Usage()))
            out[row] = count + (path not in continued), total + usage
    return out


def _event(body: bytes) -> AnyEvent | None:
    from friday_cli.core.protocol.decode import decode_event

    try:
        event: AnyEvent = decode_event(body)
    except ValueError:
        return None  # a damaged row is ignored
    return event


def _percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value such that a `share` of all values are not larger; 0 without values."""
    if not ordered:
        return 0.0
    return ordered[math.ceil(len(ordered) * share) - 1]
