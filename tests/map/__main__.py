"""`python -m tests.map [NAME...]`: batches of 2,000 items against a service that counts. Each prints what it found.

kill: `kill -9` at ten random moments. quota: the service refuses from request 700 on. equal: 2,000 equal items. cost: processor
time and memory. caps: a hundred random batches never pass their caps. books: 50 batches with random kills and filling disks. deferred: 20 kills
of a batch whose requests go by batches of the service, for each vendor, to its end and to a cap.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.map.service import TASK, Service, lines, serving
from tests.servers.fake_model_server import Say

ITEMS = 2_000
KILLS = 10
PARALLEL = 8
ROOT = Path(__file__).parents[2]


class Place:
    """A folder with items, settings that name `service`, and a home."""

    def __init__(self, folder: Path, service: Service, items: str) -> None:
        self.project, self.home = folder / "project", folder / "home"
        for made in (self.project, self.home):
            made.mkdir()
        (self.project / "items.jsonl").write_text(items)
        (self.home / "config.toml").write_text(service.settings())
        self.env = os.environ | {
            "FRIDAY_HOME": str(self.home),
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "PYTHONPATH": str(ROOT),
        }

    def start(self, *more: str) -> subprocess.Popen[str]:
        """Start the batch in a process of its own."""
        limits = () if "--max-cost" in more else ("--max-cost", "100", "--parallel", str(PARALLEL))
        argv = ("--items", "items.jsonl", "--task", TASK, *limits, "--yes", "--output", "results.jsonl", *more)
        return self.begin("map", "summarizer", *argv)

    def begin(self, *argv: str) -> subprocess.Popen[str]:
        """Start a command of Friday."""
        return subprocess.Popen(
            [sys.executable, "-m", "friday_cli", *argv],
            cwd=self.project,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *more: str) -> tuple[int, str]:
        """The exit code and the output of a batch that runs to its end."""
        process = self.start(*more)
        out, _ = process.communicate(timeout=900)
        return process.returncode, out

    def rows(self, query: str, file: str = "map.db") -> list[tuple[object, ...]]:
        """What the store of batches, or another file, has."""
        db = sqlite3.connect(self.home / "data" / file, timeout=10)
        try:
            return db.execute(query).fetchall()
        finally:
            db.close()

    def results(self) -> list[dict[str, object]]:
        """The results that the batch wrote."""
        return [json.loads(line) for line in (self.project / "results.jsonl").read_text().splitlines()]


@contextmanager
def place(items: str) -> Iterator[tuple[Place, Service]]:
    """A place and a service for the time of the block."""
    with TemporaryDirectory() as folder, serving() as service:
        yield Place(Path(folder), service, items), service


def kill(count: int = ITEMS, kills: int = KILLS, seed: int = 1) -> Sequence[str]:
    """Kill the process at random moments; then let it end."""
    rng, problems = random.Random(seed), []
    with place(lines(count)) as (at, service):
        service.say = lambda turn: Say("found it", usage=(100, 10, 0), delay_s=rng.uniform(0.0, 0.02))
        finished: list[dict[str, int]] = []
        for number in range(kills):
            stop = (number + rng.uniform(0.3, 0.9)) * count / kills
            process = at.start()
            while service.requests < stop and process.poll() is None:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            process.wait()
            done = at.rows("SELECT p.place FROM places p JOIN items i ON i.key = p.key WHERE i.state = 'done'")
            finished.append(
                {name: service.asked[name] for name in (f"i{int(str(where)[12:]) - 1}" for (where,) in done)}
            )
        code, out = at.run()
        rows = at.rows("SELECT state, count(*), sum(cost) FROM items GROUP BY state")
        twice = {name: n for name, n in service.asked.items() if n > 1}
        again = sum(twice.values()) - len(twice)
        (spent,) = at.rows("SELECT spent FROM batches")[0]
        print(f"  {kills} kills: {service.requests} requests for {count} items; {again} replies lost in flight; {rows}")
        print(f"  charged ${spent:.4f}, the service counted ${service.paid:.4f}")
        if code or rows[0][:2] != ("done", count):
            problems.append(f"exit {code}: {out[-600:]}")
        if any(service.asked[name] != asked for done in finished for name, asked in done.items()):
            problems.append("an item that was done was asked again")
        if again > kills * PARALLEL:
            problems.append(f"{again} requests were paid again, at most {kills * PARALLEL} can be in flight")
        if float(str(spent)) < service.paid - 1e-9:
            problems.append("less was charged than the service counted")
    return problems


def quota(count: int = ITEMS, at_request: int = 700) -> Sequence[str]:
    """The credit ends in the middle."""
    problems = []
    with place(lines(count)) as (at, service):
        service.quota_at = at_request
        code, out = at.run()
        states = dict(at.rows("SELECT state, count(*) FROM items GROUP BY state"))
        after = service.requests - at_request
        print(f"  quota at {at_request}: {after} requests afterwards (those in flight); {states}; exit {code}")
        if code != 1 or "failed" in states or states.get("done") != at_request - 1:
            problems.append(f"exit {code}, {states}: {out[-600:]}")
        if after >= PARALLEL:
            problems.append(f"{after} requests after the quota error")
        service.quota_at = 0
        before = service.requests
        code, out = at.run()
        print(f"  the same command: {service.requests - before} requests more; exit {code}")
        if code or service.requests - before != count - at_request + 1:
            problems.append(f"exit {code}: {out[-600:]}")
    return problems


def equal(count: int = ITEMS) -> Sequence[str]:
    """Equal items are paid once."""
    with place('{"id": "same"}\n' * count) as (at, service):
        code, out = at.run()
        results = [row for row in at.results() if row["state"] == "done"] if not code else []
        print(f"  {count} equal items: {service.requests} requests, {len(results)} results; exit {code}")
        return [] if (code, service.requests, len(results)) == (0, 1, count) else [out[-600:]]


def cost(count: int = ITEMS) -> Sequence[str]:
    """Processor time for an item, without its request, and memory. The request alone is measured in this process."""

    def measure(number: int) -> tuple[float, float]:
        with place(lines(number)) as (at, _):
            process = at.start()
            assert process.stdout is not None
            threading.Thread(target=process.stdout.read, daemon=True).start()
            memory = 0.0
            while (found := Path(f"/proc/{process.pid}/status").read_text()) and "VmHWM" in found:
                memory = int(found.split("VmHWM:")[1].split()[0]) / 1024
                time.sleep(0.01)
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = 0
            return used.ru_utime + used.ru_stime, memory

    (one, small), (_, middle), (all_of_them, large) = measure(1), measure(count // 2), measure(count)
    each, request = (all_of_them - one) / count * 1000, asyncio.run(_requests(count // 4)) * 1000
    print(
        f"  {each:.2f} ms of processor time for an item, {request:.2f} ms of it for its request; memory {small:.0f} MB with 1 "
        f"item, {middle:.0f} MB with {count // 2}, {large:.0f} MB with {count}"
    )
    problems = [f"{each - request:.2f} ms for an item beside its request"] if each - request >= 2 else []
    return [*problems, *([f"memory {large:.0f} MB"] if large >= 80 else [])]


async def _requests(count: int) -> float:
    """Processor seconds of one request without an agent."""
    from friday_cli import config
    from friday_cli.core.protocol.messages import user
    from friday_cli.core.protocol.provider import Request
    from friday_cli.llm import models, transport

    with place(lines(1)) as (at, _):
        settings = config.load(project=None, flags={}, environ=at.env, file=at.home / "config.toml").settings
        provider = models.create_provider(models.resolve(None, settings, env=at.env), settings, env=at.env)
        begun = 0.0
        for number in range(count + 1):
            request = Request(
                agent="a.1",
                system="You summarize. " * 100,
                tools=(),
                messages=(user("Look at <<i1>>."),),
                max_output=4000,
            )
            async for _ in provider.stream(request):
                pass
            if not number:  # the first one imports the client
                begun = time.thread_time()
        took = (time.thread_time() - begun) / count
        await transport.aclose_all()
    return took


def caps(runs: int = 100) -> Sequence[str]:
    """Random batches in this process, on a virtual clock."""
    from tests.map.random_batches import run_many

    return run_many(runs)


def books(runs: int = 50) -> Sequence[str]:
    """Random kills and filling disks."""
    from tests.map.books import run_books

    return run_books(runs)


def deferred() -> Sequence[str]:
    """Batches of the service, with 20 kills for each vendor, and again under a cap that is reached."""
    from tests.map.deferred import run_deferred

    whole = [*run_deferred(vendor="anthropic"), *run_deferred(vendor="openai", seed=2)]
    small = [run_deferred(300, 20, vendor, parallel=60, seed=3, cap=0.1) for vendor in ("anthropic", "openai")]
    return [*whole, *(problem for problems in small for problem in problems)]


CHECKS: tuple[Callable[[], Sequence[str]], ...] = (kill, quota, equal, cost, caps, books, deferred)


def main() -> int:
    """Run what was asked for. The exit code is 1 if anything is not as it must be."""
    names = {check.__name__: check for check in CHECKS}
    parser = argparse.ArgumentParser(prog="python -m tests.map", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"what to run: {', '.join(names)} (all without any)")
    code = 0
    for name in parser.parse_args().name or names:
        if name not in names:
            parser.error(f"no {name!r}; there are {', '.join(names)}")
        begun = time.monotonic()
        problems = names[name]()
        for problem in problems:
            print(f"  FAILED {problem}")
        print(f"{name}: {'NOT ' if problems else ''}as expected, {time.monotonic() - begun:.0f} s", flush=True)
        code = code or int(bool(problems))
    return code


if __name__ == "__main__":
    sys.exit(main())
