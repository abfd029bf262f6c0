"""The cache folder holds whatever a crash, a person or another user left there: it is replaced, never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from friday_cli.system import cache_file


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "x"
    assert cache_file.write(path, b"kept")
    assert cache_file.read(path) == b"kept"


@pytest.mark.parametrize("kind", ["pipe", "folder", "huge"])
def test_what_is_no_file_of_fridays_is_not_read_and_a_pipe_or_file_is_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cache" / "x"
    path.parent.mkdir(mode=0o700)
    if kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "folder":
        path.mkdir()
    else:
        path.touch(0o600)
        os.truncate(path, cache_file.LARGEST + 1)
    assert cache_file.read(path) is None
    assert cache_file.write(path, b"new") == (kind != "folder")
    assert cache_file.read(path) == (None if kind == "folder" else b"new")
    assert [entry.name for entry in path.parent.iterdir()] == ["x"]
