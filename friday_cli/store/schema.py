"""The session file: opening it, and error messages for SQLite errors."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from friday_cli.core.protocol.errors import StoreError, Unwritable

from .file_system import file_system, is_network
from .migrations import MIGRATIONS

T = TypeVar("T")

BUSY_S = 10.0
"""Seconds that SQLite waits in one statement for another process (busy timeout)."""
NO_LOCKS = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP))
"""Error numbers of a file system without locks."""
RETRY_S = 60.0
"""Seconds for which an operation is retried when SQLite reports "busy" without waiting."""
MOST_NEWER = 1000
"""Schema versions that a newer Friday may be ahead."""
OWN_TABLES = frozenset(("sessions", "agents", "events"))
"""Tables of every schema version."""


class DatabaseDamaged(StoreError):
    """The session file cannot be read completely."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is damaged and cannot be read as a file of Friday's. Nothing was changed.",
            hint="`friday sessions repair` saves what can be read and keeps the damaged file. Or replace it with a "
            "backup, and remove the -wal and -shm files next to it.",
        )


class NewerFile(StoreError):
    """The session file says that a newer Friday wrote it. `same`: its tables are those of this version, so it may be damaged."""

    def __init__(self, path: Path, version: int, *, same: bool) -> None:
        known, self.version, self.same = len(MIGRATIONS), version, same
        super().__init__(
            f"{path} was written by a newer Friday (schema {version}; this one knows {known}). Nothing was changed.",
            hint="Update Friday, or set FRIDAY_HOME to another folder."
            + (" If there is no newer one, run `friday sessions repair`." if same else ""),
        )


# ---- opening ----------------------------------------------------------------------------------------------------


def connect(path: Path) -> sqlite3.Connection:
    """Open the file for writing and migrate it to the newest schema. Raises StoreError; a file that cannot be used is
    not changed."""
    try:
        _make_private(path)
    except OSError as error:
        raise Unwritable(
            f"Sessions cannot be saved in {path.parent}: {error.strerror or error}.",
            hint="Make the folder writable or set FRIDAY_HOME to another one.",
        ) from None
    _require_locks(path)
    try:
        return retry_while_busy(lambda: _open(path))
    except UnicodeDecodeError:  # the text of SQLite's own error
        raise DatabaseDamaged(path) from None
    except sqlite3.Error as error:
        raise explain(error, path) from None


def connect_tables(
    path: Path, create: Callable[[sqlite3.Connection], None], tables: Collection[str]
) -> sqlite3.Connection:
    """Open another file of Friday's data for writing. `create` makes its tables where they are missing; a file that is not empty has
    at least one of `tables`. Raises StoreError."""
    try:
        _make_private(path)
    except OSError as error:
        raise Unwritable(
            f"{path} cannot be written: {error.strerror or error}.", hint="Make its folder writable."
        ) from None
    _require_locks(path)

    def opened() -> sqlite3.Connection:
        db = _plain_connection(path)
        try:
            if is_network(file_system(path.parent)) or not _try_wal(db):
                db.execute("PRAGMA journal_mode = TRUNCATE")
            db.execute("PRAGMA synchronous = NORMAL")
            if db.execute("PRAGMA page_count").fetchone()[0] > 1 and _tables(db).isdisjoint(tables):
                raise DatabaseDamaged(path)
            create(db)
        except BaseException:
            db.close()
            raise
        return db

    try:
        return retry_while_busy(opened)
    except UnicodeDecodeError:  # the text of SQLite's own error
        raise DatabaseDamaged(path) from None
    except sqlite3.Error as error:
        raise explain(error, path) from None


def connect_earlier(path: Path, version: int) -> sqlite3.Connection:
    """A new file at `path` as Friday made it with its first `version` migrations."""
    db = _plain_connection(path)
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("BEGIN")
    for migration in MIGRATIONS[:version]:
        migration(db)
    db.execute(f"PRAGMA user_version = {version}")
    db.execute("COMMIT")
    return db


def connect_memory() -> sqlite3.Connection:
    """A database in memory, which ends with its connection."""
    db = _plain_connection(Path(":memory:"))
    _migrate(db, Path(":memory:"))
    return db


def connect_reader(path: Path) -> sqlite3.Connection:
    """A read-only connection. The file must have been opened by `connect` before."""
    db = _plain_connection(path)
    db.execute("PRAGMA query_only = ON")
    return db


def _open(path: Path) -> sqlite3.Connection:
    db = _plain_connection(path)
    try:
        known = len(MIGRATIONS)
        with _one_read(db):
            version = _own_version(db, path)
        if version > known:
            if version > known + MOST_NEWER:
                raise DatabaseDamaged(path)
            raise NewerFile(path, version, same=_has_own_schema(db))
        if version == 0:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # allows a new file to shrink later
        wal = not is_network(file_system(path.parent)) and _try_wal(db)
        if not wal:
            db.execute("PRAGMA journal_mode = TRUNCATE")
        db.execute("PRAGMA synchronous = NORMAL")
        if version < known:
            _migrate(db, path)
        return db
    except BaseException:
        db.close()
        raise


def _has_own_schema(db: sqlite3.Connection) -> bool:
    """Whether the tables are exactly those of this version: then a number of a later one is damage."""
    with closing(connect_memory()) as own:
        query = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
        return db.execute(query).fetchall() == own.execute(query).fetchall()


