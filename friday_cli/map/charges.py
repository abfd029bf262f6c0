"""How tries of items end in the store, and what they cost."""

from __future__ import annotations

import sqlite3
import time
from typing import Literal

import msgspec

State = Literal["new", "running", "done", "failed", "waiting"]
SESSIONS = 20
"""Sessions of a batch from which its usual reply is known."""


class ItemRow(msgspec.Struct, frozen=True):
    """The work of an item. `session` and `agent` are of its newest try; `reserved` and `reserved_tokens` are the cap of a running one.
    `cost` and `tokens` are those of all tries, `estimated` the part of `cost` that no service counted. `charged`: its batch pays when it ends; what a service's
    batch answered was paid when it was collected. `result` is what the agent returned, `error` why it is not done."""

    key: str
    state: State
    batch: str = ""
    session: str = ""
    agent: str = ""
    attempts: int = 0
    reserved: float = 0.0
    cost: float = 0.0
    tokens: int = 0
    active_s: float = 0.0
    result: str = ""
    error: str = ""
    receipt: str = ""
    branch: str = ""
    estimated: float = 0.0
    reserved_tokens: int = 0
    charged: bool = True


def started(db: sqlite3.Connection, folder: str, key: str, agent: str) -> None:
    """Record which agent, as `SESSION:PATH`, works on an item that was claimed, where it has a session of its own."""
    named = (agent, folder, key)
    db.execute("UPDATE items SET agent = ? WHERE folder = ? AND key = ? AND state = 'running'", named)


def finish(db: sqlite3.Connection, folder: str, row: ItemRow, batch: str) -> None:
    """See `MapStore.finish`."""
    ended = db.execute(
        "UPDATE items SET state = ?, agent = ?, reserved = 0, reserved_tokens = 0, cost = cost + ?, tokens = tokens + ?, active_s = ?,"
        " result = ?, error = ?, receipt = ?, branch = ?, updated = ?"
        " WHERE folder = ? AND key = ? AND session = ? AND state = 'running'",
        (
            row.state,
            row.agent,
            row.cost,
            row.tokens,
            row.active_s,
            row.result,
            row.error,
            row.receipt,
            row.branch,
            time.time(),
            folder,
            row.key,
            row.session,
        ),
    )
    if not ended.rowcount:
        return  # another process has done it
    if not row.charged:
        return
    db.execute("UPDATE batches SET spent = spent + ?, tokens = tokens + ? WHERE id = ?", (row.cost, row.tokens, batch))
    for name in (row.key, batch) if row.estimated else ():
        db.execute(
            "INSERT INTO estimates VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET cost = cost + excluded.cost",
            (folder, name, row.estimated),
        )


def reopen(db: sqlite3.Connection, folder: str, batch: str) -> None:
    """See `MapStore.reopen`."""
    again = "UPDATE batches SET state = 'open', approved = 0, approved_tokens = 0, spent = 0, tokens = 0 WHERE id = ? AND state = 'ended'"
    if db.execute(again, (batch,)).rowcount:
        db.execute("DELETE FROM estimates WHERE folder = ? AND name = ?", (folder, batch))


def usual(db: sqlite3.Connection, folder: str, batch: str) -> tuple[list[str], tuple[int, float] | None]:
    """See `MapStore.usual`."""
    mine, named = "FROM items WHERE folder = ? AND batch = ?", (folder, batch)
    sessions = f"SELECT session {mine} GROUP BY session ORDER BY max(updated) DESC LIMIT {SESSIONS}"
    each = f"SELECT avg(tokens / attempts), avg(cost / attempts) {mine} AND state = 'done' AND attempts"
    tokens, cost = db.execute(each, named).fetchone()
    return [row[0] for row in db.execute(sessions, named)], None if cost is None else (int(tokens), cost)
