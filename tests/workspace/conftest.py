"""A workspace in a folder of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from friday_cli.workspace.local import LocalWorkspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
async def workspace(root: Path, tmp_path: Path) -> AsyncIterator[LocalWorkspace]:
    made = LocalWorkspace(root, spill=tmp_path / "spill")
    yield made
    await made.close()
