"""`python -m tests.store.random_damage [COUNT [SEED]]`: damages files of sessions and of batches, or their logs, and repairs each.

COUNT (2,000) damages of each. What is not repaired is printed at once.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from friday_cli.map.job import MapJob
from friday_cli.map.repair import repair as repair_batches
from friday_cli.map.sources import BatchItem
from friday_cli.map.store import MapStore
from friday_cli.store.repair import repair
from friday_cli.store.store import Store
from tests.scenarios import tree

SESSIONS = 12


async def _fill(path: Path) -> None:
    store = Store(path)
    for _ in range(SESSIONS):
        session = await store.create_session("/work")
        log = tree(session)
        await store.journal(session).append(log)
    await store.notes.for_session("/work", session).save("the port is 8080", scope="project", tags=[], agent="a")
    for end in ("", "-wal"):  # as a crash leaves them
        shutil.copyfile(f"{path}{end}", path.with_name(f"kept.db{end}"))
    await store.close()


def _hurt(file: Path, rng: random.Random) -> str:
    """Damage a file at random. Returns how."""
    content = bytearray(file.read_bytes())
    how = rng.choice(("flips", "zeros", "noise", "cut", "header", "swap"))
    at = rng.randrange(len(content))
    if how == "flips":
        for _ in range(rng.choice((1, 20, 200))):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif how in ("zeros", "noise"):
        size = rng.choice((50, 400, 4096, 20_000))
        piece = bytes(size) if how == "zeros" else rng.randbytes(size)
        content[at : at + size] = piece[: len(content) - at]
    elif how == "cut":
        del content[at:]
    elif how == "header":
        content[rng.randrange(min(100, len(content)))] = rng.randrange(256)
    else:
        other = rng.randrange(len(content) // 4096) * 4096
        at = at // 4096 * 4096
        content[at : at + 4096], content[other : other + 4096] = content[other : other + 4096], content[at : at + 4096]
    file.write_bytes(content)
    return how


def _job(task: str) -> MapJob:
    return MapJob("/work", "general", "items", "items.jsonl", task)


async def _fill_batches(path: Path) -> None:
    store = MapStore("/work", {"FRIDAY_HOME": str(path.parents[1])})
    for number in range(3):
        batch = await store.begin(_job(f"look at {number}"))
        items = [(f"key {number} {n}", BatchItem(f"line {n}", {"n": n}, "content")) for n in range(100)]
        await store.put_places(batch.id, 0, items)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM items")
        db.execute(
            "INSERT INTO items(folder, key, state, batch, session, agent, attempts, reserved, cost, tokens, active_s, result, error,"
            " receipt, branch, updated) SELECT '/work', key, 'done', batch, 's', 'a.1', 1, 0, 0.01, 10, 1.0,"
            " '{\"text\": \"' || hex(randomblob(300)) || '\"}', '', '', '', 0.0 FROM places"
        )
        db.commit()
        for end in ("", "-wal"):  # as a crash leaves them
            shutil.copyfile(f"{path}{end}", path.with_name(f"kept.db{end}"))
    await store.close()


async def _usable_batches(path: Path) -> int:
    """Use a file of batches as Friday does. Returns the items that are done."""
    store, done = MapStore("/work", {"FRIDAY_HOME": str(path.parents[1])}), 0
    try:
        for batch in await store.batches():
            await store.counts(batch.id)
            done += sum(place.row is not None and place.row.state == "done" for place in await store.places(batch.id))
        await store.begin(_job("another task"))
        await store.check()
    finally:
        await store.close()
    return done


async def _usable(path: Path) -> int:
    """Use a file as Friday does. Returns its sessions. Raises what a person would see."""
    async with Store(path) as store:
        await store.reconcile()
        rows = await store.list_sessions()
        for row in rows:
            await store.events(row.id)
            await store.agents(row.id)
        await store.last_session("/work")
        (await store.own(await store.create_session("/work"))).release()
        await store.stats()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
    return len(rows)


SESSION_FILE = ("sessions", "friday.db", _fill, repair, _usable)
BATCH_FILE = ("done items", "map.db", _fill_batches, repair_batches, _usable_batches)


def run(count: int, seed: int = 1, file: Any = SESSION_FILE) -> list[str]:
    """So many damages; what was wrong after a repair."""
    what, name, fill, repair, usable = file
    rng, problems, seen = random.Random(seed), [], Counter[object]()
    with TemporaryDirectory() as top:
        whole = Path(top, "whole", "data", name)
        whole.parent.mkdir(parents=True)
        asyncio.run(fill(whole))
        assert asyncio.run(usable(whole)), "there is something to lose"
        for number in range(count):
            path = Path(top, f"{number}", "data", name)
            path.parent.mkdir(parents=True)
            logged = rng.random() < 0.4
            for end in ("", "-wal") if logged else ("",):
                shutil.copyfile(whole.with_name(f"kept.db{end}") if logged else whole, f"{path}{end}")
            file = Path(f"{path}-wal") if logged and rng.random() < 0.6 else path
            how = f"{'log ' if file != path else ''}{_hurt(file, rng)}"
            try:
                found = repair(path)
                sessions = asyncio.run(usable(path))
            except Exception as error:
                problems.append(f"damage {number} ({how}): {type(error).__name__}: {error}")
                print(f"  {problems[-1]}", flush=True)
            else:
                seen[how, "whole" if found.kept is None else "repaired"] += 1
                seen[what] += sessions
            shutil.rmtree(path.parents[1])
    print(f"  {count} damages of {name}: {dict(seen)}; {len(problems)} not repaired")
    return problems


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    problems = [problem for file in (SESSION_FILE, BATCH_FILE) for problem in run(count, seed, file)]
    sys.exit(bool(problems))
