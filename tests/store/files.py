"""The session file itself: its bytes, SQL on it, and other processes that use it. All of this blocks."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
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


def start(script: str, *args: object) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
