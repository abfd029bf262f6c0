"""Batches whose process is killed, and whose disk fills up, at random moments: what the service counted beside what Friday charged."""

from __future__ import annotations

import random
import resource
import signal
import subprocess
import time
from collections.abc import Sequence

import msgspec

from tests.map.__main__ import Place, place
from tests.map.service import PRICE, Service, lines
from tests.servers.fake_model_server import Say, Turn

LATE_S = 0.5
"""Seconds after which a reply that was sent has been read and stored."""
SHARE = 0.05
"""How far the books may be from what the service counted."""


class Flight(msgspec.Struct, frozen=True):
    """A request between `at` and `until` (seconds), which costs `cost` US dollars."""

    at: float
    until: float
    cost: float


class Books(msgspec.Struct):
    """How a batch ended: US dollars by the service's count (`paid`), as charged, and of the replies in flight at a fault (`lost`)."""

    cap: float
    paid: float = 0.0
    charged: float = 0.0
    lost: float = 0.0
    faults: int = 0
    done: int = 0
    twice: int = 0
    traces: int = 0

    @property
    def wrong(self) -> list[str]:
        """What is not as it must be."""
        found = [f"{self.traces} tracebacks"] if self.traces else []
        if self.paid > self.cap + self.lost + 1e-9:
            found.append(
                f"${self.paid:.4f} was paid under a cap of ${self.cap:.2f}; ${self.lost:.4f} were in flight at a fault"
            )
        if abs(self.charged - self.paid) > SHARE * self.paid:
            found.append(f"${self.charged:.4f} was charged, ${self.paid:.4f} counted")
        return found


def usual_replies(rng: random.Random, service: Service, flights: list[Flight]) -> None:
    """Let the service answer as a model does: the input is what the request has, replies have about 1,000 tokens and take a while."""

    def say(turn: Turn) -> Say:
        read, written = len(msgspec.json.encode(turn.body)) // 5, rng.randint(800, 1200)
        delay, now = rng.uniform(0.1, 0.5), time.monotonic()
        flights.append(Flight(now, now + delay + LATE_S, (read * PRICE[0] + written * PRICE[1]) / 1e6))
        return Say("found it", usage=(read, written, 0), delay_s=delay)

    service.say = say


class FaultyBatch:
    """A batch that is run again and again, with a fault each time, until its cap stops it or all is done."""

    def __init__(self, at: Place, service: Service, rng: random.Random, cap: float, parallel: int) -> None:
        self._at, self._service, self._rng = at, service, rng
        self._argv = ("--max-cost", f"{cap}", "--per-item-cost", "0.02", "--parallel", f"{parallel}", "--sample", "1")
        self._flights: list[Flight] = []
        self._lost: set[Flight] = set()
        self.books = Books(cap)
        usual_replies(rng, service, self._flights)

    def run(self, faults: int) -> Books:
        """Run it to its end, then look at it again."""
        for _ in range(faults):
            process = self._at.start(*self._argv)
            goal = self._service.requests + self._rng.randint(5, 40)
            while self._service.requests < goal and process.poll() is None:
                time.sleep(0.005)
            time.sleep(self._rng.uniform(0, 0.3))
            self._fault(process)
        process = self._at.start(*self._argv)
        self._output(process)
        self._output(self._at.begin("map", "status"))
        (spent,) = self._at.rows("SELECT spent FROM batches")[0]
        (done,) = self._at.rows("SELECT count(*) FROM items WHERE state = 'done'")[0]
        self.books.charged, self.books.paid = float(str(spent)), self._service.paid
        self.books.done = int(str(done))
        self.books.lost = sum(flight.cost for flight in self._lost)
        self.books.twice = sum(n - 1 for n in self._service.asked.values())
        return self.books

    def _fault(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is not None:
            self._output(process)
            return
        self.books.faults += 1
        self._lost.update(flight for flight in self._flights if flight.at <= time.monotonic() <= flight.until)
        if self._rng.random() < 0.5:
            process.send_signal(signal.SIGKILL)
            self._output(process)
            return
        data = self._at.home / "data"
        sizes = [path.stat().st_size for path in data.glob("*.db-wal")]
        began = time.monotonic()
        full = max(sizes, default=0) + self._rng.randint(0, 30_000)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
        self._output(process)
        self._lost.update(flight for flight in self._flights if flight.at >= began - LATE_S)  # it lets what runs end

    def _output(self, process: subprocess.Popen[str]) -> None:
        out, _ = process.communicate(timeout=120)
        self.books.traces += out.count("Traceback") + out.count("never retrieved")


def run_books(runs: int, seed: int = 1, *, items: int = 300, most_faults: int = 8) -> Sequence[str]:
    """Run random batches with faults; what is wrong with them."""
    rng, problems, all_books = random.Random(seed), [], []
    for number in range(runs):
        with place(lines(items)) as (at, service):
            batch = FaultyBatch(at, service, rng, rng.choice((0.4, 0.6, 1.0)), rng.choice((8, 16, 32)))
            books = batch.run(rng.randint(1, most_faults))
        all_books.append(books)
        off = (books.charged - books.paid) / books.paid
        problems += [f"run {number}: {problem}" for problem in books.wrong]
        print(
            f"  {number}: cap ${books.cap:.2f}, counted ${books.paid:.4f}, charged ${books.charged:.4f} ({off:+.1%}), in flight at "
            f"{books.faults} faults ${books.lost:.4f}; {books.done} done, {books.twice} paid again",
            flush=True,
        )
    paid, charged = sum(b.paid for b in all_books), sum(b.charged for b in all_books)
    over = max(b.paid / b.cap for b in all_books)
    worst = max(abs(b.charged / b.paid - 1) for b in all_books)
    print(
        f"  {runs} batches, {sum(b.faults for b in all_books)} faults: counted ${paid:.2f}, charged ${charged:.2f}; at most "
        f"{over:.1%} of a cap, books at most {worst:.1%} off"
    )
    return problems
