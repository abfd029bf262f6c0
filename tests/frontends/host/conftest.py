"""Sessions whose owner listens, for tests of the fleet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.session.harness import Harness


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.setenv("FRIDAY_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    return Harness(project, {"a": [{"text": "done"}]})