def _plain_connection(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


@contextmanager
def _one_read(db: sqlite3.Connection) -> Iterator[None]:
    """What is read inside is the file at one moment, also while another process creates or migrates it."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(db)


def _own_version(db: sqlite3.Connection, path: Path) -> int:
    """The schema version of the file, 0 for an empty one. Raises StoreError if the file belongs to another program,
    DatabaseDamaged if some of Friday's tables are missing."""
    tables = _tables(db)
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if bool(tables) == bool(version) and (not tables or tables >= OWN_TABLES):
        return version
    if not tables & OWN_TABLES and tables:
        raise StoreError(
            f"{path} is the database of another program. Nothing was changed.",
            hint="Move it away, or set FRIDAY_HOME to another folder.",
        )
    raise DatabaseDamaged(path)


def _tables(db: sqlite3.Connection) -> set[str]:
    return {row[0] for row in db.execute("SELECT name FROM sqlite_master")}


def _try_wal(db: sqlite3.Connection) -> bool:
    """Turn on write-ahead logging. False if the file system does not support it (it needs shared memory)."""
    try:
        mode = str(db.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        if _code(error) in _BUSY or _code(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise
        return False
    return mode == "wal"


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    with transaction(db):
        version = _own_version(db, path)  # another process may have migrated the file
        for migration in MIGRATIONS[version:]:
            migration(db)
        db.execute(f"PRAGMA user_version = {max(version, len(MIGRATIONS))}")


def _make_private(path: Path) -> None:
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_mode & 0o077 and found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX:
        folder.chmod(0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # SQLite gives the -wal and -shm files the same mode


def _require_locks(path: Path) -> None:
    """Raise Unwritable if the file system has no locks: SQLite takes that for a lock of another process and waits."""
    probe = path.with_name(f".{path.name}-{os.getpid()}-{threading.get_ident()}.lock")  # closing a file drops its locks
    try:
        handle = os.open(probe, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return  # opening the file reports it
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            raise no_locks(path.parent) from None
    finally:
        os.close(handle)
        probe.unlink(missing_ok=True)


def no_locks(folder: Path) -> Unwritable:
    """The error for a file system on which files cannot be locked."""
    return Unwritable(f"The file system of {folder} does not support locks.", hint="Set FRIDAY_HOME to another folder.")


# ---- failures ---------------------------------------------------------------------------------------------------

_BUSY = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))


def _code(error: sqlite3.Error) -> int:
    """The primary result code, -1 if the error has none."""
    code = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else int(code) & 0xFF


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Whatever is written to `db` in the block, or nothing of it."""
    retry_while_busy(lambda: db.execute("BEGIN IMMEDIATE"))
    try:
        yield
        retry_while_busy(lambda: db.execute("COMMIT"))
    except BaseException:
        roll_back(db)
        raise


def roll_back(db: sqlite3.Connection) -> None:
    """Roll back the open transaction, if SQLite has not already done so."""
    if db.in_transaction:
        db.execute("ROLLBACK")


def retry_while_busy(work: Callable[[], T]) -> T:
    """The result of `work`, which is retried for `RETRY_S` seconds while another process locks the file."""
    deadline = time.monotonic() + RETRY_S
    pause = 0.005
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(pause * 2, 0.2)


_CONTRADICTIONS = ("decode to UTF-8", "already exists", "duplicate column", "no such table", "no such column")
"""Errors of a file that SQLite takes for whole, and whose texts or schema number are damaged."""


def has_known_version(path: Path) -> bool:
    """Whether the header names a version of the file format that SQLite writes; it opens others for reading only."""
    try:
        with path.open("rb") as file:
            header = file.read(20)
    except OSError:
        return True
    return len(header) < 20 or header[18] in (1, 2)


def explain(error: sqlite3.Error, path: Path) -> StoreError:
    """`error` with a message for the user."""
    if isinstance(error, sqlite3.IntegrityError):
        return StoreError(f"Another friday process is writing to this session in {path}.", hint="Close it and resume.")
    if "unsupported file format" in str(error) or (
        _code(error) == sqlite3.SQLITE_READONLY and not has_known_version(path)
    ):
        return DatabaseDamaged(path)
    if any(words in str(error) for words in _CONTRADICTIONS):
        return DatabaseDamaged(path)
    match _code(error):
        case sqlite3.SQLITE_FULL:
            return _full(path)
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return DatabaseDamaged(path)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return Unwritable(f"{path} cannot be written: it is read-only.", hint="Check its owner and mode.")
        case sqlite3.SQLITE_CANTOPEN:
            return Unwritable(f"{path} cannot be opened.", hint="Check its folder, or set FRIDAY_HOME to another one.")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreError(
                f"Another program has kept {path} busy for {RETRY_S:.0f} s.", hint="Close it and try again."
            )
        case sqlite3.SQLITE_IOERR:
            with suppress(OSError):
                if os.statvfs(path.parent).f_bavail == 0:
                    return _full(path)  # not even its log can be opened
            return Unwritable(f"{path} cannot be read or written: {error}.", hint="Check the disk.")
    return StoreError(f"{path}: {error}.")


def _full(path: Path) -> Unwritable:
    return Unwritable(f"The disk is full: {path} cannot be written.", hint="Free some space.")
