"""Notes that outlive a session, found by their words."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Sequence
from typing import Literal

import msgspec

from .rows import MemoryItem
from .schema import has_search
from .writer import Reader, Writer

_VISIBLE = "(m.scope = 'user' OR m.scope = 'project' AND m.owner = :project)"
_COLUMNS = "m.id, m.text, m.scope, m.tags, m.agent, m.at"


class StoredMemory:
    """The notes of one project and of the person, as an agent of `session` sees them."""

    def __init__(self, project: str, session: str, *, writer: Writer, reader: Reader) -> None:
        self._project = project
        self._session = session
        self._writer = writer
        self._reader = reader

    async def save(self, text: str, *, scope: Literal["project", "user"], tags: Sequence[str], agent: str) -> str:
        """Keep a note and give its id. `agent` is the path or id of who saves it. Raises StoreError."""
        owner = self._project if scope == "project" else ""
        who = agent if ":" in agent else f"{self._session}:{agent}"
        values = (scope, owner, _storable(text), _listed(tags), who, time.time())
        return await self._writer.submit(lambda db: _save(db, values))

    async def load(self, query: str, *, tags: Sequence[str], limit: int) -> list[MemoryItem]:
        """At most `limit` notes that have all `tags` and match `query`, the best first; the newest first when `query`
        is empty. Raises StoreError."""
        wanted = {tag.casefold() for tag in tags}
        words = re.findall(r"\w+", query.casefold())
        items = await self._reader.read(lambda db: _search(db, self._project, words))
        return [i for i in items if wanted <= {tag.casefold() for tag in i.tags}][:limit]


def _save(db: sqlite3.Connection, values: tuple[object, ...]) -> str:
    made = db.execute("INSERT INTO memories(scope, owner, text, tags, agent, at) VALUES (?, ?, ?, ?, ?, ?)", values)
    if has_search(db):  # also takes in what a Python without FTS5 saved
        db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS memory_words USING fts5(text, tags)")
        db.execute(
            "INSERT INTO memory_words(rowid, text, tags) SELECT id, text, tags FROM memories"
            " WHERE id NOT IN (SELECT rowid FROM memory_words)"
        )
    return str(made.lastrowid)


def _search(db: sqlite3.Connection, project: str, words: Sequence[str]) -> list[MemoryItem]:
    newest = f"SELECT {_COLUMNS} FROM memories m WHERE {_VISIBLE} ORDER BY m.at DESC, m.id DESC"
    if words and _has_words(db):
        found = db.execute(
            f"SELECT {_COLUMNS} FROM memory_words JOIN memories m ON m.id = memory_words.rowid"
            f" WHERE memory_words MATCH :match AND {_VISIBLE} ORDER BY bm25(memory_words), m.at DESC",
            {"project": project, "match": " OR ".join(f'"{word}"*' for word in words)},
        )
        if items := [_item(row) for row in found]:
            return items
    items = [_item(row) for row in db.execute(newest, {"project": project})]
    if not words:
        return items
    scores = {i.id: sum(word in f"{i.text} {' '.join(i.tags)}".casefold() for word in words) for i in items}
    return sorted((i for i in items if scores[i.id]), key=lambda i: -scores[i.id])


def _has_words(db: sqlite3.Connection) -> bool:
    return has_search(db) and bool(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_words'").fetchone())


def _item(row: tuple[int, str, str, str, str, float]) -> MemoryItem:
    number, text, scope, tags, agent, at = row
    return MemoryItem(str(number), text, scope, tuple(msgspec.json.decode(tags, type=list[str])), agent, at)


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _listed(tags: Sequence[str]) -> str:
    return msgspec.json.encode([_storable(tag) for tag in tags]).decode()
