"""What is kept no longer is removed whole; what is in use, and work that was not brought home, stays."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from friday_cli.core.protocol.events import Notice
from friday_cli.store.retention import prune
from friday_cli.store.store import Store
from tests.scenarios import numbered, tree
from tests.store.files import content_of, sql

DAY = 86_400.0


async def keep(store: Store, *, days_ago: float, size: int = 0) -> str:
    """A session last used so long ago, with `size` bytes of events on top."""
    session, at = await store.create_session("/work"), time.time() - days_ago * DAY
    events = [msgspec.structs.replace(e, at=at) for e in tree(session)]
    if size:
        events += numbered(("a", Notice("x" * size)), at=at, first=99)
    await store.journal(session).append(events)
    return session


async def left(store: Store) -> set[str]:
    return {row.id for row in await store.list_sessions()}


async def pruned(store: Store, *, days: float, gigabytes: float) -> list[str]:
    return await asyncio.to_thread(prune, store.path, days=days, gigabytes=gigabytes, now=time.time())


def spill(path: Path, session: str, size: int = 10) -> Path:
    folder = path.parent / "spill" / session
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "out.txt").write_bytes(b"x" * size)
    return folder


async def test_what_nobody_used_for_long_is_removed_with_all_that_belongs_to_it(store: Store, path: Path) -> None:
    old, recent = await keep(store, days_ago=91), await keep(store, days_ago=89)
    gone, stays = spill(path, old), spill(path, recent)
    empty = path.parent / "worktrees" / old
    empty.mkdir(parents=True)
    assert await pruned(store, days=90, gigabytes=0) == [old]
    assert await left(store) == {recent}
    assert (gone.exists(), empty.exists(), stays.exists()) == (False, False, True)
    assert await store.events(recent)
    for table in ("events", "agents"):
        assert sql(path, f"SELECT count(DISTINCT session) FROM {table}") == [(1,)]
    assert await pruned(store, days=90, gigabytes=0) == []


async def test_the_oldest_go_first_until_the_rest_fits(store: Store, path: Path) -> None:
    sessions = [await keep(store, days_ago=5 - n, size=1_000_000) for n in range(4)]
    spill(path, sessions[1], 1_000_000)
    assert await pruned(store, days=90, gigabytes=0.01) == []
    assert await pruned(store, days=90, gigabytes=0.0025) == sessions[:2]
    assert await left(store) == set(sessions[2:])
    await store.close()
    assert len(content_of(path)) < 2_500_000, "the file has shrunk"


async def test_what_was_just_used_is_not_removed_to_make_room(store: Store) -> None:
    session = await keep(store, days_ago=0.5 / 24, size=1_000_000)
    assert await pruned(store, days=90, gigabytes=0.0001) == []
    assert await left(store) == {session}


async def test_what_a_process_owns_stays(store: Store, path: Path) -> None:
    owned, free = await keep(store, days_ago=200), await keep(store, days_ago=100)
    with await store.own(owned):
        for limits in ({"days": 90.0, "gigabytes": 0.0}, {"days": 0.0, "gigabytes": 0.000_001}):
            assert owned not in await pruned(store, **limits)
        assert await left(store) == {owned}
    assert free not in await left(store)
    assert await pruned(store, days=90, gigabytes=0) == [owned]


async def test_a_session_with_work_in_a_worktree_stays(store: Store, path: Path) -> None:
    session = await keep(store, days_ago=200)
    work = path.parent / "worktrees" / session / "a.1"
    work.mkdir(parents=True)
    assert await pruned(store, days=90, gigabytes=0) == []
    assert work.exists()
    work.rmdir()
    assert await pruned(store, days=90, gigabytes=0) == [session]


async def test_spilled_output_of_sessions_that_are_gone_is_removed(store: Store, path: Path) -> None:
    session = await keep(store, days_ago=1)
    stale, new, known = spill(path, "0" * 36), spill(path, "1" * 36), spill(path, session)
    for folder in (stale, known):
        os.utime(folder, (0, 0))
    assert await pruned(store, days=90, gigabytes=2) == []
    assert (stale.exists(), new.exists(), known.exists()) == (False, True, True)


async def test_what_no_repair_could_save_stays_with_the_damaged_file(store: Store, path: Path) -> None:
    await keep(store, days_ago=1)
    damaged = path.with_name(f"{path.name}.damaged-20260101-000000-abcd")
    damaged.write_bytes(b"")
    stale = spill(path, "0" * 36)
    os.utime(stale, (0, 0))
    await pruned(store, days=90, gigabytes=2)
    assert stale.exists()
    damaged.unlink()
    await pruned(store, days=90, gigabytes=2)
    assert not stale.exists()


async def test_a_link_in_place_of_a_folder_leads_nowhere(store: Store, path: Path, tmp_path: Path) -> None:
    session = await keep(store, days_ago=200)
    target = tmp_path / "precious"
    target.mkdir()
    (target / "file").write_text("x")
    (path.parent / "spill").mkdir()
    (path.parent / "spill" / session).symlink_to(target)
    assert await pruned(store, days=90, gigabytes=0.000_001) == [session]
    assert (target / "file").exists()


async def test_many_who_prune_at_once_remove_each_once_and_disturb_nobody(store: Store, path: Path) -> None:
    old = [await keep(store, days_ago=100) for _ in range(20)]
    busy = await store.create_session("/work")
    script = "import sys; from pathlib import Path; from friday_cli.store.retention import prune; print(*prune(Path(sys.argv[1]), days=90, gigabytes=2, now=float(sys.argv[2])))"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    argv = [sys.executable, "-c", script, str(path), str(time.time())]
    others = [
        await asyncio.to_thread(subprocess.Popen, argv, env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    journal = store.journal(busy)
    with await store.own(busy):
        for n in range(1, 200):
            await journal.append(numbered(("a", Notice(str(n))), at=time.time(), first=n))
    gone = [name for process in others for name in (await asyncio.to_thread(process.communicate))[0].split()]
    assert sorted(gone) == sorted(old)
    assert [e.seq for e in await store.events(busy)] == list(range(1, 200))


async def test_one_used_in_the_last_moment_stays(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await keep(store, days_ago=200)
    await store.sync()
    from friday_cli.store import retention

    really, used = retention._is_empty, []

    def use(folder: Path) -> bool:
        used.append(folder)
        sql(path, "UPDATE sessions SET updated = updated + 1")  # a process that had it open wrote and closed it
        return really(folder)

    monkeypatch.setattr(retention, "_is_empty", use)
    assert await pruned(store, days=90, gigabytes=0) == []
    assert used
    assert await left(store) == {session}
