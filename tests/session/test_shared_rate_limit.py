"""What processes tell each other of a crowded lane."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from friday_cli.paths import state_dir
from friday_cli.session.shared_rate_limit import FileSharedRateLimit


def files() -> list[Path]:
    return list((state_dir() / "lanes").iterdir())


def test_a_wait_is_shared_with_the_same_service_and_key_only() -> None:
    at = time.time() + 20
    FileSharedRateLimit("openai-1a2b").close_until(at)
    assert FileSharedRateLimit("openai-1a2b").closed_until() == pytest.approx(at, abs=0.001)
    assert FileSharedRateLimit("openai-ffff").closed_until() == 0
    (file,) = files()
    assert file.stat().st_size == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "openai" not in file.name


def test_a_longer_wait_is_never_shortened() -> None:
    lane, at = FileSharedRateLimit("x"), time.time() + 30
    lane.close_until(at)
    lane.close_until(at - 20)
    assert lane.closed_until() == pytest.approx(at, abs=0.001)
    lane.close_until(at + 10)
    assert lane.closed_until() == pytest.approx(at + 10, abs=0.001)


def test_no_shared_wait_is_longer_than_a_minute() -> None:
    lane = FileSharedRateLimit("x")
    lane.close_until(time.time() + 9_999)
    assert 1 < lane.closed_until() - time.time() <= 60


@pytest.mark.parametrize("moment", [lambda: time.time() - 1, lambda: time.time() + 9_999, lambda: 0.0])
def test_what_is_past_or_cannot_be_says_nothing(moment: Callable[[], float]) -> None:
    lane = FileSharedRateLimit("x")
    lane.close_until(time.time() + 5)
    os.utime(files()[0], (moment(), moment()))
    assert lane.closed_until() == 0
    at = time.time() + 50
    lane.close_until(at)
    assert lane.closed_until() == pytest.approx(at, abs=0.001)


def test_a_success_is_shared_with_the_same_service_and_key() -> None:
    lane, other = FileSharedRateLimit("x"), FileSharedRateLimit("y")
    assert lane.served_at() == 0
    before = time.time()
    lane.serve()
    assert before - 1 <= FileSharedRateLimit("x").served_at() <= time.time() + 1
    assert (lane.closed_until(), other.served_at()) == (0, 0)


def test_without_a_state_folder_nothing_is_shared() -> None:
    state_dir().parent.mkdir(parents=True, exist_ok=True)
    state_dir().write_text("in the way")
    lane = FileSharedRateLimit("x")
    lane.close_until(time.time() + 5)
    assert lane.closed_until() == 0
    lane.serve()
    assert lane.served_at() == 0
