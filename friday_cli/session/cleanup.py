"""Removes old sessions, file contents and logs once a day, while a session is open."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from friday_cli.config.settings import Retention
from friday_cli.store.locks import is_owned
from friday_cli.system.paths import data_dir, state_dir, store_path

DAY_S = 86_400.0
LEAP_S = 30 * DAY_S
"""After so many seconds without a cleanup, one more day is waited: a clock set far ahead must not remove everything."""
log = logging.getLogger(__name__)


def daily(
    limits: Retention, env: Mapping[str, str] | None = None, *, megabytes: int = 1_000
) -> threading.Thread | None:
    """Start `tidy` in a daemon thread; None if it ran within a day. Failures are only written to the log of `--debug`."""
    if not _is_due(state_dir(env) / "tidied"):
        return None
    thread = threading.Thread(target=_quietly, args=(limits, env, megabytes), name="friday-tidy", daemon=True)
    thread.start()
    return thread


def tidy(limits: Retention, env: Mapping[str, str] | None = None, *, megabytes: int = 1_000) -> None:
    """Remove sessions beyond the limits, earlier contents of files beyond `megabytes`, and logs older than their days.
    Raises StoreError or OSError."""
    from friday_cli.store.retention import prune  # four modules for once a day
    from friday_cli.workspace.checkpoints import blobs

    now = time.time()
    gone = prune(store_path(env), days=limits.days, gigabytes=limits.gigabytes, now=now)
    locks = store_path(env).parent / "locks"
    for name in ("checkpoints", "baselines"):
        place = data_dir(env) / name
        blobs.prune(place, most=megabytes * blobs.MEGABYTE, live=lambda session: is_owned(locks, session))
    log.debug("removed %d sessions: %s", len(gone), " ".join(gone))
    if limits.days:
        _remove_old(state_dir(env) / "logs", "*.log", before=now - limits.days * DAY_S)
    _remove_old(state_dir(env) / "lanes", "*", before=now - DAY_S)


def _is_due(stamp: Path) -> bool:
    """Whether a day has passed since the last cleanup; records this one. False on the first day and after a jump of the
    clock."""
    try:
        since = time.time() - stamp.stat().st_mtime
        if 0 <= since < DAY_S:
            return False
        os.utime(stamp)
        return since < LEAP_S
    except FileNotFoundError:
        with suppress(OSError):  # no state can be written here, so there is none to remove
            stamp.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            stamp.touch(mode=0o600)
    except OSError:
        pass
    return False


def _quietly(limits: Retention, env: Mapping[str, str] | None, megabytes: int) -> None:
    try:
        tidy(limits, env, megabytes=megabytes)
    except Exception:
        log.info("tidying up failed", exc_info=True)


def _remove_old(folder: Path, pattern: str, *, before: float) -> None:
    for file in folder.glob(pattern):
        with suppress(OSError):  # another process removed it
            if file.stat(follow_symlinks=False).st_mtime < before:
                file.unlink()
