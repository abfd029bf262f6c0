"""`friday map` with items from tables, and with results in tables."""

from __future__ import annotations

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.cli.console import CommandResult, Console
from tests.cli.test_map import service
from tests.map.service import Service
from tests.servers.fake_model_server import Say

__all__ = ["service"]
TASK = "Look at <<{id}>>: {note}"
ROWS = [("a1", "first, with a comma"), ("a2", 'a "quote"\nand a line'), ("a3", "")]


def batch(console: Console, items: str, *more: str, task: str = TASK) -> CommandResult:
    argv = ("--items", items, "--task", task, "--max-cost", "5", "--yes", "--parallel", "1")
    return console("map", "summarizer", *argv, *more)


def write_csv(console: Console, name: str, rows: list[tuple[str, ...]], **how: Any) -> None:
    with (console.project / name).open("w", newline="", encoding=how.pop("encoding", "utf-8")) as file:
        csv.writer(file, **how).writerows(rows)


def write_db(console: Console, name: str = "people.db") -> None:
    with closing(sqlite3.connect(console.project / name)) as db, db:
        db.execute("CREATE TABLE people (id TEXT, note TEXT, state INTEGER)")
        db.executemany("INSERT INTO people VALUES (?, ?, 7)", ROWS)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("items.csv", {}),
        ("items.csv", {"delimiter": ";", "encoding": "utf-8-sig"}),
        ("items.tsv", {"delimiter": "\t"}),
    ],
)
def test_rows_of_a_csv_file_are_items(console: Console, service: Service, name: str, how: dict[str, Any]) -> None:
    write_csv(console, name, [("id", "note"), *ROWS], **how)
    ran = batch(console, name)
    assert ran.code == 0, ran
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert [(row["fields"]["id"], row["fields"]["note"]) for row in found] == ROWS
    assert json.loads(found[0]["fields"]["item"]) == {"id": "a1", "note": "first, with a comma"}
    assert service.asked == {"a1": 1, "a2": 1, "a3": 1}
    assert 'Look at <<a2>>: a "quote"\nand a line' in service.model_server.turns[1].asked_for


def test_a_query_of_a_sqlite_file_gives_items_and_its_results_go_back_into_it(
    console: Console, service: Service
) -> None:
    write_db(console)
    service.say = lambda turn: Say('{"kind": "=HYPERLINK(1)"}')
    query = ("--query", "select id, note, state from people where id != 'a3' order by id", "--schema", "{}")
    into = ("--output", "people.db", "--output-table", "kinds")
    for _ in range(2):
        ran = batch(console, "people.db", *query, *into)
        assert (ran.code, service.requests) == (0, 2), ran
    with closing(sqlite3.connect(console.project / "people.db")) as db:
        rows = db.execute("SELECT number, id, item_state, state, result, cost_usd, agent, key FROM kinds").fetchall()
        assert db.execute("SELECT count(*) FROM people").fetchone() == (3,)
    assert [row[:6] for row in rows] == [
        (1, "a1", 7, "done", '{"kind": "=HYPERLINK(1)"}', 7.5e-05),
        (2, "a2", 7, "done", '{"kind": "=HYPERLINK(1)"}', 7.5e-05),
    ]
    for *_, receipt, key in rows:
        assert console.ok("sessions", "show", receipt)
        assert len(key) == 64
    refused = batch(console, "people.db", *query, "--output", "people.db", "--output-table", "people")
    assert "the table people in people.db has no column batch, number, item, key, result" in refused.err
    assert service.requests == 2


def test_results_are_written_as_csv(console: Console, service: Service) -> None:
    write_csv(console, "items.csv", [("id", "note"), *ROWS])
    service.say = lambda turn: Say("=1+cmd()" if "a1" in turn.asked_for else "-4.5")
    ran = batch(console, "items.csv", "--output", "out.csv")
    assert (ran.code, ran.out) == (0, "")
    with (console.project / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["note"], row["state"], row["result"]) for row in rows] == [
        ("a1", ROWS[0][1], "done", "'=1+cmd()"),
        ("a2", ROWS[1][1], "done", "-4.5"),
        ("a3", "", "done", "-4.5"),
    ]
    assert float(rows[0]["cost_usd"]) > 0
    assert rows[0]["agent"].endswith(":a.1")


