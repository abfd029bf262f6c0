"""The journal of a session's events, and the rows that are derived from them in the same transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, get_args

import msgspec

from friday_cli.core.eventlog.collecting import collecting_later
from friday_cli.core.protocol import events
from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.errors import StoreError
from friday_cli.core.protocol.events import AnyEvent, Envelope, encode, kind
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.run_result import ENDED
from friday_cli.core.text.sanitize import map_strings, sanitize_line
from friday_cli.core.text.session_title import session_title

from . import delegations
from .ledger import SessionLedger
from .prefixes import StoredPrefixes, whole_body
from .spending import settle_dead
from .writer import StoreReader, StoreWriter

AddUsage = Callable[[sqlite3.Connection, int, Envelope], None]
"""Gets the key of a session's row and an event, before the row of its agent has that."""


class SessionJournal:
    """Implements `core.eventlog.log.Journal` for one session. After a failed write all later writes fail, so that the
    stored events have no gaps. What its agents use is added to the `ledger`, for a session whose events are new."""

    def __init__(
        self, session: str, *, writer: StoreWriter, reader: StoreReader, ledger: SessionLedger | None = None
    ) -> None:
        self.session, self._ledger = session, ledger
        self._writer = writer
        self._reader = reader
        self._failure: StoreError | None = None
        self._prefixes = StoredPrefixes()
        self._unstored: tuple[int, ...] = ()
        """The holds that ended with events whose write failed."""

    def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        """Store `envelopes` in order. The future completes when they survive a crash of the process; with `durable`
        they and all earlier ones also survive a power failure. It fails with StoreError."""
        batch = tuple(envelopes)
        ended = (*self._unstored, *(self._ledger.take_ended(batch) if self._ledger is not None else ()))
        self._unstored = ()

        def failed(error: StoreError) -> None:
            self._failure, self._unstored = self._failure or error, ended

        return self._writer.submit(lambda db: self._write(db, batch, ended), durable=durable, failed=failed)

    def append_again(self, envelopes: Sequence[Envelope]) -> asyncio.Future[None]:
        """As a durable `append` after one that failed, of all that is not stored since then."""
        self._failure, self._prefixes = None, StoredPrefixes()
        return self.append(envelopes, durable=True)

    async def read(self, after: int) -> list[Envelope]:
        """All envelopes with a number greater than `after`, in order."""
        return await self._reader.read(lambda db: read_events(db, self.session, after=after))

    def _write(self, db: sqlite3.Connection, envelopes: Sequence[Envelope], ended: Sequence[int]) -> None:
        if self._failure is not None:
            raise self._failure
        ledger = self._ledger
        add_usage = ledger.add if ledger is not None else None
        append_events(db, key_of(db, self.session), envelopes, add_usage=add_usage, prefixes=self._prefixes)
        if ledger is not None:
            ledger.stored(db, ended)


# ---- events to rows ---------------------------------------------------------------------------------------------


def key_of(db: sqlite3.Connection, session: str) -> int:
    """The row key of a session. Raises StoreError if it does not exist."""
    row = db.execute("SELECT key FROM sessions WHERE id = ?", (session,)).fetchone()
    if row is None:
        raise StoreError(f"Session {session} no longer exists.")
    return int(row[0])


def remove(db: sqlite3.Connection, session: str) -> None:
    """Remove a session with its agents and events. Raises StoreError if it does not exist."""
    key = key_of(db, session)
    db.execute("PRAGMA secure_delete = ON")  # overwrite the deleted data
    settle_dead(db, session)
    for table in ("events", "agents"):
        db.execute(f"DELETE FROM {table} WHERE session = ?", (key,))
    db.execute("DELETE FROM sessions WHERE key = ?", (key,))


def append_events(
    db: sqlite3.Connection,
    key: int,
    envelopes: Sequence[Envelope],
    *,
    add_usage: AddUsage | None = None,
    prefixes: StoredPrefixes | None = None,
) -> None:
    """Insert events and update the rows of the agents and the session from them. `add_usage` adds what each says that its agent
    used to the ledger: for new events, not for copies. `prefixes`: those that the session has already."""
    if not envelopes:
        return
    prefixes = prefixes or StoredPrefixes()
    db.executemany(
        "INSERT INTO events(session, seq, agent, at, kind, body) VALUES (?, ?, ?, ?, ?, ?)",
        [(key, e.seq, e.agent, e.at, kind(e.event), _stored(db, key, e, prefixes)) for e in envelopes],
    )
    project(db, key, envelopes, add_usage=add_usage)
    db.execute("UPDATE sessions SET updated = ? WHERE key = ?", (envelopes[-1].at, key))


