"""A damaged file of batches: named, repaired, and the damaged one kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.system.paths import data_dir
from tests.cli.conftest import console
from tests.cli.console import Console
from tests.cli.test_map import service
from tests.map.service import TASK, Service, lines
from tests.store import random_damage
from tests.store.files import content_of, put

__all__ = ["console", "service"]
PAGE = 4096


def test_whatever_is_damaged_is_repaired_or_whole() -> None:
    assert random_damage.run(40, seed=2, file=random_damage.BATCH_FILE) == []


DAMAGES = {
    "the list of tables": lambda data: data[:100] + bytes(PAGE - 100) + data[PAGE:],
    "the header": lambda data: b"x" + data[1:],
    "a page": lambda data: data[: 3 * PAGE] + b"\xff" * 400 + data[3 * PAGE + 400 :],
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_file_of_batches_is_named_and_repaired(console: Console, service: Service, what: str) -> None:
    (console.project / "items.jsonl").write_text(lines(6))
    batch = ("map", "summarizer", "--items", "items.jsonl", "--task", TASK, "--max-cost", "5", "--yes")
    console.ok(*batch)
    path: Path = data_dir() / "map.db"
    whole = content_of(path)
    put(path, DAMAGES[what](whole))
    assert "is damaged" in console.refused("map", "status", code=1)
    told = console.ok("sessions", "repair").err
    assert "the damaged file is now" in told
    assert list(path.parent.glob("map.db.damaged-*"))
    assert "is not damaged" in console.ok("sessions", "repair").err
    console.ok(*batch)
    console.ok("map", "status")
