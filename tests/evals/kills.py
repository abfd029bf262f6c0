"""`python -m tests.evals.kills [--tasks N] [--kills N]`: an eval whose process is killed at random moments and run again each time,
against a service that counts: nothing that ended is asked again, the books say at least what the service was paid, the repository
of the tasks stays as it was."""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.map.__main__ import Place
from tests.map.service import Service, serving
from tests.servers.fake_model_server import Say, Turn

ARMS, TRIALS, PARALLEL, REQUESTS = ("few=--max-turns 20", "many=--max-turns 21"), 3, 4, 2
"""What each trial is made of: two requests, one that writes a file and one that ends."""


def suite(count: int, commit: str) -> str:
    """So many tasks of one commit as JSON lines."""
    task = {"commit": commit, "check": ["test -s answer.txt"], "reference": "HEAD"}
    return "".join(
        json.dumps(task | {"name": f"t{number}", "task": f"Write answer.txt for <<t{number}>>."}) + "\n"
        for number in range(count)
    )


def say(turn: Turn) -> Say:
    """The agent's reply."""
    if turn.results:
        return Say("done", usage=(1_000, 100, 0))
    return Say(calls=[("write_file", {"path": "answer.txt", "content": "42\n"})], usage=(1_000, 100, 0))


@contextmanager
def place(tasks: int) -> Iterator[tuple[Place, Service]]:
    """A repository with a suite, and a service."""
    with TemporaryDirectory() as folder, serving() as service:
        service.say = say
        at = Place(Path(folder), service, "")
        (at.project / "code.txt").write_text("1\n")
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
            _git(at.project, *words)
        first = _git(at.project, "rev-parse", "HEAD").strip()
        (at.project / "answer.txt").write_text("42\n")
        (at.project / "suite.jsonl").write_text(suite(tasks, first))
        for words in (("add", "."), ("commit", "-qm", "two")):
            _git(at.project, *words)
        (at.project / "code.txt").write_text("2\n")
        _git(at.project, "stash", "-q")
        (at.project / "code.txt").write_text("3\n")
        yield at, service


def start(at: Place, cap: float) -> subprocess.Popen[str]:
    """The command, in a process of its own."""
    arms = [word for arm in ARMS for word in ("--arm", arm)]
    limits = ("--trials", str(TRIALS), "--max-cost", f"{cap:g}", "--parallel", str(PARALLEL), "--seed", "1")
    return at.begin("eval", "run", "suite.jsonl", "--trust", "--yes", "--format", "json", *arms, *limits)


def kill(tasks: int = 20, kills: int = 10, seed: int = 1, cap: float = 40.0) -> Sequence[str]:
    """Kill the process at random moments; then let it end. Returns what is wrong."""
    rng, problems = random.Random(seed), []
    trials = tasks * len(ARMS) * TRIALS
    with place(tasks) as (at, service):
        before, done = _state(at.project), dict[str, str]()
        for number in range(kills):
            stop = (number + rng.uniform(0.1, 0.9)) * trials * REQUESTS / kills
            process = start(at, cap)
            while service.requests < stop and process.poll() is None:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            process.wait()
            now = {
                str(key): str(result) for key, result in at.rows("SELECT key, result FROM items WHERE state = 'done'")
            }
            if any(now.get(key) != result for key, result in done.items()):
                problems.append("a trial that had ended was done again")
            done = now
        process = start(at, cap)
        out, _ = process.communicate(timeout=3_000)
        again = service.requests - trials * REQUESTS
        (spent,) = at.rows("SELECT spent FROM batches")[0]
        print(
            f"  {kills} kills: {service.requests} requests for {trials} trials, {again} of them for what was lost in flight"
        )
        print(f"  charged ${spent:.4f}, the service counted ${service.paid:.4f}, cap ${cap:g}")
        if process.returncode or out.count('"outcome": "passed"') + out.count('"outcome":"passed"') < trials:
            problems.append(f"exit {process.returncode}: {out[-800:]}")
        if again > kills * PARALLEL * REQUESTS:
            problems.append(f"{again} requests were paid again, at most {kills * PARALLEL * REQUESTS} can be lost")
        if float(str(spent)) < service.paid - 1e-9:
            problems.append("less was charged than the service counted")
        if service.paid > cap:
            problems.append("the service counted more than the cap")
        if _state(at.project) != before:
            problems.append("the repository of the tasks changed")
    return problems


def _state(project: Path) -> list[str]:
    words = (
        ("status", "--porcelain"),
        ("for-each-ref",),
        ("stash", "list"),
        ("worktree", "list"),
        ("diff",),
        ("ls-files", "-s"),
    )
    return [_git(project, *each) for each in words]


def _git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Run it, and print what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.evals.kills", description=__doc__)
    parser.add_argument("--tasks", type=int, default=20, metavar="N", help="tasks, each of six trials (20)")
    parser.add_argument("--kills", type=int, default=10, metavar="N", help="(10)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="for the moments (1)")
    wanted = parser.parse_args()
    problems = kill(wanted.tasks, wanted.kills, wanted.seed)
    for problem in problems:
        print(f"  NOT AS EXPECTED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