def project(
    db: sqlite3.Connection, key: int, envelopes: Sequence[Envelope], *, add_usage: AddUsage | None = None
) -> None:
    """Update the rows of the agents and the session from events that are already stored. `add_usage` as in `append_events`."""
    model = "", ""
    for envelope in envelopes:
        event = envelope.event
        if add_usage is not None:
            add_usage(db, key, envelope)
        if isinstance(event, (events.AgentStarted, events.Prefix)):
            before, model = model, (envelope.agent, event.model)
            if isinstance(event, events.Prefix) and model == before:
                continue  # the row has it
        update = _PROJECTIONS.get(type(event))
        if update is not None:
            update(db, key, envelope, event)


def _stored(db: sqlite3.Connection, key: int, envelope: Envelope, prefixes: StoredPrefixes) -> str:
    event = envelope.event
    if not isinstance(event, events.Prefix):
        return _body(event)
    return prefixes.known(event) or prefixes.body(db, key, envelope.seq or 0, event, _body(event))


def _body(event: AnyEvent) -> str:
    try:
        return encode(event).decode()
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode
        return encode(encodable(msgspec.to_builtins(event))).decode()


def encodable(value: Any) -> Any:
    """`value` with what UTF-8 cannot encode (lone surrogates) replaced in all its strings."""
    return map_strings(value, lambda text: text.encode("utf-8", "replace").decode())


def _usage(usage: Usage) -> tuple[int, int, int, int, int, float | None]:
    return usage.input, usage.cache_read, usage.cache_write, usage.output, usage.reasoning, usage.cost_usd


def _agent_started(db: sqlite3.Connection, key: int, envelope: Envelope, event: events.AgentStarted) -> None:
    path = envelope.agent
    db.execute(
        "INSERT INTO agents(session, path, parent, depth, profile, task, model, call_id, background, run, status,"
        " stop_reason, input, cache_read, cache_write, output, reasoning, cost, started, finished, active_s)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, 0, 0, 0, 0, 0.0, ?, NULL, 0.0)"
        " ON CONFLICT(session, path) DO UPDATE SET profile = excluded.profile, task = excluded.task,"
        " model = excluded.model, call_id = excluded.call_id, background = excluded.background, run = excluded.run,"
        " status = excluded.status, stop_reason = '', finished = NULL",
        (
            key,
            path,
            event.parent,
            depth_of(path),
            event.profile,
            sanitize_line(event.task, 400),
            event.model,
            event.call_id,
            event.background,
            event.run,
            "queued" if event.parent else "running",
            envelope.at,
        ),
    )
    delegations.started(db, envelope, event)
    if depth_of(path) == 0:
        db.execute(
            "UPDATE sessions SET model = ?, title = iif(title = '', ?, title) WHERE key = ?",
            (event.model, session_title(event.task), key),
        )


def _agent_finished(db: sqlite3.Connection, key: int, envelope: Envelope, event: events.AgentFinished) -> None:
    columns = ""
    values: tuple[object, ...] = ()
    if event.usage != Usage():  # the total of all its runs
        columns = ", input = ?, cache_read = ?, cache_write = ?, output = ?, reasoning = ?, cost = ?"
        values = _usage(event.usage)
    db.execute(
        f"UPDATE agents SET status = ?, stop_reason = ?, finished = ?, active_s = active_s + ?{columns}"
        " WHERE session = ? AND path = ?",
        (event.status, event.stop_reason, envelope.at, event.duration_s, *values, key, envelope.agent),
    )
    delegations.finished(db, key, envelope.agent, event)


_WithUsage = (
    events.TurnFinished
    | events.ToolFinished
    | events.AttemptFailed
    | events.Compacted
    | events.CacheRefreshed
    | events.IntentStated
    | events.Verdict
)


