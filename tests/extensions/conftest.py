"""A repository in an own home."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository; the home folder is beside it."""
    for name, below in (("HOME", "home"), ("FRIDAY_HOME", "home/friday")):
        monkeypatch.setenv(name, str(tmp_path / below))
    folder = tmp_path / "repo"
    (folder / ".git").mkdir(parents=True)
    return folder
