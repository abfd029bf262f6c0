"""Session ownership by file locks (flock). The kernel releases a lock when its process ends in any way."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from friday_cli.core.protocol.errors import StoreError, Unwritable, UsageError

from .schema import NO_LOCKS, no_locks

LOOK_S, LOOKS = 0.001, 50
"""Who only looks for the owner has the lock for less than a millisecond: seconds until the next try, and the most tries."""
HEARTBEAT_S = 1.0
"""Seconds between two updates of the time of a lock file."""


class Ownership:
    """The exclusive right to write to a session, until `release`. Without a `path` there is no lock file: the session
    is in memory, and no other process can see it. `died_at` is when the process that died with this lock was last known
    to be alive (Unix seconds), 0.0 if none did."""

    def __init__(
        self, session: str, path: Path | None = None, handle: int | None = None, *, died_at: float = 0.0
    ) -> None:
        self.session = session
        self.died_at = died_at
        self._path = path
        self._handle = handle

    def keep_alive(self) -> None:
        """From now until `release`, the time of the lock file says that this process is alive. Needs a running loop."""
        import asyncio  # a list of sessions reads locks without it

        if self._handle is not None:
            with suppress(OSError):  # a full disk; the time is only for people
                os.utime(self._handle)
            asyncio.get_running_loop().call_later(HEARTBEAT_S, self.keep_alive)

    def release(self) -> None:
        """Release the lock. Can be called more than once."""
        if self._path is not None and self._handle is not None:
            self._path.unlink(missing_ok=True)  # while it is still locked: see `_is_current`
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Ownership:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def own(folder: Path, session: str) -> Ownership:
    """Take the lock of a session. Raises UsageError if another process has it, Unwritable if it cannot be created."""
    path = folder / f"{session}.lock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with ExitStack() as stack:
                stack.callback(os.close, handle)
                try:
                    _lock(handle)
                except BlockingIOError:
                    pid = f" (pid {number})" if (number := _pid(handle)) else ""
                    raise UsageError(
                        f"Session {session[:8]} is open in another friday process{pid}.",
                        hint="You can read it in the meantime; close it there to resume it here.",
                    ) from None
                if _is_current(handle, path):
                    before = os.fstat(handle)
                    os.truncate(handle, 0)
                    os.pwrite(handle, str(os.getpid()).encode(), 0)
                    stack.pop_all()
                    return Ownership(session, path, handle, died_at=before.st_mtime if before.st_size else 0.0)
    except OSError as error:
        if error.errno in NO_LOCKS:
            raise no_locks(folder) from None
        raise Unwritable(
            f"Session {session[:8]} cannot be locked in {folder}: {error.strerror}.",
            hint="Free some space or make the folder writable, and try again.",
        ) from None


def _lock(handle: int) -> None:
    """Lock a file for this process alone; a lock of one that only looks is waited for. Raises BlockingIOError if it is owned."""
    for _ in range(LOOKS):
        with suppress(BlockingIOError):
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # not possible beside an owner
        fcntl.flock(handle, fcntl.LOCK_UN)
        time.sleep(LOOK_S)
    raise BlockingIOError


def is_owned(folder: Path, session: str) -> bool:
    """Whether a process has the lock of a session. Raises StoreError."""
    return owner(folder, session) is not None


def owner(folder: Path, session: str) -> int | None:
    """The pid of the process that has the lock of a session, 0 if it has not written its pid yet; None if the session
    is not locked. Raises StoreError."""
    path = folder / f"{session}.lock"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"The lock of session {session[:8]} cannot be read in {folder}: {error.strerror}.") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _pid(handle)
    except OSError as error:
        if error.errno in NO_LOCKS:
            raise no_locks(folder) from None
        raise
    finally:
        os.close(handle)
    return None


def _is_current(handle: int, path: Path) -> bool:
    """Whether the locked file is still the one at `path`; its previous owner may just have removed it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _pid(handle: int) -> int:
    """The pid in a lock file, 0 if it has none yet."""
    number = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
    return int(number) if number.isdigit() else 0