def _add_usage(db: sqlite3.Connection, key: int, envelope: Envelope, event: _WithUsage) -> None:
    if event.usage != Usage():
        db.execute(
            "UPDATE agents SET input = input + ?, cache_read = cache_read + ?, cache_write = cache_write + ?,"
            " output = output + ?, reasoning = reasoning + ?, cost = cost + ? WHERE session = ? AND path = ?",
            (*_usage(event.usage), key, envelope.agent),
        )


def _status_changed(db: sqlite3.Connection, key: int, envelope: Envelope, event: events.StatusChanged) -> None:
    if event.status not in ENDED:
        db.execute(
            "UPDATE agents SET status = ? WHERE session = ? AND path = ? AND finished IS NULL",
            (event.status, key, envelope.agent),
        )


def _message_added(db: sqlite3.Connection, key: int, envelope: Envelope, event: events.MessageAdded) -> None:
    message = event.message
    if message.role == "user" and message.source == "person" and depth_of(envelope.agent) == 0:
        db.execute("UPDATE sessions SET title = ? WHERE key = ? AND title = ''", (session_title(message.text), key))


_PROJECTIONS: dict[type, Callable[[sqlite3.Connection, int, Envelope, Any], object]] = {
    events.AgentStarted: _agent_started,
    events.AgentFinished: _agent_finished,
    **dict.fromkeys(get_args(_WithUsage), _add_usage),
    events.StatusChanged: _status_changed,
    events.Detached: lambda db, key, envelope, event: db.execute(
        "UPDATE agents SET background = 1 WHERE session = ? AND path = ?", (key, envelope.agent)
    ),
    events.Prefix: lambda db, key, envelope, event: db.execute(
        "UPDATE agents SET model = ? WHERE session = ? AND path = ?", (event.model, key, envelope.agent)
    ),
    events.MessageAdded: _message_added,
}


# ---- rows to events ---------------------------------------------------------------------------------------------


def read_events(db: sqlite3.Connection, session: str, *, after: int = 0, agent: str | None = None) -> list[Envelope]:
    """The events of a session after number `after`. An event that cannot be decoded is replaced by a notice."""
    where = "seq > ?"
    values: list[object] = [after]
    if agent is not None:
        where += " AND agent = ?"
        values.append(agent)
    return _select(db, session, f"{where} ORDER BY seq", values)


_LATER = ("message_added", "tool_started", "tool_finished", "turn_started", "prefix")
"""Kinds of most events, which only a whole transcript needs."""


def read_end(db: sqlite3.Connection, session: str, most: int) -> list[Envelope]:
    """What shows the end of a long session: its newest `most` events, and those before them that say what its agents do. Empty
    for a session that is not much longer, or that was rewound, because its end is not what happened last."""
    key = key_of(db, session)
    newest = db.execute("SELECT max(seq) FROM events WHERE session = ?", (key,)).fetchone()[0] or 0
    if newest < 4 * most:
        return []
    where = f"(seq > ? OR kind NOT IN ({', '.join('?' * len(_LATER))})) ORDER BY seq"
    found = _select(db, session, where, [newest - most, *_LATER])
    return [] if any(isinstance(envelope.event, events.Rewound) for envelope in found) else found


def newest_events(db: sqlite3.Connection, session: str, kinds: Sequence[str], most: int) -> list[Envelope]:
    """The newest events of some kinds in a session, at most `most`, in order. See `read_events`."""
    where = f"kind IN ({', '.join('?' * len(kinds))}) ORDER BY seq DESC LIMIT ?"
    return _select(db, session, where, [*kinds, most])[::-1]


def _select(db: sqlite3.Connection, session: str, where: str, values: Sequence[object]) -> list[Envelope]:
    from friday_cli.core.protocol.decode import decode_event

    query = f"SELECT seq, at, agent, kind, CAST(body AS BLOB) FROM events WHERE session = ? AND {where}"
    key = key_of(db, session)

    def decode(body: bytes) -> AnyEvent:
        event: AnyEvent = decode_event(whole_body(db, key, body))
        return event

    with collecting_later():
        return [
            Envelope(seq, at, path, _event(decode if what == "prefix" else decode_event, seq, what, body))
            for seq, at, path, what, body in db.execute(query, [key, *values])
        ]


def _event(decode: Callable[[bytes], AnyEvent], seq: int, what: str, body: bytes) -> AnyEvent:
    try:
        return decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return events.Notice(
            f"Event {seq} ({sanitize_line(str(what), 40)}) of this session is damaged and was left out.", "warning"
        )
