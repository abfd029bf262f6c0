"""The file names that `@` offers in the full-screen chat."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from tests.benchmarks.measure import Bench, Line
from tests.benchmarks.oneshot import MESSAGES
from tests.benchmarks.search import plant, ripgrep
from tests.benchmarks.tui.screen import READY
from tests.benchmarks.tui.terminal import Terminal

RAREST = "part0/room0/file0.txt"
"""The first name of the whole list; of the first names it is one once in forty times."""


def names(bench: Bench) -> Iterator[Line]:
    """`@` among 100,000 files, in turns with a run of ripgrep: the first names, the list of all, and the list after each
    further letter, in turns with the echo of a letter that means nothing."""
    folder = bench.folder / "files-100000"
    if not folder.exists():
        plant(folder, 100_000)
    first, whole, alone, later, echo = [], [], [], [], []
    for round_ in range(max(3, bench.repeat // 2)):
        alone.append(ripgrep(["rg", "--files"], folder))
        env = bench.environment(home="names")
        with Terminal(bench.friday("-m", MESSAGES, "-C", str(folder)), env, bench.work) as terminal:
            terminal.shown()
            terminal.until(READY)
            terminal.type("\x15")  # the draft that the round before left
            terminal.rest(2.0)
            at, begun = len(terminal.out), time.monotonic()
            terminal.type("@")
            first.append(1000 * (terminal.until("/file", at) - begun))
            whole.append(terminal.until(RAREST, at) - begun)
            for number in range(5):  # names that were not on the screen before
                wanted = 9_001 + 10_007 * number + 1_000 * round_
                terminal.type("\x15")
                terminal.rest(0.5)
                echo.append(1000 * terminal.echo_of(chr(0x0100 + number)))
                terminal.type("\x15")
                terminal.rest(0.5)
                at, begun = len(terminal.out), time.monotonic()
                terminal.type(f"@le{wanted}")
                later.append(1000 * (terminal.until(f"file{wanted}.", at) - begun))
    floor, key = statistics.median(alone), statistics.median(echo)
    yield Line(
        "`@` to the first names, 100,000 files",
        statistics.median(first),
        "ms",
        50.0,
        1000 * floor or None,
        "ripgrep",
        fixed=True,
    )
    yield Line(
        "`@` to all names, 100,000 files", statistics.median(whole), "s", 1.3 * floor or None, floor or None, "ripgrep"
    )
    yield Line(
        "letters to names, 100,000 files", statistics.median(later), "ms", 50.0, key, "echo of a key", fixed=True
    )
