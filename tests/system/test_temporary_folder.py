"""What a killed process left among the temporary files is removed, and nothing that a living process or another user has."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from friday_cli.system.temporary_folder import TemporaryFolder, remove_left

OWNER = """
from friday_cli.system.temporary_folder import TemporaryFolder
folder = TemporaryFolder()
open(f"{folder.path}/file", "w").close()
input(folder.path + "\\n")
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def owner(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with a folder, and the folder."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(
    owner: tuple[subprocess.Popen[str], Path], place: Path
) -> None:
    process, folder = owner
    other = place / "friday-other"
    other.mkdir()
    (place / "friday-run-link").symlink_to(other)
    remove_left()
    assert (folder / "file").exists()
    process.kill()
    process.wait()
    remove_left()
    assert (folder.exists(), other.exists()) == (False, True)


def test_the_folder_of_another_user_is_kept(
    owner: tuple[subprocess.Popen[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    process, folder = owner
    process.kill()
    process.wait()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
        remove_left()
    assert folder.exists()


def test_a_folder_that_is_made_while_others_are_removed_stays() -> None:
    done = threading.Event()

    def remove() -> None:
        while not done.is_set():
            remove_left()

    others = [threading.Thread(target=remove) for _ in range(2)]
    for other in others:
        other.start()
    try:
        made = [TemporaryFolder() for _ in range(200)]
        remove_left()
        assert all(os.path.isdir(folder.path) for folder in made)
    finally:
        done.set()
        for other in others:
            other.join()
    for folder in made:
        folder.close()
    assert not any(os.path.exists(folder.path) for folder in made)
