"""A workspace in a new folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
async def workspace(root: Path, tmp_path: Path) -> AsyncIterator[LocalWorkspace]:
    workspace = LocalWorkspace(root, CommandHost(overflow_folder=tmp_path / "spill"))
    yield workspace
    await workspace.close()
