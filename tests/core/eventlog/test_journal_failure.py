"""The stream of a session when its journal fails in the middle: one order, nothing lost, nothing told twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from friday_cli.core.eventlog.log import Log
from friday_cli.core.protocol.errors import StoreError, Unwritable
from friday_cli.core.protocol.events import Envelope, Notice


class Breaking:
    """A journal that fails from its append number `last` + 1 on, and is well again at `well_at`. Writing and reading take random
    times."""

    def __init__(self, rng: random.Random, last: int, *, well_at: float | None = None) -> None:
        self._well_at = well_at
        self.kept: list[Envelope] = []
        self._rng, self._left = rng, last
        self._after = asyncio.get_running_loop().time()

    def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._left -= 1
        fails = self._left < 0 and (self._well_at is None or loop.time() < self._well_at)
        error = StoreError("full") if self._well_at is None else Unwritable("full")
        if not fails:
            self.kept.extend(envelopes)
        begun = max(self._after, loop.time())  # one after the other, as one thread writes
        self._after = begun + self._rng.choice((0.0, 1.0, 2.0))
        loop.call_at(self._after, lambda: done.set_exception(error) if fails else done.set_result(None))
        return done

    def append_again(self, envelopes: Sequence[Envelope]) -> asyncio.Future[None]:
        return self.append(envelopes, durable=True)

    async def read(self, after: int) -> list[Envelope]:
        found = [e for e in self.kept if e.seq is not None and e.seq > after]
        await asyncio.sleep(self._rng.choice((0.0, 1.0, 5.0)))
        return found


@pytest.mark.parametrize("recovers", [False, True])
@pytest.mark.parametrize("seed", range(25))
async def test_every_reader_sees_every_event_once_and_in_order(seed: int, recovers: bool) -> None:
    rng = random.Random(seed)
    journal = Breaking(rng, rng.randrange(6), well_at=rng.uniform(0, 30) if recovers else None)
    log = Log(journal, now=asyncio.get_running_loop().time)

    async def write(who: int) -> None:
        for n in range(5):
            await log.emit("a", *(Notice(f"{who}.{n}.{part}") for part in range(rng.randint(1, 2))))
            await asyncio.sleep(rng.choice((0.0, 0.0, 1.0)))

    async def follow(later: float) -> list[int | None]:
        await asyncio.sleep(later)
        return [e.seq async for e in log.events()]

    readers = [asyncio.create_task(follow(later / 2)) for later in range(24)]
    await asyncio.gather(*(write(who) for who in range(4)))
    await asyncio.sleep(30)
    await log.close()
    assert (log.failure is None) == recovers
    whole = list(range(1, log.last + 1))
    assert [await reader for reader in readers] == [whole] * 24
    kept = await log.history()
    assert [e.seq for e in kept] == whole
    told = [e for e in kept if isinstance(e.event, Notice) and e.event.level == "error"]
    assert len(told) == 1 or (recovers and not told)
    if recovers:
        assert [e.seq for e in journal.kept] == whole
