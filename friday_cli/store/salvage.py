"""Saves the readable rows of a damaged SQLite file of Friday's into a new file. The damaged file is kept under another name."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from friday_cli.core.protocol.errors import StoreError, UsageError

from . import locks
from .schema import DatabaseDamaged, NewerFile, explain, has_known_version

VALUES: dict[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (int, float), "TEXT": (str,)}
"""What a value of a column is. Others come from a damaged page."""
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""Errors of reading a damaged file: also the text of SQLite's own error may be no UTF-8."""
HEADER = 100
"""Bytes of the header of an SQLite file."""
MOST_PAGES = 2**24
"""The most pages that a file is believed to have had: 64 GB."""
TABLE_LEAF, PART_OF_TABLE = 13, 5
"""The first byte of a page with rows of a table, and the kind of a page in the pointer map that is not free."""
LARGE = 50_000_000
"""Bytes of a file from which the progress of a repair is reported."""
LAST = 2**62
"""Upper limit of row numbers."""


class Layout(NamedTuple):
    """A kind of file. `connect` opens it and makes its tables. `tables` are copied row by row, in this order; `searched` is the one
    whose rows are also searched in pages to which nothing leads. `fits(table, row)` tells whether the values of a row can be
    used. `derive` makes the rows that follow from others, in the new file; what it returns was lost. `locks`: the folder with the locks
    of those who use the file, below its own."""

    connect: Callable[[Path], sqlite3.Connection]
    tables: tuple[str, ...]
    searched: str
    locks: str
    derive: Callable[[sqlite3.Connection], int] = lambda db: 0
    fits: Callable[[str, Mapping[str, object]], bool] = lambda table, row: True
    earlier: tuple[Callable[[Path], sqlite3.Connection], ...] = ()
    """Make a new file as earlier versions did, whose lists of tables are in other pages; also a file that was migrated since keeps
    those."""


class Saved(msgspec.Struct, frozen=True):
    """The result. `kept` is the path of the damaged file, None if it is not damaged. `rows` counts the rows of each table in the
    new file. `missing` is what `Layout.derive` found to be lost, `left_out` the rows whose values fit no column."""

    kept: Path | None = None
    rows: dict[str, int] = {}
    missing: int = 0
    left_out: int = 0


def salvage(path: Path, layout: Layout, report: Callable[[str], object] = lambda text: None) -> Saved:
    """Replace a damaged file with a new one that has all readable rows. The damaged file is renamed. `report` gets the progress with
    a large file, in words. Raises UsageError if a process uses it, StoreError if the file belongs to another program or a newer
    Friday, OSError if nothing can be written. Blocks."""
    _check_unowned(path, layout)
    size = path.stat().st_size
    if size < LARGE:
        report = lambda text: None  # noqa: E731
    report(f"checking {size / 1_000_000:.0f} MB")
    with tempfile.TemporaryDirectory(prefix="repair-", dir=path.parent) as folder:
        work, new = Path(folder, "damaged.db"), Path(folder, "new.db")
        for end in ("", "-wal"):  # opening a file changes it (checkpoint of the log), so a copy is opened
            if Path(f"{path}{end}").exists():
                shutil.copyfile(f"{path}{end}", f"{work}{end}")
        if _is_whole(work, path, layout):
            return Saved()
        found = _copy_readable(work, new, layout, report)
        _check_unowned(path, layout)
        kept = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}")
        for end in ("", "-wal"):
            if Path(f"{path}{end}").exists() and (not end or Path(f"{path}{end}").stat().st_size):
                _link_or_copy(Path(f"{path}{end}"), Path(f"{kept}{end}"))
        for end in ("-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)  # SQLite would use it as the log of the new file
        os.replace(new, path)
    return msgspec.structs.replace(found, kept=kept)


def _check_unowned(path: Path, layout: Layout) -> None:
    """Raise UsageError if a process uses the file."""
    for lock in (path.parent / layout.locks).glob("*.lock"):
        if locks.is_owned(lock.parent, lock.stem):
            raise UsageError(f"{lock.stem[:8]} is open in another friday process.", hint="Close it first.")


def _link_or_copy(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except OSError:  # a file system without links
        shutil.copyfile(file, name)
        name.chmod(0o600)


def _is_whole(work: Path, path: Path, layout: Layout) -> bool:
    """Whether `work`, a copy of the file at `path`, is undamaged. Raises StoreError if it is not Friday's file."""
    if not has_known_version(work):
        return False
    try:
        with closing(layout.connect(work)) as db:
            made = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            derived = {row[0] for row in db.execute(made)} - {*layout.tables}
            for table in (*layout.tables, *sorted(derived)):
                found = db.execute(f"SELECT * FROM {table}")
                names = [column[0] for column in found.description]
                for row in found:  # a text that is no UTF-8 is no damage for SQLite
                    if table in layout.tables and not layout.fits(table, dict(zip(names, row, strict=True))):
                        return False
            return bool(db.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)])
    except (DatabaseDamaged, UnicodeDecodeError):
        return False
    except NewerFile as error:
        if error.same:
            return False
        raise NewerFile(path, error.version, same=False) from None
    except sqlite3.Error as error:
        if isinstance(explain(error, path), DatabaseDamaged):
            return False
        raise explain(error, path) from None
    except StoreError as error:
        raise type(error)(error.message.replace(str(work), str(path)), hint=error.hint) from None


