"""Items that people have as tables: CSV with a header, a query of a SQLite file, and Parquet. Rows are read one by one."""

from __future__ import annotations

import csv
import io
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import msgspec

from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.text.sanitize import sanitize_line

LONGEST_CELL = 4_000_000
"""Characters of one cell."""
LARGEST_ROW = 64_000_000
"""Bytes of a row of a SQLite file."""
MOST_ROWS = 10_000_000
"""Rows of a table: a view of SQLite may have no end, and a small Parquet file any number."""
STEPS = 100_000
"""Steps of SQLite between two looks for a signal."""
SQLITE = (".db", ".sqlite", ".sqlite3")
"""How the names of SQLite files end."""
Row = tuple[str, dict[str, Any], str]
"""Where a row is, its fields, and why it cannot be used ("" if it can)."""


def is_table(name: str, query: str) -> bool:
    """Whether a file of items is a table, by its name; a query makes it one. Raises UsageError for a SQLite file without a query."""
    ending = Path(name).suffix.lower()
    if ending in SQLITE and not query:
        raise UsageError(f"--items: {name} is a SQLite file: add --query 'select ...'.")
    return bool(query) or ending in (".csv", ".tsv", ".parquet")


def rows(path: Path, name: str, query: str, file: BinaryIO) -> Iterator[Row]:
    """The rows of a table. `file` is the open file, which is closed. Raises UsageError or FileError for a table that cannot be read."""
    if query:
        file.close()
        return _of_query(path, name, query)
    if path.suffix.lower() == ".parquet":
        return _of_parquet(file, name)
    return _of_csv(file, name, "\t" if path.suffix.lower() == ".tsv" else "")


def _of_csv(file: BinaryIO, name: str, separator: str) -> Iterator[Row]:
    """The first row has the names of the columns. Without a `separator` it is a comma, or the semicolon of spreadsheets."""
    csv.field_size_limit(LONGEST_CELL)
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        line = 1
        try:
            first = text.readline(LONGEST_CELL)
            separator = separator or (";" if first.count(";") > first.count(",") else ",")
            # the header may have line breaks in quotes, so it is read again with the rest
            lines = csv.reader(_after(first, text, name), delimiter=separator, strict=True)
            columns = _columns(next(lines, []), name)
            for cells in lines:
                line, where = lines.line_num, f"{name}:{lines.line_num}"
                if not cells:
                    continue
                if len(cells) != len(columns):
                    yield where, {}, f"has {len(cells)} cells, the header has {len(columns)}"
                else:
                    yield where, dict(zip(columns, cells, strict=True)), ""
        except csv.Error as error:
            raise UsageError(f"{name}: line {line} or the one after it is not CSV: {error}.") from None
        except UnicodeDecodeError:
            raise UsageError(f"{name}: after line {line}: it is not UTF-8 text.", hint="Save it as UTF-8.") from None


def _after(first: str, rest: io.TextIOWrapper, name: str) -> Iterator[str]:
    """The lines of a file of which `first` was read. Raises UsageError for one that is too long."""
    line = first
    while line:
        if len(line) == LONGEST_CELL:
            raise UsageError(f"{name}: a line is longer than {LONGEST_CELL:,} characters.")
        yield line
        line = rest.readline(LONGEST_CELL)


def _columns(names: Sequence[str], table: str) -> list[str]:
    """The names of the columns. Raises UsageError for a name that is missing or there twice."""
    found = [name.strip() for name in names]
    if not any(found):
        raise UsageError(f"{table} has no header: its first row must name the columns.")
    for number, name in enumerate(found, 1):
        if not name:
            raise UsageError(f"{table}: column {number} has no name.")
        if found.count(name) > 1:
            raise UsageError(f"{table}: two columns have the name {name!r}.")
    return found


def _of_query(path: Path, name: str, query: str) -> Iterator[Row]:
    if not path.is_file():
        raise UsageError(f"--items: {name} is not a file, so it cannot be a SQLite file.")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as db:
            confine(db)
            db.execute("PRAGMA query_only = ON")
            found = db.execute(query)
            if found.description is None:
                raise UsageError(f"--query: {query!r} returns no rows. Write a select.")
            columns = _columns([column[0] for column in found.description], "--query")
            for number, values in enumerate(found, 1):
                if number > MOST_ROWS:
                    raise UsageError(f"--query: it returns more than {MOST_ROWS:,} rows.")
                yield f"{name} row {number}", _plain(dict(zip(columns, values, strict=True))), ""
    except sqlite3.Error as error:
        raise UsageError(f"--query: {name}: {error}.") from None


def confine(db: sqlite3.Connection) -> None:
    """What a file of somebody else does when it is used (views, triggers, virtual tables) has limits: of size, no
    other file is attached, its schema calls no function with effects, and Ctrl+C ends what runs for ever."""
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_ROW)
    db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    db.execute("PRAGMA trusted_schema = OFF")
    db.set_progress_handler(lambda: 0, STEPS)  # Python looks for signals when it is called


def _of_parquet(file: BinaryIO, name: str) -> Iterator[Row]:
    if find_spec("pyarrow") is None:
        hint = "Run `pip install 'friday-cli[tables]'`."
        raise UsageError(f"{name}: Parquet files need pyarrow, which is not installed.", hint=hint)
    command = [sys.executable, "-P", "-m", f"{__package__}.parquet_rows"]
    with file:
        reader = subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert reader.stdout is not None
    try:
        for number, values in enumerate(map(msgspec.json.decode, reader.stdout)):
            if values is None:
                return
            if isinstance(values, str):
                raise FileError(name, sanitize_line(values, 250))
            if number > MOST_ROWS:
                raise UsageError(f"{name}: it has more than {MOST_ROWS:,} rows.")
            if number:
                yield f"{name} row {number}", values, ""
            else:
                _columns(values, name)
    except msgspec.DecodeError:  # it ended within a line
        pass
    finally:
        reader.stdout.close()
        reader.kill()
        if reader.returncode is None:  # it ends at once: nothing waits on the event loop
            _, reader.returncode = os.waitpid(reader.pid, 0)
    raise FileError(name, "cannot be read: the library that reads it ended")


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Fields as JSON has them: times as ISO 8601, decimals as text, bytes in Base64."""
    return {name: msgspec.to_builtins(value, enc_hook=str) for name, value in values.items()}
