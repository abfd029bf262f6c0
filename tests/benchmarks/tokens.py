"""What requests cost in tokens: their bytes by four. Nothing of it depends on the speed of the machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Bench, Case, Line
from tests.benchmarks.oneshot import MESSAGES
from tests.benchmarks.standin import TASK

SMALL = 8_000
"""Tokens of the window of a small local model."""


def tokens(bench: Bench) -> Iterator[Line]:
    """The first request in three cases, and how much of the requests of ten children of a profile is the same."""
    plain, other, repository = (bench.folder / name for name in ("plain", "other", "repository"))
    for folder in (plain, other, repository):
        folder.mkdir()
        (folder / "notes.txt").write_text("hello\n")
    subprocess.run(["git", "init", "-q", repository], check=True)
    bench.configure("small", f"[providers.anthropic]\nwindow = {SMALL}\n")
    cases = [
        ("an empty folder", plain, "friday", 4_000),
        ("a git repository", repository, "friday", 4_000),
        (f"a window of {SMALL:,}", plain, "small", 1_800),
    ]
    for name, folder, home, goal in cases:
        (body,) = sent(bench, folder, home, "instant", "hello")
        yield Line(f"first request, {name}", len(body) / 4, "tokens", goal)
    here, there = (json.loads(sent(bench, folder, "friday", "instant", "hello")[0]) for folder in (plain, other))
    again = sum(
        len(_compact(block)) for block, known in zip(there["system"], here["system"], strict=False) if block == known
    )
    again += len(_compact(there["tools"])) if there["tools"] == here["tools"] else 0
    yield Line("a second folder: not the same as in the first", (len(_compact(there)) - again) / 4, "tokens", 1_000)
    bench.configure("ten", "[agents.delegation]\nmax_batch = 64\nask_above = 1000\n")
    children = requests_of_children(bench, plain)
    starts = {_compact([body["tools"], body["system"]]) for body in children}
    assert len(starts) == 1, "children of a profile have the same tools and system text"
    yield Line("request of one of ten children", len(_compact(children[0])) / 4, "tokens")
    yield Line("of it the same in all: tools and system text", len(starts.pop()) / 4, "tokens")


def requests_of_children(bench: Bench, folder: Path) -> list[dict[str, Any]]:
    """The first requests of ten children of a profile."""
    bodies = map(json.loads, sent(bench, folder, "ten", "children-10-0", "delegate"))
    found = [body for body in bodies if TASK in json.dumps(body["messages"][:1])]
    assert len(found) == 10, len(found)
    return found


def sent(bench: Bench, folder: Path, home: str, style: str, prompt: str, model: str = MESSAGES) -> list[bytes]:
    """The bodies of the requests of a run."""
    bench.bodies()
    argv = bench.friday("ask", "-q", "-m", MESSAGES, prompt)
    bench.run(Case(prompt, argv, bench.environment(style, home=home), cwd=folder))
    return bench.bodies()


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