def _copy_readable(damaged: Path, new: Path, layout: Layout, report: Callable[[str], object]) -> Saved:
    """Create the file `new` with every readable row of `damaged`, and the rows that are derived from them."""
    firsts = [_first_page(layout.connect, new)]
    firsts += [_first_page(make, new.with_name(f"earlier-{n}.db")) for n, make in enumerate(layout.earlier)]
    report("the file is damaged; reading what is left of it")
    _replace_header(damaged, firsts, layout)
    with closing(layout.connect(new)) as db, closing(sqlite3.connect(damaged)) as old:
        old.text_factory = _text
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        left_out = sum(_rows(old, db, table, layout) for table in layout.tables)
        roots = _roots(old, layout.searched)
        old.close()
        for root in roots:
            _add_unreachable(damaged, db, root, layout, report)
        searched = db.execute(f"SELECT count(*) FROM {layout.searched}").fetchone()[0]
        missing = layout.derive(db)
        db.execute("COMMIT")
        rows = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in layout.tables}
        rows[layout.searched] = searched  # without those that were derived
        return Saved(None, rows, missing, left_out)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _first_page(make: Callable[[Path], sqlite3.Connection], path: Path) -> bytes:
    """The first page of a new file."""
    with closing(make(path)) as db:
        page_size = int(db.execute("PRAGMA page_size").fetchone()[0])
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()[:page_size]


def _replace_header(damaged: Path, firsts: Sequence[bytes], layout: Layout) -> None:
    """Give the file the header of a new one, and its full length: SQLite reads nothing of a file whose header is damaged or names
    more pages than there are. The whole first page, with the list of tables, is replaced if that cannot be read, by the one of
    `firsts` with which it can: every file that began with the same schema has its tables in the same pages."""
    new, page_size, size = firsts[0], len(firsts[0]), damaged.stat().st_size
    with damaged.open("r+b") as file:
        found = file.read(HEADER)
        named = int.from_bytes(found[28:32], "big") if found[:20] == new[:20] else 0
        pages = max(size // page_size, min(named, MOST_PAGES), 1)
        header = new[:28] + pages.to_bytes(4, "big") + bytes(8) + new[40:HEADER]  # 8: no list of free pages
        file.truncate(size // page_size * page_size)  # a part of a page would give rows that are not complete
        file.truncate(pages * page_size)
        file.seek(0)
        file.write(header)
    for first in firsts:
        if _has_tables(damaged, layout):
            break
        with damaged.open("r+b") as file:
            file.write(header + first[HEADER:])


def _roots(old: sqlite3.Connection, table: str) -> list[int]:
    """The number of the first page of a table, in a list that is empty if it cannot be read."""
    try:
        return [row[0] for row in old.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))]
    except UNREADABLE:
        return []


def _add_unreachable(
    damaged: Path, db: sqlite3.Connection, root: int, layout: Layout, report: Callable[[str], object]
) -> None:
    """Add the rows in pages to which no readable page leads: each takes the place of the first page of the table, so
    that SQLite reads it. Rows of other tables do not fit into the columns and are left out."""
    page_size, vacuums = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_size", "auto_vacuum"))
    pages = list(_leaves(damaged, page_size, has_map=bool(vacuums)))
    with damaged.open("r+b", buffering=0) as file, closing(sqlite3.connect(damaged)) as old:
        old.text_factory = _text
        file.seek(18)
        file.write(b"\1\1")  # without a write-ahead log
        for count, number in enumerate(pages, 1):
            if 10 * count // len(pages) > 10 * (count - 1) // len(pages):
                report(f"searching its pages for more rows: {100 * count // len(pages)} %")
            file.seek((number - 1) * page_size)
            page = file.read(page_size)
            file.seek((root - 1) * page_size)
            file.write(page)
            file.seek(24)
            file.write(count.to_bytes(4, "big"))  # the change counter: SQLite drops the pages that it read before
            _rows(old, db, layout.searched, layout)


