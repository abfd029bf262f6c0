"""One row for each delegation, which forecasts are made from. It has no text of the session and stays when that is deleted.

A row is named by the time and the path of its start, so that a fork, whose log is a copy, adds none. A resumed run belongs to
no row: its cost depends on the history that it resumes.
"""

from __future__ import annotations

import sqlite3

from friday_cli.core.limits.forecast import PastRun
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Envelope
from friday_cli.core.protocol.messages import Usage

NEWEST = 200
"""Runs of a profile, and of the other profiles on its model, that a forecast is made from."""


def create(db: sqlite3.Connection) -> None:
    """Create the table, with a row for each delegation that the events of the file have."""
    db.execute(
        "CREATE TABLE delegations(started REAL NOT NULL, path TEXT NOT NULL, profile TEXT NOT NULL, model TEXT NOT NULL,"
        " size INTEGER NOT NULL, status TEXT NOT NULL, stop_reason TEXT NOT NULL, tokens INTEGER NOT NULL, cost REAL,"
        " active_s REAL NOT NULL)"
    )
    db.execute("CREATE UNIQUE INDEX delegations_by_start ON delegations(started, path)")
    db.execute("CREATE INDEX delegations_by_model ON delegations(model, profile, started)")
    events = db.execute(
        "SELECT session, at, agent, CAST(body AS BLOB) FROM events WHERE kind IN ('agent_started', 'agent_finished')"
        " AND instr(agent, '.') ORDER BY session, seq"
    )
    row = events.fetchone()
    if row is None:
        return
    from friday_cli.core.protocol.decode import decode_event

    while row is not None:
        key, at, path, body = row
        try:
            event = decode_event(body)
        except ValueError:
            event = None  # a damaged row is ignored
        if isinstance(event, AgentStarted):
            started(db, Envelope(0, at, path, event), event)
        elif isinstance(event, AgentFinished):
            finished(db, key, path, event)
        row = events.fetchone()


def started(db: sqlite3.Connection, envelope: Envelope, event: AgentStarted) -> None:
    """Add the row of a delegation, without what it used."""
    if event.run == 1 and event.parent:
        db.execute(
            "INSERT OR IGNORE INTO delegations VALUES (?, ?, ?, ?, ?, '', '', 0, NULL, 0.0)",
            (envelope.at, envelope.agent, event.profile, event.model, len(event.task)),
        )


def finished(db: sqlite3.Connection, key: int, path: str, event: AgentFinished) -> None:
    """Add to the row how the delegation ended and what it used with its descendants. A fork that was taken during the run
    ends it as interrupted; the real end replaces that."""
    if event.run == 1:
        usage = event.tree_usage if event.tree_usage != Usage() else event.usage
        db.execute(
            "UPDATE delegations SET status = ?, stop_reason = ?, tokens = ?, cost = ?, active_s = ? WHERE path = ?"
            " AND started = (SELECT started FROM agents WHERE session = ? AND path = ?) AND status IN ('', 'interrupted')",
            (event.status, event.stop_reason, usage.billed, usage.cost_usd, event.duration_s, path, key, path),
        )


def past_runs(db: sqlite3.Connection, profile: str, model: str) -> list[PastRun]:
    """The newest delegations on a model: those to the profile and those to others. Without those that were ended from
    outside or sent nothing to the model."""
    found: list[PastRun] = []
    for which in ("=", "!="):
        rows = db.execute(
            f"SELECT profile, size, tokens, cost, active_s FROM delegations WHERE model = ? AND profile {which} ?"
            " AND status IN ('completed', 'failed', 'timeout') AND tokens > 0 ORDER BY started DESC LIMIT ?",
            (model, profile, NEWEST),
        )
        found += [PastRun(*row) for row in rows]
    return found
