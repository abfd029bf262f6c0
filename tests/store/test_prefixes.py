"""Prefixes that share texts and tools take their place once; readers get each as it was written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from friday_cli.core.protocol.events import Envelope, Notice, Prefix, SessionStarted, ToolSpec
from friday_cli.store.store import Store

LONG = ToolSpec("read_file", "Reads. " * 200, {"type": "object"})
OTHER = ToolSpec("grep", "Looks. " * 200, {"type": "object", "properties": {"pattern": {"type": "string"}}})
FIRST = Prefix("demo/demo", "You are Friday. " * 100, (LONG, OTHER))
LIST = [
    FIRST,
    Prefix("demo/other", FIRST.system, (LONG, OTHER)),
    Prefix("demo/other", FIRST.system, (LONG, OTHER)),
    FIRST,
    FIRST,
    Prefix("demo/demo", "You are a coder with a 'quote', ü and \ud800.", (OTHER,)),
    Prefix("demo/demo", "You are a coder with a 'quote', ü and \ud800.", (LONG, OTHER)),
    Prefix("demo/demo", "", ()),
]


def _read_back(prefix: Prefix) -> Prefix:
    """SQLite keeps no lone surrogate."""
    return Prefix(prefix.model, prefix.system.replace("\ud800", "?"), prefix.tools)


async def _stored(path: Path, prefixes: list[Prefix], first: int) -> str:
    async with Store(path) as store:
        name = await store.create_session("/here", name="s") if first == 1 else "s"
        with await store.own(name):
            envelopes = [Envelope(n, 1.0, "a", prefix) for n, prefix in enumerate(prefixes, first)]
            if first == 1:
                envelopes = [Envelope(1, 1.0, "a", SessionStarted(1, "s", "/here", "0")), *_moved(envelopes)]
            await store.journal(name).append(envelopes)
    return name


def _moved(envelopes: list[Envelope]) -> list[Envelope]:
    return [Envelope((e.seq or 0) + 1, e.at, e.agent, e.event) for e in envelopes]


async def test_each_text_and_tool_is_stored_once_and_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "friday.db"
    await _stored(path, LIST, 1)
    await _stored(path, [FIRST], len(LIST) + 2)  # another process: it finds what the first one stored
    async with Store(path) as store:
        read = [e.event for e in await store.events("s") if isinstance(e.event, Prefix)]
        assert read == [_read_back(prefix) for prefix in (*LIST, FIRST)]
        later = await store.events("s", after=len(LIST) + 1)
        assert [e.event for e in later] == [FIRST]
    sizes = [size for (size,) in sqlite3.connect(path).execute("SELECT length(body) FROM events WHERE kind = 'prefix'")]
    assert sizes[0] > 4_000
    assert max(sizes[1:]) < 200


async def test_a_prefix_whose_row_is_gone_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "friday.db"
    await _stored(path, [FIRST, FIRST], 1)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM events WHERE seq = 2")
    async with Store(path) as store:
        (notice,) = (e.event for e in await store.events("s", after=2))
        assert isinstance(notice, Notice)
        assert "damaged" in notice.text
