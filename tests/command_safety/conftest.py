"""The project in which commands are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_safety import workspace_fixture


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return workspace_fixture.create_project(tmp_path)
