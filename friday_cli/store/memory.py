"""Notes that outlast a session, with full-text search. Notes of sub-agents are visible to others after review."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Sequence
from typing import Literal

import msgspec

from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.text.known_keys import mask_keys

from .journal import encodable
from .migrations import has_search
from .records import MemoryItem
from .writer import StoreReader, StoreWriter

_IN_SCOPE = "(m.scope = 'user' OR m.scope = 'project' AND m.owner = :project)"
_VISIBLE = f"{_IN_SCOPE} AND (m.promoted OR m.agent = :agent)"
_COLUMNS = "m.id, m.text, m.scope, m.tags, m.agent, m.at, m.owner, m.promoted"
_NEWEST = "ORDER BY m.at DESC, m.id DESC"


class StoredMemory:
    """The notes of one project and of the user, as the agents of `session` see them. A note of the root agent for the
    project is visible to all agents. A note of a sub-agent is visible to others after a person promoted it, or at once if
    notes are `shared`. A note for the user is visible to others, in every project, only after a person promoted it."""

    def __init__(
        self, project: str, session: str, *, writer: StoreWriter, reader: StoreReader, shared: bool = False
    ) -> None:
        self._project = project
        self._session = session
        self._writer = writer
        self._reader = reader
        self._shared = shared

    async def save(
        self, text: str, *, scope: Literal["project", "user"], tags: Sequence[str], agent: str
    ) -> MemoryItem:
        """Save a note of the agent with this path or id, and return it. Raises StoreError."""
        owner = self._project if scope == "project" else ""
        who = self._agent_id(agent)
        promoted = scope == "project" and (self._shared or depth_of(who) == 0)
        encoded = msgspec.json.encode(encodable(list(tags))).decode()
        values = (scope, owner, encodable(mask_keys(text)), encoded, who, time.time(), promoted)
        return await self._writer.submit(lambda db: _save(db, values))

    async def load(self, query: str, *, tags: Sequence[str], limit: int, agent: str = "a") -> list[MemoryItem]:
        """At most `limit` notes that `agent` (a path or id) can see, with all `tags`, that match `query`; the best
        match first, or the newest first if `query` is empty. Raises StoreError."""
        wanted = {tag.casefold() for tag in tags}
        words = re.findall(r"\w+", query.casefold())
        scope = {"project": self._project, "agent": self._agent_id(agent)}
        items = await self._reader.read(lambda db: _search(db, scope, words))
        return [i for i in items if wanted <= {tag.casefold() for tag in i.tags}][:limit]

    def _agent_id(self, agent: str) -> str:
        return agent if ":" in agent else f"{self._session}:{agent}"


class StoredNotes:
    """All notes of the store, for the user. Every method may raise StoreError."""

    def __init__(self, *, writer: StoreWriter, reader: StoreReader) -> None:
        self._writer = writer
        self._reader = reader

    def for_session(self, project: str, session: str, *, shared: bool = False) -> StoredMemory:
        """The notes that agents of `session` can see in `project` (a folder). With `shared` the notes of sub-agents
        are visible to all agents at once, without review by the user."""
        return StoredMemory(project, session, writer=self._writer, reader=self._reader, shared=shared)

    async def list_notes(self, project: str | None) -> list[MemoryItem]:
        """All notes of a project and of the user, or of all projects if `project` is None; the newest first."""
        return await self._reader.read(lambda db: _every(db, project))

    async def get(self, number: str) -> MemoryItem:
        """The note with this id. Raises UsageError if there is none."""
        return await self._reader.read(lambda db: _one(db, number))

    async def promote(self, numbers: Sequence[str]) -> list[MemoryItem]:
        """Make notes visible to all agents; returns the notes that changed. Raises UsageError for an
        unknown id, without any change."""
        return await self._writer.submit(lambda db: _promote(db, numbers))

    async def forget(self, numbers: Sequence[str]) -> list[MemoryItem]:
        """Delete notes and return them. Raises UsageError for an unknown id, without any change."""
        return await self._writer.submit(lambda db: _forget(db, numbers))


# ---- access by agents -------------------------------------------------------------------------------------------


def _save(db: sqlite3.Connection, values: tuple[object, ...]) -> MemoryItem:
    made = db.execute(
        "INSERT INTO memories(scope, owner, text, tags, agent, at, promoted) VALUES (?, ?, ?, ?, ?, ?, ?)", values
    )
    if has_search(db):  # also index the notes that a Python without FTS5 saved
        db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS memory_words USING fts5(text, tags)")
        db.execute(
            "INSERT INTO memory_words(rowid, text, tags) SELECT id, text, tags FROM memories"
            " WHERE id NOT IN (SELECT rowid FROM memory_words)"
        )
    return _one(db, str(made.lastrowid))


def _search(db: sqlite3.Connection, scope: dict[str, str], words: Sequence[str]) -> list[MemoryItem]:
    if words and _has_index(db):
        found = db.execute(
            f"SELECT {_COLUMNS} FROM memory_words JOIN memories m ON m.id = memory_words.rowid"
            f" WHERE memory_words MATCH :match AND {_VISIBLE} ORDER BY bm25(memory_words), m.at DESC",
            {**scope, "match": " OR ".join(f'"{word}"*' for word in words)},
        )
        if items := [_item(row) for row in found]:
            return items
    items = [_item(row) for row in db.execute(f"SELECT {_COLUMNS} FROM memories m WHERE {_VISIBLE} {_NEWEST}", scope)]
    if not words:
        return items
    scores = {i.id: sum(word in f"{i.text} {' '.join(i.tags)}".casefold() for word in words) for i in items}
    return sorted((i for i in items if scores[i.id]), key=lambda i: -scores[i.id])


# ---- access by the user -----------------------------------------------------------------------------------------


def _every(db: sqlite3.Connection, project: str | None) -> list[MemoryItem]:
    condition = "1" if project is None else _IN_SCOPE
    rows = db.execute(f"SELECT {_COLUMNS} FROM memories m WHERE {condition} {_NEWEST}", {"project": project})
    return [_item(row) for row in rows]


def _one(db: sqlite3.Connection, number: str) -> MemoryItem:
    row = None
    if re.fullmatch(r"[0-9]{1,18}", number):
        row = db.execute(f"SELECT {_COLUMNS} FROM memories m WHERE m.id = ?", (int(number),)).fetchone()
    if row is None:
        raise UsageError(f"There is no note {number!r}.", hint="`friday memory list --all` shows all notes.")
    return _item(row)


def _promote(db: sqlite3.Connection, numbers: Sequence[str]) -> list[MemoryItem]:
    changed = [item for item in _find_all(db, numbers) if not item.promoted]
    db.executemany("UPDATE memories SET promoted = 1 WHERE id = ?", [(int(item.id),) for item in changed])
    return [msgspec.structs.replace(item, promoted=True) for item in changed]


def _forget(db: sqlite3.Connection, numbers: Sequence[str]) -> list[MemoryItem]:
    removed = _find_all(db, numbers)
    keys = [(int(item.id),) for item in removed]
    db.execute("PRAGMA secure_delete = ON")  # overwrite the deleted data
    db.executemany("DELETE FROM memories WHERE id = ?", keys)
    if _has_index(db):
        db.executemany("DELETE FROM memory_words WHERE rowid = ?", keys)
        db.execute("INSERT INTO memory_words(memory_words) VALUES ('optimize')")  # removes its words from the index
    return removed


def _find_all(db: sqlite3.Connection, numbers: Sequence[str]) -> list[MemoryItem]:
    return list({item.id: item for item in (_one(db, number) for number in numbers)}.values())


def _has_index(db: sqlite3.Connection) -> bool:
    return has_search(db) and bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_words'").fetchone())


def _item(row: tuple[int, str, str, str, str, float, str, int]) -> MemoryItem:
    number, text, scope, tags, agent, at, owner, promoted = row
    listed = tuple(msgspec.json.decode(tags, type=list[str]))
    return MemoryItem(str(number), text, scope, listed, agent, at, project=owner, promoted=bool(promoted))
