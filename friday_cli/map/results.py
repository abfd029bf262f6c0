"""Writes the results of a batch to the file that the person named: JSON lines, CSV, or a table of a SQLite file."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.known_keys import mask_keys_in
from friday_cli.core.text.sanitize import escape_json, sanitize

from . import report
from .job import MapJob
from .sources import BatchItem
from .store import MapStore
from .tables import SQLITE, confine
from .template import WHOLE

KNOWN = ("item", "key", "state", "result", "error", "cost_usd", "tokens", "attempts", "agent", "branch", "receipt")
"""What is known of each item; `agent` is the name of its receipt for `friday sessions show`."""
TABLE = "friday_results"
PAGE = 500
"""Rows that are written at once."""
_FORMULA = re.compile(r"[=+\-@\t\r](?![\d.]+\Z)")


def is_sqlite(job: MapJob) -> bool:
    """Whether the results go into a SQLite file."""
    return Path(job.output).suffix.lower() in SQLITE


def require_output(job: MapJob, first: BatchItem | None) -> None:
    """Raises UsageError for results that could not be written: they are written after everything was paid. `first`: an item."""
    if job.table and not is_sqlite(job):
        raise UsageError(f"--output-table needs --output with a SQLite file ({', '.join(SQLITE)}).")
    path = os.path.join(job.folder, job.output)
    new = not os.path.lexists(path)
    try:
        if job.output:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK))
            if new:
                os.unlink(path)
    except OSError as error:
        raise UsageError(f"--output: {job.output} cannot be written: {error.strerror}.") from None
    if is_sqlite(job) and not new:
        _require_table(job, path, _names({} if first is None else first.fields))


def _require_table(job: MapJob, path: str, names: Sequence[str]) -> None:
    """Raises UsageError if the table for the results has other columns: it is somebody else's."""
    try:
        with closing(sqlite3.connect(path, timeout=5.0)) as db:
            found = {str(row[1]).lower() for row in db.execute(f"PRAGMA table_info({_quoted(job.table or TABLE)})")}
    except sqlite3.Error as error:
        raise UsageError(f"--output: {job.output} is not a SQLite file that can be used: {error}.") from None
    missing = [name for name in ("batch", "number", *names) if name.lower() not in found]
    if found and missing:
        raise UsageError(
            f"--output: the table {job.table or TABLE} in {job.output} has no column {', '.join(missing)}.",
            hint="Name another table with --output-table: it is made.",
        )


async def as_rows(store: MapStore, batch: str, job: MapJob) -> AsyncIterator[dict[str, Any]]:
    """The results of all items in their order, without keys of services in them."""
    async for place in report.places(store, batch):
        yield mask_keys_in(report.as_data(place, job))


def as_line(row: Mapping[str, Any]) -> str:
    """A result as a line of JSON."""
    return escape_json(json.dumps(row, ensure_ascii=False))


async def write(store: MapStore, batch: str, job: MapJob) -> None:
    """Write the results to the file that the job names. Raises FridayError; nothing is lost then."""
    rows, path = as_rows(store, batch, job), os.path.join(job.folder, job.output)
    try:
        if is_sqlite(job):
            await _to_sqlite(rows, path, job.table or TABLE, batch)
            return
        file = await asyncio.to_thread(open, path, "w", encoding="utf-8", errors="replace", newline="")
        with file:
            if path.lower().endswith(".csv"):
                await _to_csv(rows, file)
            else:
                async for row in rows:
                    file.write(as_line(row) + "\n")
    except (OSError, sqlite3.Error) as error:
        raise FridayError(
            f"--output: {job.output} could not be written: {getattr(error, 'strerror', None) or error}.",
            hint=f"Nothing is lost: `friday map results {batch}` prints the results.",
        ) from None


async def _to_csv(rows: AsyncIterator[dict[str, Any]], file: Any) -> None:
    out = csv.writer(file)
    names: tuple[str, ...] = ()
    async for row in rows:
        if not names:
            names = _names(row["fields"])
            out.writerow(names)
        out.writerow([_cell(value) for value in _values(row, names)])


async def _to_sqlite(rows: AsyncIterator[dict[str, Any]], path: str, table: str, batch: str) -> None:
    """Replace the rows of the batch, all at once."""
    with closing(await asyncio.to_thread(sqlite3.connect, path, check_same_thread=False)) as db, db:
        confine(db)
        page: list[tuple[Any, ...]] = []
        names: tuple[str, ...] = ()
        number = 0
        async for row in rows:
            if not names:
                names = _names(row["fields"])
                columns = ", ".join(map(_quoted, names))
                await asyncio.to_thread(_begin, db, table, columns, batch)
                insert = f"INSERT INTO {_quoted(table)} (batch, number, {columns}) VALUES (?, ?{', ?' * len(names)})"
            number += 1
            page.append((batch, number, *_values(row, names)))
            if len(page) == PAGE:
                await asyncio.to_thread(db.executemany, insert, page)
                page = []
        if page:
            await asyncio.to_thread(db.executemany, insert, page)
        kept = (
            db.execute(f"SELECT count(*) FROM {_quoted(table)} WHERE batch = ?", (batch,)).fetchone()[0]
            if number
            else 0
        )
        if kept != number:
            raise sqlite3.IntegrityError(
                f"{table} kept {kept} of {number} rows; a trigger or a view of this file changes them"
            )


def _begin(db: sqlite3.Connection, table: str, columns: str, batch: str) -> None:
    db.execute(
        f"CREATE TABLE IF NOT EXISTS {_quoted(table)} (batch TEXT NOT NULL, number INTEGER NOT NULL, {columns},"
        " PRIMARY KEY (batch, number))"
    )
    db.execute(f"DELETE FROM {_quoted(table)} WHERE batch = ?", (batch,))


def _names(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns: the fields of the first item, then what is known of it. A field with such a name gets `item_` before it."""
    taken = {"batch", "number", *KNOWN}
    own = [f"item_{name}" if name.lower() in taken else name for name in fields if name not in (WHOLE, "content")]
    return (*dict.fromkeys(own), *KNOWN)


def _values(row: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """The values of columns; what a table cannot hold as JSON."""
    fields = row["fields"]
    return [_stored(row[n] if n in KNOWN else fields.get(n, fields.get(n.removeprefix("item_")))) for n in names]


def _stored(value: Any) -> Any:
    """A value as both kinds of table hold it."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int):
        return value if abs(value) < 2**63 else str(value)
    return value if isinstance(value, float | None) else json.dumps(value, ensure_ascii=False)


def _cell(value: Any) -> Any:
    """A cell of a CSV file. Text that a spreadsheet would run as a formula gets an apostrophe before it."""
    text = sanitize(value) if isinstance(value, str) else value
    return f"'{text}" if isinstance(text, str) and _FORMULA.match(text) else text


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
