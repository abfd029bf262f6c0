"""`friday map --deferred` under kills: real processes against a service with batches that counts what it charges."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.map.service import TASK, lines
from tests.servers.batch_service import Batch, BatchService, Fate, batch_service, item_of

CAP = 20.0
ROOT = Path(__file__).parents[2]


class Killer:
    """Kills the process that asks, at chosen requests, half of all that send a batch among them: most when the service has done what was asked and not answered, or a
    moment after its answer, while the process stores it. `parts`: which requests were hit."""

    def __init__(self, service: BatchService, rng: random.Random, kills: int, every: int) -> None:
        self._answer, self._rng, self._every = service.answer, rng, every
        self.left, self._next = kills, rng.randint(1, every)
        self.process: subprocess.Popen[str] | None = None
        self.parts: Counter[str] = Counter()
        service.answer = self.answer  # type: ignore[method-assign]

    def answer(self, method: str, path: str, headers: Any, content: bytes) -> tuple[int, bytes]:
        before = False
        self._next -= 1
        sending = method == "POST" and path.endswith("batches") and self._rng.random() < 0.5
        if kill := self.left > 0 and (sending or self._next <= 0) and self.process is not None:
            self.left, self._next = self.left - 1, self._rng.randint(1, self._every)
            before = self._rng.random() < 0.3
            what = (
                "results" if path.endswith(("results", "content")) else path.strip("/").split("/")[-1].partition("?")[0]
            )
            what = what if what in ("results", "batches", "files") else "state"
            self.parts[f"{method} {what}, {'before' if before else 'after'} it was done"] += 1
        if kill and before:
            self._kill(self.process)
        answer = self._answer(method, path, headers, content)
        if kill and not before and self._rng.random() < 0.5:
            threading.Timer(self._rng.uniform(0, 0.6), self._kill, (self.process,)).start()
        elif kill and not before:
            self._kill(self.process)
        return answer

    @staticmethod
    def _kill(process: subprocess.Popen[str] | None) -> None:
        if process is not None:
            process.send_signal(signal.SIGKILL)  # nothing once it has ended
            process.wait()


class Faults:
    """What the service does to requests: 5 % are invalid, 3 % expire the first time that they are asked, one batch is cancelled from elsewhere."""

    def __init__(self, service: BatchService, rng: random.Random, cancelled: int) -> None:
        self.invalid: set[str] = set()
        self._rng, self._expired, self._cancelled = rng, set[str](), cancelled
        self._roll: dict[str, float] = {}
        self.served: Counter[str] = Counter()
        service.fate = self.fate
        service.on_created = self.created
        self._service = service

    def fate(self, name: str, body: Any) -> Fate:
        item = item_of(body)
        roll = self._roll.setdefault(item, self._rng.random())
        if roll < 0.05:
            self.invalid.add(item)
            return "errored"
        if roll < 0.08 and item not in self._expired:
            self._expired.add(item)
            return "expired"
        self.served[item] += 1
        return "succeeded"

    def created(self, batch: Batch) -> None:
        self._cancelled -= 1
        if not self._cancelled:
            self._service.end(batch, "canceled")


class DeferredPlace:
    """A folder with `count` items, and settings that name the service."""

    def __init__(self, folder: Path, service: BatchService, vendor: str, count: int, cap: float) -> None:
        self.project, self.home, self.cap = folder / "project", folder / "home", cap
        self.project.mkdir()
        self.home.mkdir()
        (self.project / "items.jsonl").write_text(lines(count))
        (self.home / "config.toml").write_text(service.settings(vendor))
        key = {f"{vendor.upper()}_API_KEY": "sk-test-key"}
        self.env = {**os.environ, "PYTHONPATH": str(ROOT), "FRIDAY_HOME": str(self.home), **key}

    def start(self, parallel: int) -> subprocess.Popen[str]:
        """Start the batch, or go on with it."""
        argv = ["map", "summarizer", "--items", "items.jsonl", "--task", TASK, "--max-cost", str(self.cap), "--yes"]
        argv += ["--sample", "0", "--deferred", "--parallel", str(parallel), "--output", "out.jsonl"]
        return subprocess.Popen(
            [sys.executable, "-m", "friday_cli", *argv],
            cwd=self.project,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def results(self) -> list[dict[str, Any]]:
        """The results that the last process wrote."""
        file = self.project / "out.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def books(self) -> tuple[float, int, float]:
        """US dollars that were charged, batches at the service that are not collected, and US dollars that are held."""
        db = sqlite3.connect(self.home / "data" / "map.db")
        try:
            query = "SELECT (SELECT spent FROM batches), (SELECT count(*) FROM sent WHERE open), (SELECT sum(held) FROM requests)"
            spent, left, held = db.execute(query).fetchone()
            return spent, left, held
        finally:
            db.close()

    def counted(self) -> tuple[float, float]:
        """What `friday usage` and the sums for caps over all sessions have, in US dollars."""
        argv = [sys.executable, "-m", "friday_cli", "usage", "--json"]
        out = subprocess.run(argv, cwd=self.project, env=self.env, stdout=subprocess.PIPE, check=True).stdout
        db = sqlite3.connect(self.home / "data" / "friday.db")
        try:
            return json.loads(out)["total"]["cost_usd"], db.execute("SELECT sum(cost) FROM spending").fetchone()[0]
        finally:
            db.close()


def run_deferred(
    count: int = 2_000,
    kills: int = 20,
    vendor: str = "anthropic",
    *,
    parallel: int = 250,
    seed: int = 1,
    cap: float = CAP,
) -> Sequence[str]:
    """Run a batch to its end, or to its `cap` in US dollars, through kills. Returns what is wrong with its books."""
    rng = random.Random(seed)
    with TemporaryDirectory() as folder, batch_service() as service:
        at = DeferredPlace(Path(folder), service, vendor, count, cap)
        faults, killer = Faults(service, rng, cancelled=3), Killer(service, rng, kills, every=2)
        service.cut = 2
        begun, starts, out = time.monotonic(), 0, ""
        while starts < kills + 12:
            starts += 1
            killer.process = process = at.start(parallel)
            out, _ = process.communicate(timeout=900)
            killer.process = None
            over = killer.left <= 0 and "has no room" in out
            if process.returncode != -signal.SIGKILL and (
                over or all(row["state"] != "waiting" for row in at.results())
            ):
                break
        states = Counter(row["state"] for row in at.results())
        print(f"  {vendor}: {count} items, {kills - killer.left} kills, {starts} starts, {len(service.batches)} batches,"
              f" {time.monotonic() - begun:.0f} s; {dict(states)}; {dict(killer.parts)}")  # fmt: skip
        problems = _problems(at, service, faults)
        if killer.left or problems:
            problems.append(f"{killer.left} kills left, {dict(states)}: {out[-400:]}")
        return problems


def _problems(at: DeferredPlace, service: BatchService, faults: Faults) -> list[str]:
    """What is wrong with the books and the results of an ended batch."""
    spent, left, held = at.books()
    twice = {item: n for item, n in faults.served.items() if n > 1}
    print(f"  charged ${spent:.6f}, the service counted ${service.paid:.6f} of ${at.cap:g}; {len(twice)} served twice")
    problems = []
    if abs(spent - service.paid) > 1e-6:
        problems.append(f"charged ${spent:.6f}, counted ${service.paid:.6f}")
    for name, found in zip(("friday usage", "the sums for caps"), at.counted(), strict=True):
        if abs(found - service.paid) > 1e-6:
            problems.append(f"{name}: ${found:.6f}, counted ${service.paid:.6f}")
    if twice:
        problems.append(f"served and paid twice: {dict(list(twice.items())[:5])}")
    if service.paid > at.cap or left or held:
        problems.append(f"${service.paid} of ${at.cap}; {left} batches open, ${held} held")
    rows = at.results()
    failed = {row["fields"]["id"] for row in rows if row["state"] == "failed"}
    done = sum(row["state"] == "done" for row in rows)
    whole = at.cap == CAP
    if not failed <= faults.invalid or (whole and (failed != faults.invalid or done != len(rows) - len(failed))):
        problems.append(f"{done} done, {len(failed)} failed of {len(rows)}; {len(faults.invalid)} are invalid")
    return problems
