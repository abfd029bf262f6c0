"""Random batches in this process: whatever happens, the service never counts more than the cap."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from friday_cli.core.protocol.errors import FridayError
from friday_cli.frontends.options import session_options
from friday_cli.map.job import MapJob
from friday_cli.map.run import MapRun, prepare
from friday_cli.map.scheduler import Progress
from friday_cli.map.store import MapStore
from tests.map.service import TASK, Service, item_of, serving
from tests.servers.fake_model_server import Say, Turn


class QuietFrontend:
    """Implements `MapFrontend`: agrees to everything."""

    def note(self, text: str) -> None: ...

    def can_confirm(self, about: str) -> None: ...

    async def confirm(self, question: str) -> bool:
        return True

    def progress(self, progress: Progress, left: int) -> None: ...


def random_reply(rng: random.Random, service: Service, calls: float) -> None:
    """Let a service answer with replies of any length that a request allows, also the longest, tool calls and failures. What a request is
    counted as differs from every estimate of it."""

    def say(turn: Turn) -> Say:
        read = int(len(json.dumps(turn.body)) / 4 * rng.uniform(0.6, 1.1))
        most = int(turn.body["max_tokens"])
        written = most if rng.random() < 0.2 else min(most, int(rng.lognormvariate(5, 1.2)) + 1)
        calling = turn.turn < 6 and not turn.forbidden and rng.random() < calls
        return Say(
            "" if calling else f"found {item_of(turn)}",
            calls=[("glob", {"pattern": f"*{turn.turn}.{item_of(turn)}"})] if calling else [],
            usage=(read, written, 0),
            stop="",
            delay_s=rng.choice((0.0, 0.0, 0.003)),
        )

    service.say = say


def random_batch(rng: random.Random, folder: Path, service: Service) -> tuple[MapJob, float, str]:
    """Run a random batch. Returns it, what the service counted, and how it ended."""
    count, parallel = rng.randint(1, 40), rng.randint(1, 16)
    (folder / "items.jsonl").write_text(
        "".join(json.dumps({"id": f"i{n}", "n": rng.random()}) + "\n" for n in range(count))
    )
    job = MapJob(
        str(folder),
        rng.choice(("summarizer", "researcher")),
        "items",
        "items.jsonl",
        TASK + " {n}",
        rng.uniform(0.01, 0.3),
        item_cost=rng.choice((None, rng.uniform(0.01, 0.05))),
        parallel=parallel,
        sample=rng.randint(0, 5),
        reduce=rng.choice(("", "summarizer")),
    )
    random_reply(rng, service, rng.choice((0.0, 0.3, 0.7)))
    before = service.paid
    how = asyncio.run(_run(job))
    return job, service.paid - before, how


async def _run(job: MapJob) -> str:
    store = MapStore(job.folder, os.environ)
    try:
        run = MapRun(await asyncio.to_thread(prepare, job, os.environ), store, QuietFrontend())
        batch, counts = await run.run(session_options({"mode": "auto"}, Path(job.folder), resume=None))
        return f"{counts} spent {batch.spent:.4f} {batch.reason}"
    except FridayError as error:
        return str(error)
    finally:
        await store.close()


def run_many(runs: int, seed: int = 1) -> Sequence[str]:
    """Run random batches; what is wrong with them."""
    rng, problems, started, most = random.Random(seed), [], 0, 0.0
    kept = {name: os.environ.get(name) for name in ("FRIDAY_HOME", "ANTHROPIC_API_KEY")}
    try:
        with TemporaryDirectory() as top, serving() as service:
            home = Path(top, "home")
            home.mkdir()
            (home / "config.toml").write_text(service.settings())
            os.environ |= {"FRIDAY_HOME": str(home), "ANTHROPIC_API_KEY": "sk-ant-test"}
            for number in range(runs):
                folder = Path(top, f"run{number}")
                folder.mkdir()
                job, paid, how = random_batch(rng, folder, service)
                started += paid > 0
                most = max(most, paid / job.cost)
                if paid > job.cost:
                    problems.append(f"run {number}: ${paid:.5f} of ${job.cost:.5f} (item {job.item_cost}): {how}")
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    print(f"  {runs} random batches, {started} of them paid for something: at most {most:.1%} of a cap was spent")
    return problems
