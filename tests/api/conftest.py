from __future__ import annotations

from pathlib import Path

import pytest

from tests.session.harness import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    project = tmp_path / "project"
    project.mkdir()
    return Stage(project.resolve(), {})
