"""Who owns a session: a lock on a file tells, which ends with its process however that ends."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from friday_cli.core.protocol.errors import StoreError, Unwritable, UsageError


class Ownership:
    """The right to write to a session, until `release`; two processes never hold it at once. One without a `path` is
    of a session that no other process can see."""

    def __init__(self, session: str, path: Path | None = None, handle: int | None = None) -> None:
        self.session = session
        self._path = path
        self._handle = handle

    def release(self) -> None:
        """Give the session free. May be called again."""
        if self._path is not None and self._handle is not None:
            self._path.unlink(missing_ok=True)  # while it is still locked: see `_is_current`
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Ownership:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def own(folder: Path, session: str) -> Ownership:
    """Take the lock of a session. Raises UsageError when somebody has it, StoreError when there can be no lock."""
    path = folder / f"{session}.lock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_current(handle, path):
                    os.truncate(handle, 0)
                    os.pwrite(handle, str(os.getpid()).encode(), 0)
                    return Ownership(session, path, handle)
            except BlockingIOError:
                raise UsageError(
                    f"Session {session[:8]} is open in another friday process{_who(handle)}.",
                    hint="It can be read meanwhile; close it there to go on here.",
                ) from None
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
    except OSError as error:
        if error.errno == errno.ENOLCK:
            raise Unwritable(
                f"The file system of {folder} knows no locks.", hint="Set FRIDAY_HOME elsewhere."
            ) from None
        raise Unwritable(
            f"Session {session[:8]} cannot be locked in {folder}: {error.strerror}.",
            hint="Make room there, or let it be written, and try again.",
        ) from None


def is_owned(folder: Path, session: str) -> bool:
    """Whether somebody has the lock of a session. Raises StoreError."""
    return owner(folder, session) is not None


def owner(folder: Path, session: str) -> int | None:
    """The number of the process that has the lock of a session, 0 where it has not written it yet; None where nobody
    has. Raises StoreError."""
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
        number = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
        return int(number) if number.isdigit() else 0
    finally:
        os.close(handle)
    return None


def _is_current(handle: int, path: Path) -> bool:
    """Whether the locked file still is the one at `path`, and not one that its owner just removed."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _who(handle: int) -> str:
    try:
        number = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
    finally:
        os.close(handle)
    return f" (number {number})" if number.isdigit() else ""
