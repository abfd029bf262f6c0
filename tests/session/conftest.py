from __future__ import annotations

from pathlib import Path

import pytest

from tests.session.harness import Harness


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    project = tmp_path / "project"
    project.mkdir()
    return Harness(project.resolve(), {})
