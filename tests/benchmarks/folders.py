"""Commands in folders of different sizes: what a round with a command that writes costs beside the command itself."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Bench, Case, Line, middle
from tests.benchmarks.oneshot import MESSAGES, per_round
from tests.benchmarks.standin import WRITERS

GOALS = {20: 15.0, 10_000: 15.0, 19_000: 15.0, 100_000: 30.0}
"""Milliseconds beside the command, by number of files."""
THINKS_S = 1
"""Seconds that the model takes for the first answer."""


def folders(bench: Bench) -> Iterator[Line]:
    """A round of `bash` with a command that writes a file, and the first one, which saves what the folder holds: as the
    model's first answer that comes at once, and after a second."""
    env, slow = bench.environment("bash"), bench.environment(f"bash-{THINKS_S}")
    for count, goal in GOALS.items():
        folder = bench.folder / f"commands-{count}"
        plant(folder, count)
        argv = bench.friday("ask", "-q", "--yolo", "--max-turns", "100", "-m", MESSAGES, "go")
        cases = [Case("at once", argv, env, cwd=folder), Case("slow", argv, slow, cwd=folder)]
        found = bench.compare(*cases, repeat=min(3, bench.repeat))
        samples = found["at once"]
        assert all(len(s.requests) == len(WRITERS) + 1 for s in samples + found["slow"]), samples[0].requests
        floor = command_alone(folder)
        whole = 1000 * middle(samples, per_round)
        first, later = (1000 * middle(found[case.name], lambda s: s.requests[1] - s.requests[0]) for case in cases)
        yield Line(f"beside a command, {count:,} files", whole - floor, "ms", goal, floor, "bash alone", fixed=True)
        yield Line(f"the first command, {count:,} files", first, "ms", None, floor, "bash alone")
        name = f"the first command after {THINKS_S} s, {count:,} files"
        yield Line(name, later - 1000 * THINKS_S, "ms", None, floor, "bash alone")
        shutil.rmtree(folder)


def plant(folder: Path, count: int) -> None:
    """A tree of source files of half a kilobyte, ten in a folder, with rules and an index of git."""
    body = "".join(f"value_{n} = compute({n})\n" for n in range(20))
    folder.mkdir()
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    for number in range(count):
        inside = folder / f"part{number // 1000}" / f"module{number // 10 % 100}"
        if number % 10 == 0:
            inside.mkdir(parents=True)
        (inside / f"file{number}.py").write_text(body)
    subprocess.run(["git", "add", "."], cwd=folder, check=True)


def command_alone(folder: Path) -> float:
    """The median milliseconds of the command without Friday."""
    times = []
    for command in WRITERS * 2:
        begun = time.monotonic()
        subprocess.run(
            ["bash", "-c", command], cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        times.append(1000 * (time.monotonic() - begun))
    return statistics.median(times)
