"""The names that `@` offers in the full-screen chat."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from ..measure import Bench, Line
from ..oneshot import MESSAGES
from ..search import plant, ripgrep
from .screen import READY
from .terminal import Terminal


def names(bench: Bench) -> Iterator[Line]:
    """`@` among 100,000 files: the first list, which has to find them, and the list after each further letter."""
    folder = bench.folder / "files-100000"
    if not folder.exists():
        plant(folder, 100_000)
    floor = statistics.median(ripgrep(["rg", "--files"], folder) for _ in range(3))
    env = bench.environment(home="names")
    with Terminal(bench.friday("-m", MESSAGES, "-C", str(folder)), env, bench.work) as terminal:
        terminal.shown()
        terminal.until(READY)
        terminal.rest(2.0)
        at, begun = len(terminal.out), time.monotonic()
        terminal.type("@")
        first = terminal.until("room0/file", at) - begun
        yield Line("`@` to names, 100,000 files", first, "s", 1.3 * floor if floor else None, floor or None, "ripgrep")
        later = []
        for number in range(5):  # names that were not on the screen before
            terminal.rest(0.5)
            at = len(terminal.out)
            begun = time.monotonic()
            terminal.type("\x15@" + f"le{9_001 + 10_007 * number}")
            later.append(1000 * (terminal.until(f"file{9_001 + 10_007 * number}.", at) - begun))
        yield Line("letters to names, 100,000 files", statistics.median(later), "ms", 50.0, fixed=True)