def test_the_files_of_a_folder_are_items(console: Console, service: Service) -> None:
    (console.project / "docs" / "deep").mkdir(parents=True)
    (console.project / "docs" / "deep" / "x.md").write_text("text of x")
    (console.project / "y.md").write_text("not this one")
    ran = batch(console, "docs", "--glob", "**/*.md", task="Look at <<{name}>> {path}: {content}")
    (row,) = map(json.loads, ran.out.splitlines())
    assert row["fields"] == {"item": "docs/deep/x.md", "path": "docs/deep/x.md", "name": "x.md"}
    assert "text of x" in service.model_server.turns[0].asked_for


@pytest.mark.parametrize(
    ("items", "more", "words"),
    [
        ("items.csv", ("--task", "{nme}"), "no item has the field nme. items.csv:2 has: id, item, note."),
        ("twice.csv", (), "two columns have the name 'id'"),
        ("empty.csv", (), "has no header"),
        ("short.csv", (), "short.csv:3: has 1 cells, the header has 2"),
        ("open.csv", (), "is not CSV: unexpected end of data"),
        ("latin.csv", (), "it is not UTF-8 text"),
        ("people.db", (), "is a SQLite file: add --query"),
        ("people.db", ("--query", "select x from people"), "--query: people.db: no such column: x"),
        ("people.db", ("--query", "delete from people"), "attempt to write a readonly database"),
        ("people.db", ("--query", "select 1, 1"), "two columns have the name '1'"),
        ("items.csv", ("--output-table", "t"), "--output-table needs --output with a SQLite file"),
        ("items.csv", ("--output", "items.db"), "items.db is not a SQLite file that can be used"),
        (".", (), "is a folder: add --glob"),
    ],
)
def test_bad_tables_are_one_line_before_anything_is_spent(
    console: Console, service: Service, items: str, more: tuple[str, ...], words: str
) -> None:
    write_csv(console, "items.csv", [("id", "note"), *ROWS])
    write_csv(console, "twice.csv", [("id", "id")])
    write_csv(console, "short.csv", [("id", "note"), ("1", "2"), ("1",)])
    (console.project / "empty.csv").write_text("\n")
    (console.project / "open.csv").write_text('id,note\n1,"open')
    (console.project / "latin.csv").write_bytes("id,note\n1,é\n".encode("latin-1"))
    (console.project / "items.db").write_text("no data base" * 100)
    write_db(console)
    ran = batch(console, items, *more)
    assert words in ran.err
    if items != "short.csv":
        assert (ran.code, ran.out, service.requests) == (2, "", 0)


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed: pip install 'friday-cli[tables]'")
def test_rows_of_a_parquet_file_are_items(console: Console, service: Service) -> None:
    import datetime

    import pyarrow
    from pyarrow import parquet

    day = [datetime.date(2026, 11, 27)] * 3
    columns = {"id": [a for a, _ in ROWS], "note": [b for _, b in ROWS], "day": day, "raw": [b"\x00"] * 3}
    parquet.write_table(pyarrow.table(columns), console.project / "items.parquet")
    ran = batch(console, "items.parquet", task=TASK + " {day}")
    assert ran.code == 0, ran
    assert json.loads(ran.out.splitlines()[0])["fields"]["day"] == "2026-11-27"
    whole = (console.project / "items.parquet").read_bytes()
    for at in range(12, len(whole), len(whole) // 12):
        (console.project / "bad.parquet").write_bytes(whole[: at - 12] + bytes(12) + whole[at:])
        ran = batch(console, "bad.parquet")
        assert ran.code == 0 or "bad.parquet: cannot be read: " in ran.err or "no item has the field" in ran.err
    parquet.write_table(pyarrow.table({"id": ["x" * 70_000_000]}), console.project / "bad.parquet")
    assert "up to 500 of its rows are more than 64 MB" in batch(console, "bad.parquet", task="{id}").err


def test_a_parquet_file_that_ends_its_library_is_one_line(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("friday_cli.map.tables.find_spec", lambda name: True)
    monkeypatch.setattr("friday_cli.map.tables.sys.executable", "/bin/false")
    (console.project / "items.parquet").write_bytes(b"PAR1")
    ran = batch(console, "items.parquet")
    assert "items.parquet: cannot be read: the library that reads it ended" in ran.err
    assert (ran.code, service.requests) == (2, 0)


def test_parquet_without_its_library_is_one_line(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("friday_cli.map.tables.find_spec", lambda name: None)
    (console.project / "items.parquet").write_bytes(b"PAR1")
    assert "Run `pip install 'friday-cli[tables]'`" in batch(console, "items.parquet").err


# ---- files of somebody else ---------------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE c(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM c) SELECT id, 'x' AS note FROM c"


def write_hostile(console: Console) -> None:
    """A file whose views and triggers do more than they seem to."""
    with closing(sqlite3.connect(console.project / "hostile.db")) as db, db:
        for name, view in {
            "endless": ENDLESS,
            "busy": f"SELECT count(*) AS id, 'x' AS note FROM ({ENDLESS})",
            "huge": "SELECT 1 AS id, zeroblob(900000000) AS note",
            "loads": "SELECT 1 AS id, load_extension('./evil.so') AS note",
            "reads": "SELECT 1 AS id, fts3_tokenizer('simple') AS note",
        }.items():
            db.execute(f"CREATE VIEW {name} AS {view}")
    write_db(console, "out.db")
    with closing(sqlite3.connect(console.project / "out.db")) as db, db:
        columns = "batch, number, id, note, item, key, state, result, error, cost_usd, tokens, attempts, agent, branch, receipt"
        db.execute(f"CREATE TABLE friday_results ({columns})")
        db.execute(
            "CREATE TRIGGER t BEFORE INSERT ON friday_results WHEN NEW.number > 1 BEGIN SELECT RAISE(IGNORE); END"
        )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select * from endless", "--query: it returns more than 1,000 rows"),
        ("select * from huge", "string or blob too big"),
        ("select * from loads", "unsafe use of load_extension"),
        ("select load_extension('./evil.so') as id, 'x' as note", "not authorized"),
        ("select * from reads", "fts3_tokenizer"),
        ("attach 'people.db' as other", "too many attached databases"),
        ("vacuum into 'copy.db'", "too many attached databases"),
        ("pragma writable_schema = on", "returns no rows"),
    ],
)
def test_a_query_of_a_hostile_file_is_one_line(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch, query: str, words: str
) -> None:
    monkeypatch.setattr("friday_cli.map.tables.MOST_ROWS", 1000)
    write_hostile(console)
    ran = batch(console, "hostile.db", "--query", query)
    assert (ran.code, ran.out, service.requests) == (2, "", 0)
    assert words in ran.err
    assert sorted(path.name for path in console.project.glob("*.db")) == ["hostile.db", "out.db"]


def test_ctrl_c_ends_a_query_without_an_end(console: Console, service: Service) -> None:
    write_hostile(console)
    argv = ("map", "summarizer", "--items", "hostile.db", "--query", "select * from busy", "--task", TASK)
    process = subprocess.Popen(
        [sys.executable, "-m", "friday_cli", *argv, "--max-cost", "5", "--yes"],
        cwd=console.project,
        env=console.env,
        stderr=subprocess.PIPE,
    )
    opened = Path(f"/proc/{process.pid}/fd")
    until(
        lambda: any(os.path.basename(os.readlink(one)) == "hostile.db" for one in opened.iterdir() if one.is_symlink())
    )
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[1]
    assert process.returncode


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while True:
        with suppress(FileNotFoundError):
            if reached():
                return
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_rows_that_a_trigger_of_the_file_drops_are_told(console: Console, service: Service) -> None:
    write_hostile(console)
    write_csv(console, "items.csv", [("id", "note"), *ROWS])
    ran = batch(console, "items.csv", "--output", "out.db")
    assert "friday_results kept 1 of 3 rows; a trigger or a view of this file changes them" in ran.err
    assert "Nothing is lost" in ran.err


def test_a_line_of_a_table_without_an_end_is_refused(
    console: Console, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("friday_cli.map.tables.LONGEST_CELL", 100_000)
    for name, text in (("header.csv", "a," * 10**6), ("row.csv", "a,b\n" + "x," * 10**6)):
        (console.project / name).write_text(text)
        assert "a line is longer than 100,000 characters" in batch(console, name).err
    os.mkfifo(console.project / "pipe.db")
    writer = threading.Thread(target=(console.project / "pipe.db").write_bytes, args=(b"x",))
    writer.start()
    assert "is not a file" in batch(console, "pipe.db", "--query", "select 1").err
    writer.join()
