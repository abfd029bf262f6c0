"""The session file itself: its bytes, and SQL on it. These block, so tests on a loop call them here."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(content)


def content_of(path: Path) -> bytes:
    return path.read_bytes()


def sql(path: Path, *statements: str) -> list[Any]:
    """Run statements on the file; gives the rows of the last one."""
    with closing(sqlite3.connect(path)) as db, db:
        return [db.execute(statement).fetchall() for statement in statements][-1]
