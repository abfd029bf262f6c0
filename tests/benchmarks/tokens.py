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
    plain, repository = bench.folder / "plain", bench.folder / "repository"
    for folder in (plain, repository):
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
    bench.configure("ten", "[agents.delegation]\nmax_batch = 64\nask_above = 1000\n")
    bodies = sent(bench, plain, "ten", "children-10-0", "delegate")
    children = [body for body in bodies if TASK in json.dumps(json.loads(body)["messages"][:1])]
    starts = {_text(json.loads(body)) for body in children}
    assert len(starts) == 1, "children of a profile have the same tools and system text"
    yield Line("request of one of ten children", len(children[0]) / 4, "tokens")
    yield Line("of it the same in all: tools and system text", len(starts.pop()) / 4, "tokens")


def sent(bench: Bench, folder: Path, home: str, style: str, prompt: str) -> list[bytes]:
    """The bodies of the requests of a run."""
    bench.bodies()
    argv = bench.friday("ask", "-q", "-m", MESSAGES, prompt)
    bench.run(Case(prompt, argv, bench.environment(style, home=home), cwd=folder))
    return bench.bodies()


def _text(document: dict[str, Any]) -> str:
    """What a service reads before the messages."""
    return json.dumps([document["tools"], document["system"]], ensure_ascii=False, separators=(",", ":"))
