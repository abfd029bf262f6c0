"""The requests of deferred batches in the store: what waits, what was sent, and what came back. Money is written before it is spent.

A request has a row before it is sent, which holds what it can cost. A reply, what it cost and the end of the row are one transaction: it
is charged to its batch once, whoever reads it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Literal

import msgspec

from friday_cli.core.protocol.messages import NO_USAGE, Usage

from .caps import Cap
from .store import MapStore

State = Literal["sent", "done", "open"]
"""`sent`: it is at the service, or was about to be; `open`: it is to be sent again."""


class StoredRequest(msgspec.Struct, frozen=True):
    """A request. `sent` is the local id of the batch that it is in. `tries` counts how often it was sent. `reply` is JSON."""

    name: str
    custom_id: str
    state: State
    sent: str = ""
    tries: int = 0
    reply: str = ""
    error: str = ""


class SentBatch(msgspec.Struct, frozen=True):
    """A batch of requests. `remote` is its id at the service, "" before that is known. `created` and `expires` are Unix seconds."""

    local: str
    batch: str
    provider: str
    remote: str = ""
    files: str = ""
    created: float = 0.0
    expires: float = 0.0
    count: int = 0


class Collected(msgspec.Struct, frozen=True):
    """What came back for a request: a reply with what it used, or an error after which it is to be sent again or
    not (`state` `done` without a reply)."""

    custom_id: str
    state: State
    reply: str = ""
    error: str = ""
    usage: Usage = NO_USAGE


class RequestStore:
    """The requests of a folder's deferred batches. All methods raise StoreError."""

    def __init__(self, store: MapStore) -> None:
        self._db, self._folder = store.db, store.folder

    async def find(self, name: str) -> StoredRequest | None:
        """The request with a name."""
        query = "SELECT name, custom_id, state, sent, tries, reply, error FROM requests WHERE folder = ? AND name = ?"
        found = await self._db.rows(query, self._folder, name)
        return StoredRequest(*found[0]) if found else None

    async def free(self, batch: str, cap: Cap) -> Cap:
        """What is left of the cap of a batch, without what its requests at the service hold."""

        def work(db: sqlite3.Connection) -> Cap:
            spent, tokens = db.execute("SELECT spent, tokens FROM batches WHERE id = ?", (batch,)).fetchone()
            held = "SELECT coalesce(sum(held), 0), coalesce(sum(held_tokens), 0) FROM requests WHERE batch = ? AND state = 'sent'"
            cost, more = db.execute(held, (batch,)).fetchone()
            return cap.left(spent + cost, tokens + more)

        return await self._db.submit(work)

    async def write(self, sent: SentBatch, requests: Sequence[tuple[str, str, Cap]]) -> None:
        """Record that requests are about to be sent: their names, their `custom_id`, and what they hold."""
        now = time.time()

        def work(db: sqlite3.Connection) -> None:
            values = (sent.local, self._folder, sent.batch, sent.provider, sent.created, len(requests))
            db.execute("INSERT INTO sent VALUES (?, ?, ?, ?, '', '', ?, 0, ?, 1)", values)
            db.executemany(
                "INSERT INTO requests VALUES (?, ?, ?, ?, 'sent', ?, 1, ?, ?, '', '', 0, ?, '') ON CONFLICT(folder, name) DO UPDATE SET"
                " batch = excluded.batch, custom_id = excluded.custom_id, state = 'sent', sent = excluded.sent, tries = tries + 1,"
                " held = excluded.held, held_tokens = excluded.held_tokens, error = '', updated = excluded.updated",
                (
                    (self._folder, name, sent.batch, custom, sent.local, held.cost or 0.0, held.tokens or 0, now)
                    for name, custom, held in requests
                ),
            )

        await self._db.submit(work)

    async def update(self, local: str, *, remote: str = "", files: str = "", expires: float = 0.0) -> None:
        """Record what the service said of a batch; an empty value keeps what is there."""
        query = (
            "UPDATE sent SET remote = CASE ? WHEN '' THEN remote ELSE ? END, files = CASE ? WHEN '' THEN files ELSE ? END,"
            " expires = max(expires, ?) WHERE local = ?"
        )
        await self._db.change(query, remote, remote, files, files, expires, local)

    async def open_batches(self, batch: str) -> list[SentBatch]:
        """The batches at the service that are not collected."""
        query = (
            "SELECT local, batch, provider, remote, files, created, expires, count FROM sent WHERE folder = ? AND batch = ?"
            " AND open ORDER BY created"
        )
        return [SentBatch(*row) for row in await self._db.rows(query, self._folder, batch)]

    async def known(self, remotes: Sequence[str]) -> set[str]:
        """Those of the ids of the service that are in the store."""
        marks = ", ".join("?" * len(remotes))
        query = f"SELECT remote FROM sent WHERE remote IN ({marks})"
        return {row[0] for row in await self._db.rows(query, *remotes)}

    async def names(self, local: str) -> dict[str, str]:
        """The names of the requests of a batch that have no end, by their `custom_id`."""
        query = "SELECT custom_id, name FROM requests WHERE sent = ? AND state = 'sent'"
        return dict(await self._db.rows(query, local))

    async def collect(self, local: str, found: Sequence[Collected]) -> None:
        """Store results and charge them to their batch. A result that is stored already is ignored."""
        now = time.time()

        def work(db: sqlite3.Connection) -> None:
            for one in found:
                cost, usage = one.usage.cost_usd or 0.0, msgspec.json.encode(one.usage).decode()
                values = (one.state, one.reply, one.error, cost, usage, now, local, one.custom_id)
                ended = db.execute(
                    "UPDATE requests SET state = ?, reply = ?, error = ?, cost = ?, usage = ?, held = 0, held_tokens = 0, updated = ?"
                    " WHERE sent = ? AND custom_id = ? AND state = 'sent'",
                    values,
                )
                if ended.rowcount:
                    charged = "UPDATE batches SET spent = spent + ?, tokens = tokens + ? WHERE id = (SELECT batch FROM sent WHERE local = ?)"
                    db.execute(charged, (cost, one.usage.billed, local))

        await self._db.submit(work)

    async def used(self, local: str) -> Usage:
        """The usage of all stored replies of a batch, with its cost in US dollars."""
        query = "SELECT usage, cost FROM requests WHERE sent = ? AND state = 'done' AND usage != ''"
        rows = await self._db.rows(query, local)
        decode = msgspec.json.Decoder(Usage).decode
        return sum((decode(text) if text else Usage(cost_usd=cost) for text, cost in rows), NO_USAGE)

    async def close(self, local: str) -> None:
        """A batch is collected, or it never was at the service: its requests without an end are to be sent again."""

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE requests SET state = 'open', held = 0, held_tokens = 0 WHERE sent = ? AND state = 'sent'",
                (local,),
            )
            db.execute("UPDATE sent SET open = 0 WHERE local = ?", (local,))

        await self._db.submit(work)
