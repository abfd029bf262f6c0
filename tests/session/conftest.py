from __future__ import annotations

from pathlib import Path

import pytest

from tests.session.harness import Harness
from tests.workspace.sandbox.conftest import chosen


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    project = tmp_path / "project"
    project.mkdir()
    return Harness(project.resolve(), {})


@pytest.fixture
def landlock() -> dict[str, str]:
    """The flags of a real sandbox; skips where there is none."""
    if isinstance(found := chosen("landlock"), str):
        pytest.skip(f"NOT TESTED HERE: {found}")
    return {"sandbox.kind": "landlock"}
