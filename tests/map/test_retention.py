"""Old batches are removed, unless the clock has jumped."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import pytest

from friday_cli.system.paths import data_dir
from tests.cli.conftest import console
from tests.cli.console import Console
from tests.cli.test_map import service
from tests.map.service import TASK, Service, lines

__all__ = ["console", "service"]
DAY_S = 86_400.0


@pytest.mark.parametrize(("used", "kept"), [(5, False), (60, True)])
def test_batches_that_nobody_used_are_removed_unless_the_clock_has_jumped(
    console: Console, service: Service, used: int, kept: bool
) -> None:
    """`used`: days since another batch was used."""

    def run(count: int) -> None:
        (console.project / "items.jsonl").write_text(lines(count))
        console.ok(
            *("map", "summarizer", "--items", "items.jsonl", "--task", f"{TASK} {count}", "--max-cost", "5", "--yes")
        )

    run(2)
    run(1)
    with closing(sqlite3.connect(data_dir() / "map.db")) as db, db:
        ids = [row[0] for row in db.execute("SELECT id FROM batches ORDER BY created")]
        for batch, days in zip(ids, (400, used), strict=True):
            db.execute("UPDATE batches SET updated = ? WHERE id = ?", (time.time() - days * DAY_S, batch))
            db.execute("UPDATE items SET updated = ? WHERE batch = ?", (time.time() - days * DAY_S, batch))
    run(3)
    with closing(sqlite3.connect(data_dir() / "map.db")) as db:
        assert [row[0] for row in db.execute("SELECT id FROM batches ORDER BY created")][:-1] == ids[not kept :]
    paid = service.requests
    run(2)
    assert service.requests == paid + (0 if kept else 2)
