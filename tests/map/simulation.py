"""`python -m tests.map.simulation`: 100,000 items on 64 workers, on a virtual clock, and what the store of batches commits.

The scheduler, the limits of the cluster and the retries of requests are the real ones; the service and the workers are simulated: the
service serves so many requests a second and refuses the others with 429, workers die at random, and replies differ in length.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from friday_cli.core.limits.budget import Budget
from friday_cli.core.limits.retry import RetryPolicy
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.map.caps import Cap
from friday_cli.map.charges import ItemRow
from friday_cli.map.cluster_limits import ClusterLimits, ClusterRateLimiter, Used
from friday_cli.map.engine import ItemResult, ItemTask
from friday_cli.map.job import MapJob
from friday_cli.map.scheduler import Scheduler
from friday_cli.map.sources import BatchItem
from friday_cli.map.store import Claim, MapStore
from tests.virtual import run as run_virtual

LANE = "service"
HELD = 0.02
"""US dollars that a request holds: its input and a usual reply."""


class WorkerDied(Exception):
    """The node of a try is gone."""


class Service:
    """Serves `rate` requests a second (a bucket of one second) and refuses the others. `paid` in US dollars."""

    def __init__(self, rng: random.Random, rate: float) -> None:
        self.rng, self.rate = rng, rate
        self.requests = self.refused = 0
        self.paid = 0.0
        self._bucket, self._at = rate, 0.0

    async def answer(self) -> float:
        """Answer a request. Returns what it costs. Raises ProviderError for a refusal."""
        now = asyncio.get_running_loop().time()
        self._bucket, self._at = min(self.rate, self._bucket + (now - self._at) * self.rate), now
        self.requests += 1
        if self._bucket < 1:
            self.refused += 1
            raise ProviderError("rate", "Too many requests.", status=429, retry_after=1.0)
        self._bucket -= 1
        cost = min(HELD, 0.002 + self.rng.lognormvariate(-6.2, 0.8))
        self.paid += cost
        await asyncio.sleep(max(0.2, self.rng.gauss(4.0, 1.5)))
        return cost


class SimulatedEngine:
    """Implements `Engine` with `ClusterLimits` and workers that die. `turns`: requests of an item."""

    session = "simulated"
    items: Any = None

    def __init__(self, service: Service, deaths: float, turns: int) -> None:
        self.service, self._turns = service, turns
        self._lives = deaths
        self.died = 0
        self.tries: Counter[str] = Counter()
        self._limits: ClusterLimits

    async def budget(self, name: str, cap: Cap) -> Budget:
        self._limits = ClusterLimits(cap, None)
        return cap.budget(name)

    async def run(self, work: ItemTask) -> ItemResult:
        tokens, cost = 0, 0.0
        for number in range(2):
            name = f"{work.key} {number}"
            left = work.cap.left(cost, 0)
            self._limits.begin(name, left)
            self.tries[work.key] += 1
            try:
                spent = await self._try(name, left.cost or 0.0)
            except WorkerDied:
                self.died += 1
                cost += self._limits.end(name, None)[1]
            else:
                self._limits.end(name, (0, spent))
                return ItemResult("done", cost=cost + spent, tokens=tokens)
        return ItemResult("failed", error="its worker died", cost=cost)

    async def _try(self, name: str, cap: float) -> float:
        used = [0.0, 0.0]
        limits, rng = self._limits, self.service.rng

        async def ask(method: str, *values: Any) -> Any:
            return await getattr(limits, method)(*values)

        gate = ClusterRateLimiter(
            LANE,
            ask=ask,
            tell=lambda method, *values: getattr(limits, method)(*values),
            current=lambda: (name, Used(cost=used[0], held_cost=used[1])),
        )
        for _ in range(self._turns):
            if used[0] + HELD > cap:
                break
            used[1], policy, again = HELD, RetryPolicy(), False
            while True:
                number, succeeded = await gate.acquire(in_front=again), False
                try:
                    used[0] += await self.service.answer()
                    succeeded = True
                    if rng.random() < self._lives:
                        raise WorkerDied
                    break
                except ProviderError as error:
                    (_, wait), again = policy.after(gate, error, 60.0, paid=False), True  # type: ignore[arg-type]
                    assert wait is not None
                finally:
                    gate.release(number, succeeded=succeeded)
                await asyncio.sleep(wait)
            used[1] = 0.0
        return used[0]

    async def stop(self) -> None: ...

    async def close(self) -> None: ...


class NoStore:
    """What `Scheduler` needs of a store, without a file."""

    def __init__(self) -> None:
        self.spent = 0.0
        self.states: Counter[str] = Counter()

    async def claim(self, key: str, **_: Any) -> Claim:
        return "claimed"

    async def finish(self, row: ItemRow, batch: str) -> None:
        self.states[row.state] += 1
        self.spent += row.cost


async def batch(count: int, workers: int, cap: float, engine: SimulatedEngine) -> tuple[float, NoStore, str]:
    """Run a batch. Returns virtual seconds, the store, and why it stopped."""
    store = NoStore()

    async def works() -> AsyncIterator[ItemTask]:
        for number in range(count):
            yield ItemTask(str(number), "worker", "", Cap(4 * HELD), Cap(HELD))

    scheduler = Scheduler(
        MapJob("", "worker", "list", "", "", cap, parallel=workers),
        store,
        engine,
        await engine.budget("batch", Cap(cap)),
        changed=lambda progress: None,  # type: ignore[arg-type]
    )
    begun = asyncio.get_running_loop().time()
    await scheduler.run(works())
    return asyncio.get_running_loop().time() - begun, store, scheduler.reason


def simulate(count: int, workers: int, *, rate: float, deaths: float, cap: float, turns: int = 1) -> None:
    """Print a row: wall, requests for a result, and how far the cap was passed."""
    service = Service(random.Random(1), rate)
    engine = SimulatedEngine(service, deaths, turns)
    begun = time.process_time()
    wall, store, reason = run_virtual(batch(count, workers, cap, engine))
    done = store.states["done"]
    print(
        f"| {rate:g}/s | {deaths:.1%} | ${cap:,.0f} | {done:,} | {store.states['failed']:,} | {wall / 3600:.2f} h | {done / wall:.1f}/s | "
        f"{service.requests / max(1, done):.3f} | {service.refused:,} | {engine.died:,} | ${service.paid:,.2f} | ${store.spent:,.2f} | "
        f"${max(0.0, service.paid - cap):.2f} | {(time.process_time() - begun) / count * 1e3:.2f} ms |",
        flush=True,
    )
    assert service.paid <= cap, reason
    assert store.spent >= service.paid - 1e-6


async def commits(count: int, parallel: int) -> tuple[float, float, float]:
    """Items a second that the store adds, and that it begins and ends; and bytes of an item on the disk."""
    with TemporaryDirectory() as folder:
        job = MapJob(folder, "worker", "items", "items.jsonl", "{id}", 1.0)
        store = MapStore(folder, {"FRIDAY_HOME": folder})
        await store.begin(job)
        made = msgspec.structs.asdict(BatchItem("items.jsonl:1", {"id": "item"}))
        items = [(f"{number:064}", BatchItem(**made)) for number in range(count)]
        begun = time.perf_counter()
        for first in range(0, count, 200):
            await store.put_places(job.id, first, items[first : first + 200])
        added = count / (time.perf_counter() - begun)
        left = iter(items)
        result = "found " + "x" * 500

        async def worker() -> None:
            for key, _ in left:
                await store.claim(key, batch=job.id, session="s", reserved=Cap(0.1))
                await store.finish(
                    ItemRow(key, "done", session="s", cost=0.01, result=result, receipt="tools run: none"), job.id
                )

        begun = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(parallel)))
        rate = count / (time.perf_counter() - begun)
        await store.close()
        size = sum(path.stat().st_size for path in Path(folder).rglob("map.db*"))  # noqa: ASYNC240
        return added, rate, size / count


def measure_store() -> None:
    """Print what the store commits, alone."""
    for parallel in (1, 8, 64, 512):
        added, rate, size = asyncio.run(commits(20_000, parallel))
        print(f"| {parallel} | {added:,.0f}/s | {rate:,.0f}/s | {size:,.0f} |", flush=True)


def measure_batches(count: int, workers: int) -> None:
    """Print batches with more and more refusals and deaths, and two whose cap ends them."""
    whole = count * 4 * HELD
    rows: tuple[dict[str, float], ...] = (
        {"rate": 1000, "deaths": 0, "cap": whole},
        {"rate": 10, "deaths": 0, "cap": whole},
        {"rate": 10, "deaths": 0.001, "cap": whole},
        {"rate": 10, "deaths": 0.01, "cap": whole},
        {"rate": 10, "deaths": 0.01, "cap": count * 0.002},
        {"rate": 5, "deaths": 0.05, "cap": count * 0.001},
    )
    for row in rows:
        simulate(count, workers, **row)


def main() -> int:
    """Run what was asked for."""
    parts: dict[str, Callable[[int, int], None]] = {
        "batches": measure_batches,
        "store": lambda count, workers: measure_store(),
    }
    parser = argparse.ArgumentParser(prog="python -m tests.map.simulation", description=__doc__)
    parser.add_argument("name", nargs="*", help="batches, store (both without any)")
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=64)
    given = parser.parse_args()
    for name in given.name or parts:
        if name not in parts:
            parser.error(f"no {name!r}; there are {', '.join(parts)}")
        parts[name](given.items, given.workers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
