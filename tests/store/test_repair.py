"""A damaged session file: clear words, a copy that is kept, and every row saved that can be read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import StoreError, UsageError
from friday_cli.core.protocol.events import Envelope, Notice
from friday_cli.store import salvage as salvage_module
from friday_cli.store import schema
from friday_cli.store.repair import Repaired, repair
from friday_cli.store.store import Store
from tests.scenarios import numbered, tree
from tests.store import random_damage
from tests.store.files import content_of, put, sql

COUNT = 30
PAGE = 4096


async def fill(path: Path) -> dict[str, list[Envelope]]:
    """A file with sessions of some size, one note among them; gives their logs."""
    store, logs = Store(path), {}
    for number in range(COUNT):
        session = await store.create_session("/work")
        log = tree(session)
        log += numbered(*(("a", Notice(f"{number} {n} " + "x" * 300)) for n in range(20)), first=len(log) + 1)
        await store.journal(session).append(log)
        logs[session] = log
    await store.rename(session, "a name of its own")
    await store.notes.for_session("/work", session).save("the port is 8080", scope="project", tags=["net"], agent="a")
    await store.close()
    return logs


def whole(path: Path) -> bool:
    return bool(sql(path, "PRAGMA integrity_check") == [("ok",)])


def beside(path: Path) -> list[Path]:
    return sorted(file for file in path.parent.iterdir() if file.is_file() and file != path)


async def saved(path: Path, logs: dict[str, list[Envelope]]) -> tuple[int, int]:
    """How many sessions and events are there; each event is the one that was."""
    async with Store(path) as store:
        rows = await store.list_sessions()
        events = 0
        for row in rows:
            found = await store.events(row.id)
            known = {e.seq: e for e in logs.get(row.id, [])} or None
            made = [e for e in found if known and known.get(e.seq) != e]
            assert all(getattr(e.event, "task", "") == "(task lost)" for e in made)
            assert await store.agents(row.id)
            events += len([e for e in found if known is None or (e.seq in known and known[e.seq] == e)])
        await store.reconcile()
        (await store.own(await store.create_session("/work"))).release()  # and new ones can be made
    return len(rows), events


def damage(path: Path, pages: list[int]) -> bytes:
    """Overwrite pages (from 1) with noise; gives the file as it is then."""
    noise = random.Random(1)
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(noise.randbytes(PAGE))
    return path.read_bytes()


@pytest.mark.parametrize("seed", range(6))
async def test_what_noise_left_is_saved_and_the_damaged_file_is_kept(path: Path, seed: int) -> None:
    logs = await fill(path)
    count = len(content_of(path)) // PAGE
    hurt = damage(path, random.Random(seed).sample(range(2, count + 1), 8))
    found = repair(path)
    if found == Repaired():
        return  # noise on pages that were free: nothing was damaged
    assert found.kept is not None
    assert content_of(found.kept) == hurt
    assert beside(path) == [found.kept]
    assert whole(path)
    sessions, events = await saved(path, logs)
    assert sessions == found.sessions
    total = sum(map(len, logs.values()))
    assert events == found.events >= total / 3, f"{events} of {total}"
    assert repair(path) == Repaired(), "it is whole now"


async def test_sessions_whose_rows_are_gone_come_back_from_their_events(path: Path) -> None:
    logs = await fill(path)
    ((page,),) = sql(path, "SELECT rootpage FROM sqlite_master WHERE name = 'sessions'")
    damage(path, [page])
    async with Store(path) as store:
        with pytest.raises(StoreError, match="is damaged") as caught:
            await store.list_sessions()
        assert "friday sessions repair" in caught.value.hint
    found = repair(path)
    assert (found.sessions, found.events, found.missing, found.notes) == (COUNT, sum(map(len, logs.values())), 0, 1)
    assert await saved(path, logs) == (COUNT, found.events)
    async with Store(path) as store:
        assert {row.id for row in await store.list_sessions("/work")} >= logs.keys()
        (note,) = await store.notes.list_notes("/work")
        assert note.text == "the port is 8080"


@pytest.mark.parametrize(
    "hurt",
    [
        ("UPDATE sessions SET key = 5000 WHERE key = 3",),
        (
            "CREATE TEMP TABLE lost AS SELECT id FROM sessions WHERE key = 3",
            "DELETE FROM sessions WHERE key = 3",
            "UPDATE sessions SET id = (SELECT id FROM lost) WHERE key = 4",
        ),
    ],
    ids=["the number is another", "the name is at another session"],
)
async def test_a_session_whose_row_is_damaged_keeps_its_events(path: Path, hurt: tuple[str, ...]) -> None:
    await fill(path)
    sql(path, *hurt, "DROP TABLE agents")
    found = repair(path)
    assert (found.sessions, found.missing) == (COUNT, 0)
    async with Store(path) as store:
        rows = await store.list_sessions()
        assert [len(await store.events(row.id)) > 20 for row in rows] == [True] * COUNT


async def test_the_progress_with_a_large_file_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(path)
    damage(path, [1])
    put(copy := path.with_name("copy") / path.name, content_of(path))
    said: list[str] = []
    repair(copy, said.append)
    assert said == []
    monkeypatch.setattr(salvage_module, "LARGE", 100_000)
    repair(path, said.append)
    assert said[:2] == ["checking 0 MB", "the file is damaged; reading what is left of it"]
    parts = [int(text.removeprefix("searching its pages for more rows: ").removesuffix(" %")) for text in said[2:]]
    assert [part // 10 for part in parts] == list(range(1, 11))


async def test_a_whole_file_and_a_title_stay_as_they_are(path: Path) -> None:
    await fill(path)
    before = content_of(path)
    assert repair(path) == Repaired()
    assert content_of(path) == before
    sql(path, "DROP TABLE agents")
    found = repair(path)
    assert (found.sessions, found.missing) == (COUNT, 0)
    async with Store(path) as store:
        assert "a name of its own" in {row.title for row in await store.list_sessions()}


@pytest.mark.parametrize("content", [b"no database " * 400, b"SQLite format 3\x00" + b"\xff" * 4000, b"\x00" * 9000])
async def test_where_nothing_can_be_read_that_is_said_and_the_file_is_kept(path: Path, content: bytes) -> None:
    put(path, content)
    found = repair(path)
    assert found.kept is not None
    assert (content_of(found.kept), found.sessions, found.events) == (content, 0, 0)
    assert await saved(path, {}) == (0, 0)


@pytest.mark.parametrize("missing", ["sessions", "agents", "events"])
async def test_a_table_that_is_missing_is_damage(path: Path, missing: str) -> None:
    await fill(path)
    sql(path, f"DROP TABLE {missing}")
    before = content_of(path)
    async with Store(path) as store:
        for call in (store.open(), store.list_sessions(), store.create_session("/work")):
            with pytest.raises(StoreError, match="is damaged"):
                await call
    assert content_of(path) == before


@pytest.mark.parametrize("version", [0, 1, 2, 70])
async def test_a_file_of_another_program_is_refused_and_not_repaired(path: Path, version: int) -> None:
    put(path, b"")
    sql(path, "CREATE TABLE bookmarks(url)", f"PRAGMA user_version = {version}")
    before = content_of(path)
    async with Store(path) as store:
        with pytest.raises(StoreError, match="another program"):
            await store.open()
    with pytest.raises(StoreError, match="another program") as caught:
        repair(path)
    assert f"{path} is" in caught.value.message
    assert content_of(path) == before
    assert beside(path) == []


async def test_a_session_that_is_open_is_not_taken_from_its_process(path: Path) -> None:
    async with Store(path) as store:
        session = await store.create_session("/work")
        with await store.own(session), pytest.raises(UsageError, match="open in another"):
            repair(path)


@pytest.mark.parametrize("left", [0.0, 0.3, 0.6, 0.95, 1.0])
async def test_a_write_ahead_log_that_was_cut_leaves_a_whole_beginning(path: Path, left: float, tmp_path: Path) -> None:
    """As after a power cut: what was written last is missing, and nothing before it."""
    async with Store(path) as store:
        session = await store.create_session("/work")
        await store.sync()
        log = numbered(*(("a", Notice(f"{n} " + "x" * 500)) for n in range(60)))
        for envelope in log:
            await store.journal(session).append([envelope])
        cut = tmp_path / "cut" / "friday.db"
        put(cut, content_of(path))
        wal = content_of(Path(f"{path}-wal"))
        put(Path(f"{cut}-wal"), wal[: int(len(wal) * left)])
    async with Store(cut) as again:
        found = await again.events(session) if left > 0.1 else []
        assert found == log[: len(found)]
        assert left < 1 or found == log
        await again.open()
    assert whole(cut)
    assert repair(cut) == Repaired()


def rows_in_whole_pages(data: bytes) -> int:
    """The rows in the leaf pages of all tables that are there to their end."""
    pages = [data[at : at + PAGE] for at in range(PAGE, len(data) - PAGE + 1, PAGE)]
    return sum(int.from_bytes(page[3:5], "big") for page in pages if page[0] == 0x0D)


@pytest.mark.parametrize(("begin", "end", "noise"), [
    (0, 1.0, b"\0" * 100), (0, 1.0, b"\xff" * 100), (0, 1.0, b"\xa5" * PAGE), (16, 1.0, b"\x77" * 16), (28, 1.0, b"\0\0\0\1"),
    (0, 0.93, b""), (0, 0.7, b""), (0, 0.41, b""), (0, 0.2, b""), (0, 0.7, b"\0" * 100),
], ids=lambda given: str(given)[:12])  # fmt: skip
@pytest.mark.parametrize("made_at", [5, 6])
async def test_a_damaged_header_and_a_truncated_file_cost_only_what_is_gone(
    path: Path, begin: int, end: float, noise: bytes, made_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one of an earlier version, which was filled before it was migrated."""
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:made_at])
        logs = await fill(path)
    schema.connect(path).close()
    data = content_of(path)
    others = rows_in_whole_pages(data) - sum(map(len, logs.values()))
    hurt = data[:begin] + noise + data[begin + len(noise) : int(len(data) * end)]
    put(path, hurt)
    found = repair(path)
    wanted = rows_in_whole_pages(data[: len(hurt)]) - others
    assert found.events >= 0.95 * wanted, f"{found.events} of {wanted}"
    assert found.events == sum(map(len, logs.values())) or end < 1
    assert whole(path)
    assert (await saved(path, logs))[1] == found.events
    assert found.kept is not None
    assert content_of(found.kept) == hurt


