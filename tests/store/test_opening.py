from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from friday_cli.core.protocol.errors import StoreError
from friday_cli.store import migrations, schema, writer
from friday_cli.store.repair import repair
from friday_cli.store.schema import explain
from friday_cli.store.store import Store
from tests.scenarios import tree
from tests.store.files import content_of, put, sql


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_folder_and_files_are_private(store: Store, session: str, path: Path) -> None:
    with await store.own(session):
        assert mode(path.parent) == mode(path.parent / "locks") == 0o700
        assert {mode(file) for file in path.parent.rglob("*") if file.is_file()} == {0o600}


async def test_writes_ahead_where_the_file_system_can(store: Store, path: Path) -> None:
    path.parent.mkdir(mode=0o755)
    await store.open()
    assert mode(path.parent) == 0o700, "an open folder of ours is closed to others"
    assert sql(path, "PRAGMA journal_mode") == [("wal",)]
    assert not schema.is_network(schema.file_system(path.parent))


async def test_on_a_network_folder_it_does_without(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "is_network", lambda kind: True)
    first, second = Store(path), Store(path)
    session = await first.create_session("/work")
    await first.journal(session).append(tree(session))
    assert await second.events(session) == tree(session)
    assert sql(path, "PRAGMA journal_mode") != [("wal",)]
    assert not path.with_name("friday.db-wal").exists()
    await first.close()
    await second.close()


@pytest.mark.parametrize("content", [b"this is no database at all " * 100, b"SQLite format 3\x00" + b"\xff" * 4000])
async def test_a_damaged_file_is_named_and_left_alone(store: Store, path: Path, content: bytes) -> None:
    put(path, content)
    for call in (store.open(), store.list_sessions(), store.create_session("/work")):
        with pytest.raises(StoreError) as caught:
            await call
        assert str(path) in caught.value.message
        assert "damaged" in caught.value.message
        assert "Nothing was changed" in caught.value.message
        assert "backup" in caught.value.hint
    await store.close()
    assert content_of(path) == content
    assert names(path.parent) == ["friday.db"]


async def test_a_newer_form_is_refused_and_kept(path: Path) -> None:
    async with Store(path) as store:
        await store.create_session("/work")
    sql(path, "CREATE TABLE later(x)")
    sql(path, "PRAGMA user_version = 99")
    before = content_of(path)
    async with Store(path) as newer:
        with pytest.raises(
            StoreError, match=rf"newer Friday \(schema 99; this one knows {len(schema.MIGRATIONS)}\)"
        ) as caught:
            await newer.list_sessions()
    assert "Update Friday" in caught.value.hint
    with pytest.raises(StoreError, match="newer Friday"):
        repair(path)
    assert content_of(path) == before


@pytest.mark.parametrize("version", [99, 2**24])
async def test_a_number_of_a_newer_form_with_the_tables_of_this_one_is_damage(path: Path, version: int) -> None:
    async with Store(path) as store:
        session = await store.create_session("/work")
        await store.journal(session).append(tree(session))
    sql(path, f"PRAGMA user_version = {version}")
    async with Store(path) as damaged:
        with pytest.raises(StoreError) as caught:
            await damaged.list_sessions()
    assert "friday sessions repair" in caught.value.hint
    assert repair(path).sessions == 1
    async with Store(path) as store:
        assert len(await store.list_sessions()) == 1


async def test_an_older_form_is_brought_up_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Store(path) as store:
        session = await store.create_session("/work")
        await store.journal(session).append(tree(session))
    runs = []

    def second_form(db: sqlite3.Connection) -> None:
        runs.append(1)
        db.execute("ALTER TABLE sessions ADD COLUMN colour TEXT")

    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, second_form])
    for _ in range(2):
        async with Store(path) as store:
            assert await store.events(session) == tree(session)
    assert runs == [1]