def _leaves(damaged: Path, page_size: int, *, has_map: bool) -> Iterator[int]:
    """The numbers of the pages with rows of tables. Free pages, which may have deleted rows, are left out by
    the pointer map, the first page of each group, if there is one."""
    group = page_size // 5 + 1
    with damaged.open("rb") as file:
        file.seek(page_size)
        number, kinds = 2, b""
        while len(page := file.read(page_size)) == page_size:
            at = (number - 2) % group
            if at == 0 and has_map:
                kinds = page
            elif page[0] == TABLE_LEAF and (not has_map or kinds[(at - 1) * 5] == PART_OF_TABLE):
                yield number
            number += 1


def _has_tables(path: Path, layout: Layout) -> bool:
    try:
        with closing(sqlite3.connect(path)) as db:
            return any(row[0] in layout.tables for row in db.execute("SELECT name FROM sqlite_master"))
    except UNREADABLE:
        return False


def _rows(old: sqlite3.Connection, db: sqlite3.Connection, table: str, layout: Layout) -> int:
    """Copy the rows of a table. Returns how many were left out, because a value does not fit its column."""
    known = {row[1]: row for row in db.execute(f"PRAGMA table_info({table})")}
    try:
        columns = [row[1] for row in old.execute(f"PRAGMA table_info({table})") if row[1] in known]
    except UNREADABLE:
        return 0  # the list of tables cannot be read
    if not columns:
        return 0
    kinds, left_out = [VALUES[known[name][2]] for name in columns], 0
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    if table == "memories" and "promoted" not in columns:  # the first schema: all are visible to everyone
        names, marks = f"{names}, promoted", f"{marks}, 1"
    key = [row[1] for row in sorted(known.values(), key=lambda row: int(row[5])) if row[5]]
    for row in (
        _readable_by_key(old, table, columns, key)
        if _is_keyed(db, table)
        else _readable(old, f"SELECT rowid, {', '.join(columns)} FROM {table} WHERE rowid > ? ORDER BY rowid")
    ):
        try:
            fits = all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True))
            if not (fits and layout.fits(table, dict(zip(columns, row, strict=True)))):
                raise ValueError
            db.execute(f"INSERT OR IGNORE INTO {table}({names}) VALUES ({marks})", row)
        except (sqlite3.Error, ValueError):
            left_out += 1
    return left_out


def _is_keyed(db: sqlite3.Connection, table: str) -> bool:
    """Whether the rows of a table have a key instead of a number."""
    ((sql,),) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,))
    return str(sql).endswith("WITHOUT ROWID")


def _readable_by_key(
    old: sqlite3.Connection, table: str, columns: Sequence[str], key: Sequence[str]
) -> Iterator[Sequence[object]]:
    """The rows of a table without row numbers, from its beginning and from its end to the first that cannot be read."""
    for order in ("", " DESC"):
        try:
            ordered = ", ".join(f"{name}{order}" for name in key)
            yield from old.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {ordered}")
            return
        except UNREADABLE:
            continue


def _readable(old: sqlite3.Connection, query: str) -> Iterator[Sequence[object]]:
    """The rows of a table in the order of their numbers, without those that cannot be read. A page that is damaged in
    its middle gives rows with wrong numbers, which never end if they are believed."""
    after: int | None = -1
    while after is not None:
        try:
            for number, *row in old.execute(query, (after,)):
                if number <= after:
                    break
                yield row
                after = number
            else:
                return
        except UNREADABLE:
            pass
        after = _next_readable(old, query, after)


def _next_readable(old: sqlite3.Connection, query: str, after: int) -> int | None:
    """The lowest row number above `after` from which rows can be read again, None if there is none. Found by
    exponential and then binary search."""

    def reads(number: int) -> bool:
        try:
            row = old.execute(f"{query} LIMIT 1", (number,)).fetchone()
        except UNREADABLE:
            return False
        return row is None or row[0] > number

    step = 1
    while not reads(after + step):
        step *= 2
        if after + step > LAST:
            return None
    low, high = after + step // 2, after + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reads(middle) else (middle, high)
    return high
