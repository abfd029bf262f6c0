"""`python -m tests.store.random_damage [COUNT]`: random damages of a session file and its write-ahead log, each repaired."""

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


def run(count: int, seed: int = 1) -> list[str]:
    """So many damages; what was wrong after a repair."""
    rng, problems, seen = random.Random(seed), [], Counter[object]()
    with TemporaryDirectory() as top:
        whole = Path(top, "whole", "friday.db")
        whole.parent.mkdir()
        asyncio.run(_fill(whole))
        for number in range(count):
            path = Path(top, f"{number}", "friday.db")
            path.parent.mkdir()
            logged = rng.random() < 0.4
            for end in ("", "-wal") if logged else ("",):
                shutil.copyfile(whole.with_name(f"kept.db{end}") if logged else whole, f"{path}{end}")
            file = Path(f"{path}-wal") if logged and rng.random() < 0.6 else path
            how = f"{'log ' if file != path else ''}{_hurt(file, rng)}"
            try:
                found = repair(path)
                sessions = asyncio.run(_usable(path))
            except Exception as error:
                problems.append(f"damage {number} ({how}): {type(error).__name__}: {error}")
            else:
                seen[how, "whole" if found.kept is None else "repaired"] += 1
                seen["sessions"] += sessions
            shutil.rmtree(path.parent)
    print(f"  {count} damages of {SESSIONS} sessions: {dict(seen)}; {len(problems)} not repaired")
    return problems


if __name__ == "__main__":
    found = run(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
    print("\n".join(found))
    sys.exit(bool(found))