async def test_memories_of_the_first_form_count_as_promoted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", [migrations.initial_schema])
        async with Store(path) as store:
            await store.sync()
    for number, agent in ((3, "s1:a"), (7, "s1:a.2")):
        values = f"({number}, 'project', '/work', 'old {number}', '[\"t\"]', '{agent}', 5.0)"
        index = f"INSERT INTO memory_words(rowid, text, tags) VALUES ({number}, 'old {number}', 't')"
        sql(path, f"INSERT INTO memories VALUES {values}", index)
    async with Store(path) as store:
        notes = store.notes.for_session("/work", "s2")
        found = await notes.load("old", tags=["t"], limit=9, agent="a")
        seen = sorted((i.id, i.agent, i.at, i.promoted) for i in found)
        assert seen == [("3", "s1:a", 5.0, True), ("7", "s1:a.2", 5.0, True)]
        assert (await notes.save("new", scope="user", tags=[], agent="a")).id == "8"


async def test_a_migration_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bad_form(db: sqlite3.Connection) -> None:
        db.execute("ALTER TABLE sessions ADD COLUMN colour TEXT")
        db.execute("ALTER TABLE nowhere ADD COLUMN colour TEXT")

    async with Store(path) as store:
        session = await store.create_session("/work")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, bad_form])
        async with Store(path) as store:
            with pytest.raises(StoreError):
                await store.open()
    async with Store(path) as store:
        assert await store.find(session[:8]) == session
        assert "colour" not in str(sql(path, "SELECT sql FROM sqlite_master"))


async def test_a_defect_while_opening_reaches_who_waits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(path: Path) -> sqlite3.Connection:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(writer, "connect", defect)
    with pytest.raises(StoreError, match="RuntimeError: unforeseen"):
        await store.create_session("/work")


async def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file" / "friday.db", tmp_path / "file" / "deeper" / "friday.db"):
        async with Store(path) as store:
            with pytest.raises(StoreError, match="Sessions cannot be saved in") as caught:
                await store.create_session("/work")
            assert "FRIDAY_HOME" in caught.value.hint


async def test_a_folder_in_place_of_the_file_is_said(store: Store, path: Path) -> None:
    put(path / "file", b"")
    with pytest.raises(StoreError, match="cannot be opened"):
        await store.open()


@pytest.mark.parametrize("made_anew", [False, True])
async def test_a_file_removed_while_open_is_said(store: Store, session: str, path: Path, made_anew: bool) -> None:
    """SQLite would write into a file without a name, and everything be lost without a word."""
    path.parent.rename(path.parent.with_name("elsewhere"))
    if made_anew:
        async with Store(path) as other:
            await other.create_session("/work")
    with pytest.raises(StoreError, match="is gone: it was moved or removed") as caught:
        await store.journal(session).append(tree(session))
    assert "Put it back" in caught.value.hint


def test_a_file_that_another_process_creates_meanwhile_is_not_called_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(sqlite3.Connection):
        """Lets another process create the file as soon as it finds no table, unless its own read is not over."""

        def execute(self, sql: str, *args: object) -> sqlite3.Cursor:  # type: ignore[override]
            if sql == "PRAGMA user_version" and not self.in_transaction:
                monkeypatch.undo()
                schema.connect(path).close()
            return super().execute(sql, *args)  # type: ignore[arg-type]

    def plain_connection(path: Path) -> sqlite3.Connection:
        return sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False, factory=Interrupted)

    monkeypatch.setattr(schema, "_plain_connection", plain_connection)
    schema.connect(path).close()


async def test_a_store_whose_thread_cannot_start_is_closed_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the limit of processes is reached (`ulimit -u`)."""

    def no_more(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    store = Store(path)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more)
        with pytest.raises(RuntimeError, match="new thread"):
            await store.create_session("/work")
    await asyncio.wait_for(store.close(), 10)


@pytest.mark.parametrize(
    ("left", "words"), [(0, "The disk is full: "), (9, "cannot be read or written: disk I/O error")]
)
def test_a_disk_that_is_too_full_to_open_the_file_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch, left: int, words: str
) -> None:
    """SQLite only says "disk I/O error" where it cannot make the files beside it."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(f_bavail=left))
    assert words in str(explain(error, path))
