"""Notes that outlive a session, found by their words; those of sub-agents count once a person has kept them."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Sequence
from typing import Literal

import msgspec

from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.errors import UsageError

from .records import MemoryItem
from .schema import has_search
from .writer import StoreReader, StoreWriter

_PLACE = "(m.scope = 'user' OR m.scope = 'project' AND m.owner = :project)"
_VISIBLE = f"{_PLACE} AND (m.promoted OR m.agent = :agent)"
_COLUMNS = "m.id, m.text, m.scope, m.tags, m.agent, m.at, m.owner, m.promoted"
_NEWEST = "ORDER BY m.at DESC, m.id DESC"


class StoredMemory:
    """The notes of one project and of the person, as the agents of `session` see them.

    A note of the root is the person's own. One of a sub-agent reaches others once it is promoted, or at once where
    notes are `shared`.
    """

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
        """Keep a note of the agent with this path or id, and give it as it is kept. Raises StoreError."""
        owner = self._project if scope == "project" else ""
        who = self._whole(agent)
        promoted = self._shared or depth_of(who) == 0
        values = (scope, owner, _storable(text), _listed(tags), who, time.time(), promoted)
        return await self._writer.submit(lambda db: _save(db, values))

    async def load(self, query: str, *, tags: Sequence[str], limit: int, agent: str = "a") -> list[MemoryItem]:
        """At most `limit` notes that `agent` (a path or id) may see, that have all `tags` and match `query`, the best
        first; the newest first when `query` is empty. Raises StoreError."""
        wanted = {tag.casefold() for tag in tags}
        words = re.findall(r"\w+", query.casefold())
        place = {"project": self._project, "agent": self._whole(agent)}
        items = await self._reader.read(lambda db: _search(db, place, words))
        return [i for i in items if wanted <= {tag.casefold() for tag in i.tags}][:limit]

    def _whole(self, agent: str) -> str:
        return agent if ":" in agent else f"{self._session}:{agent}"


# ---- as agents see them -----------------------------------------------------------------------------------------


def _save(db: sqlite3.Connection, values: tuple[object, ...]) -> MemoryItem:
    made = db.execute(
        "INSERT INTO memories(scope, owner, text, tags, agent, at, promoted) VALUES (?, ?, ?, ?, ?, ?, ?)", values
    )
    if has_search(db):  # also takes in what a Python without FTS5 saved
        db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS memory_words USING fts5(text, tags)")
        db.execute(
            "INSERT INTO memory_words(rowid, text, tags) SELECT id, text, tags FROM memories"
            " WHERE id NOT IN (SELECT rowid FROM memory_words)"
        )
    return one(db, str(made.lastrowid))


def _search(db: sqlite3.Connection, place: dict[str, str], words: Sequence[str]) -> list[MemoryItem]:
    if words and _has_words(db):
        found = db.execute(
            f"SELECT {_COLUMNS} FROM memory_words JOIN memories m ON m.id = memory_words.rowid"
            f" WHERE memory_words MATCH :match AND {_VISIBLE} ORDER BY bm25(memory_words), m.at DESC",
            {**place, "match": " OR ".join(f'"{word}"*' for word in words)},
        )
        if items := [_item(row) for row in found]:
            return items
    items = [_item(row) for row in db.execute(f"SELECT {_COLUMNS} FROM memories m WHERE {_VISIBLE} {_NEWEST}", place)]
    if not words:
        return items
    scores = {i.id: sum(word in f"{i.text} {' '.join(i.tags)}".casefold() for word in words) for i in items}
    return sorted((i for i in items if scores[i.id]), key=lambda i: -scores[i.id])


# ---- as a person sees them --------------------------------------------------------------------------------------


def every(db: sqlite3.Connection, project: str | None) -> list[MemoryItem]:
    """All notes of a project and of the person, or of every project, the newest first."""
    place = "1" if project is None else _PLACE
    rows = db.execute(f"SELECT {_COLUMNS} FROM memories m WHERE {place} {_NEWEST}", {"project": project})
    return [_item(row) for row in rows]


def one(db: sqlite3.Connection, number: str) -> MemoryItem:
    """The note with an id. Raises UsageError."""
    row = None
    if re.fullmatch(r"[0-9]{1,18}", number):
        row = db.execute(f"SELECT {_COLUMNS} FROM memories m WHERE m.id = ?", (int(number),)).fetchone()
    if row is None:
        raise UsageError(f"There is no note {number!r}.", hint="`friday memory list --all` shows them.")
    return _item(row)


def promote(db: sqlite3.Connection, numbers: Sequence[str]) -> list[MemoryItem]:
    """Let notes count for everybody: all of them or, where one does not exist (UsageError), none. Gives those that
    did not before."""
    changed = [item for item in _several(db, numbers) if not item.promoted]
    db.executemany("UPDATE memories SET promoted = 1 WHERE id = ?", [(int(item.id),) for item in changed])
    return [msgspec.structs.replace(item, promoted=True) for item in changed]


def forget(db: sqlite3.Connection, numbers: Sequence[str]) -> list[MemoryItem]:
    """Remove notes: all of them or, where one does not exist (UsageError), none. Gives what they were."""
    gone = _several(db, numbers)
    keys = [(int(item.id),) for item in gone]
    db.execute("PRAGMA secure_delete = ON")  # what a person throws away is overwritten
    db.executemany("DELETE FROM memories WHERE id = ?", keys)
    if _has_words(db):
        db.executemany("DELETE FROM memory_words WHERE rowid = ?", keys)
        db.execute("INSERT INTO memory_words(memory_words) VALUES ('optimize')")  # else its words stay in the index
    return gone


def _several(db: sqlite3.Connection, numbers: Sequence[str]) -> list[MemoryItem]:
    return list({item.id: item for item in (one(db, number) for number in numbers)}.values())


def _has_words(db: sqlite3.Connection) -> bool:
    return has_search(db) and bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_words'").fetchone())


def _item(row: tuple[int, str, str, str, str, float, str, int]) -> MemoryItem:
    number, text, scope, tags, agent, at, owner, promoted = row
    listed = tuple(msgspec.json.decode(tags, type=list[str]))
    return MemoryItem(str(number), text, scope, listed, agent, at, owner, bool(promoted))


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _listed(tags: Sequence[str]) -> str:
    return msgspec.json.encode([_storable(tag) for tag in tags]).decode()