async def test_pages_to_which_no_page_leads_are_read_but_not_those_of_deleted_sessions(path: Path) -> None:
    logs = await fill(path)
    gone = next(iter(logs))
    async with Store(path) as store:
        await store.delete(gone)
    ((page,),) = sql(path, "SELECT rootpage FROM sqlite_master WHERE name = 'events'")
    damage(path, [page])
    found = repair(path)
    kept = sum(len(log) for session, log in logs.items() if session != gone)
    assert (found.events, found.sessions) == (kept, COUNT - 1)
    assert await saved(path, {session: log for session, log in logs.items() if session != gone}) == (COUNT - 1, kept)


def test_whatever_is_damaged_is_repaired_or_whole() -> None:
    assert random_damage.run(50, seed=2) == []


async def test_a_flipped_version_of_the_file_format_is_damage(path: Path) -> None:
    logs = await fill(path)
    content = bytearray(content_of(path))
    content[18] = 9
    put(path, bytes(content))
    with pytest.raises(StoreError, match="is damaged"):
        async with Store(path) as store:
            await store.open()
    assert repair(path).sessions == COUNT
    assert await saved(path, logs) == (COUNT, sum(map(len, logs.values())))


async def test_rows_that_fit_no_column_are_left_out(path: Path) -> None:
    await fill(path)
    sql(
        path,
        "UPDATE events SET at = 'soon' WHERE seq = 3 AND session = 1",
        "UPDATE events SET body = x'00' WHERE seq = 4 AND session = 2",
    )
    damage(path, [len(content_of(path)) // PAGE])
    found = repair(path)
    assert (found.kept is not None, found.left_out >= 2, found.sessions) == (True, True, COUNT)


async def test_a_text_that_is_no_utf8_in_a_table_made_from_others_is_damage(path: Path) -> None:
    logs = await fill(path)
    sql(path, "UPDATE agents SET status = CAST(x'ff7b' AS TEXT) WHERE path = 'a' AND session = 3")
    assert whole(path), "SQLite finds nothing wrong"
    assert repair(path).kept is not None
    assert await saved(path, logs) == (COUNT, sum(map(len, logs.values())))
