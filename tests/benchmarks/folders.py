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


def folders(bench: Bench) -> Iterator[Line]:
    """A round of `bash` with a command that writes a file, and the first one, which saves what the folder holds."""
    env = bench.environment("bash")
    for count, goal in GOALS.items():
        folder = bench.folder / f"commands-{count}"
        plant(folder, count)
        argv = bench.friday("ask", "-q", "--yolo", "--max-turns", "100", "-m", MESSAGES, "go")
        samples = bench.compare(Case("bash", argv, env, cwd=folder), repeat=min(3, bench.repeat))["bash"]
        assert all(len(s.requests) == len(WRITERS) + 1 for s in samples), samples[0].requests
        floor = command_alone(folder)
        whole = 1000 * middle(samples, per_round)
        first = 1000 * middle(samples, lambda s: s.requests[1] - s.requests[0])
        yield Line(f"beside a command, {count:,} files", whole - floor, "ms", goal, floor, "bash alone", fixed=True)
        yield Line(f"the first command, {count:,} files", first, "ms", None, floor, "bash alone")
        shutil.rmtree(folder)


def plant(folder: Path, count: int) -> None:
    """A tree of source files of half a kilobyte, ten in a folder, with rules of git."""
    body = "".join(f"value_{n} = compute({n})\n" for n in range(20))
    folder.mkdir()
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    for number in range(count):
        inside = folder / f"part{number // 1000}" / f"module{number // 10 % 100}"
        if number % 10 == 0:
            inside.mkdir(parents=True)
        (inside / f"file{number}.py").write_text(body)


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
