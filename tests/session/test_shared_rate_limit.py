"""What processes tell each other of a crowded service."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from friday_cli.session.shared_rate_limit import FileSharedRateLimit
from friday_cli.system.paths import state_dir


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
    shared, at = FileSharedRateLimit("x"), time.time() + 30
    shared.close_until(at)
    shared.close_until(at - 20)
    assert shared.closed_until() == pytest.approx(at, abs=0.001)
    shared.close_until(at + 10)
    assert shared.closed_until() == pytest.approx(at + 10, abs=0.001)


def test_no_shared_wait_is_longer_than_a_minute() -> None:
    shared = FileSharedRateLimit("x")
    shared.close_until(time.time() + 9_999)
    assert 1 < shared.closed_until() - time.time() <= 60


@pytest.mark.parametrize("moment", [lambda: time.time() - 1, lambda: time.time() + 9_999, lambda: 0.0])
def test_what_is_past_or_cannot_be_says_nothing(moment: Callable[[], float]) -> None:
    shared = FileSharedRateLimit("x")
    shared.close_until(time.time() + 5)
    os.utime(files()[0], (moment(), moment()))
    assert shared.closed_until() == 0
    at = time.time() + 50
    shared.close_until(at)
    assert shared.closed_until() == pytest.approx(at, abs=0.001)


def test_a_success_is_shared_with_the_same_service_and_key() -> None:
    shared, other = FileSharedRateLimit("x"), FileSharedRateLimit("y")
    assert shared.served_at() == 0
    before = time.time()
    shared.serve()
    assert before - 1 <= FileSharedRateLimit("x").served_at() <= time.time() + 1
    assert (shared.closed_until(), other.served_at()) == (0, 0)


def test_without_a_state_folder_nothing_is_shared() -> None:
    state_dir().parent.mkdir(parents=True, exist_ok=True)
    state_dir().write_text("in the way")
    shared = FileSharedRateLimit("x")
    shared.close_until(time.time() + 5)
    assert shared.closed_until() == 0
    shared.serve()
    assert shared.served_at() == 0
