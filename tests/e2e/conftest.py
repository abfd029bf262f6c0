from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.friday import KEY, Friday


@pytest.fixture
def friday(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Friday]:
    """`friday` with an empty home and project. Its key must be in no file that it wrote."""
    made = Friday(tmp_path, monkeypatch, capsys)
    yield made
    made.stop()
    for path in (p for p in made.home.rglob("*") if p.is_file() and p != made.config):
        assert KEY.encode() not in path.read_bytes(), f"the key is in {path}"
