"""Where earlier contents lie: bounded, the oldest first, and never those of a session that is open."""

from __future__ import annotations

import os
from pathlib import Path

from friday_cli.workspace.checkpoints.blobs import Blobs, prune


def filled(folder: Path, *, most: int, first: int) -> list[str]:
    blobs = Blobs(folder, most=most)
    digests = []
    for number in range(4):
        digests.append(blobs.put(bytes([first + number]) * 100))
        if (folder / digests[-1]).exists():
            os.utime(folder / digests[-1], (first + number, first + number))
    return digests


def test_a_session_drops_its_oldest_contents_and_keeps_the_newest(tmp_path: Path) -> None:
    digests = filled(tmp_path / "s", most=250, first=1)
    kept = [Blobs(tmp_path / "s", most=250).has(digest) for digest in digests]
    assert kept == [False, False, True, True]
    assert Blobs(tmp_path / "s", most=250).get(digests[-1]) == bytes([4]) * 100


def test_the_oldest_of_all_go_but_none_of_an_open_session(tmp_path: Path) -> None:
    live, old, _ = (
        filled(tmp_path / name, most=10**6, first=at) for name, at in (("live", 1), ("old", 10), ("young", 20))
    )
    assert prune(tmp_path, most=1_200, live=lambda session: False) == 0
    assert prune(tmp_path, most=900, live=lambda session: session == "live") == 3
    assert [(tmp_path / "old" / digest).exists() for digest in old] == [False, False, False, True]
    assert prune(tmp_path, most=100, live=lambda session: session == "live") == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["live"]
    assert all((tmp_path / "live" / digest).exists() for digest in live)
