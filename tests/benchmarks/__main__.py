"""`python -m tests.benchmarks [SECTION...]`: Friday's times against floors measured in the same run.

A floor is the least that anything written in Python could take: the interpreter, an HTTP client, an SDK, ripgrep.
Absolute figures move with the machine, ratios to the floors hold. Nothing here is part of the tests.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

from tests.benchmarks import oneshot
from tests.benchmarks.fleet import fleet
from tests.benchmarks.folders import folders
from tests.benchmarks.history import many, sessions
from tests.benchmarks.mcp import servers
from tests.benchmarks.measure import PROJECT, Bench, Line, bench
from tests.benchmarks.pulse import pulse
from tests.benchmarks.search import search
from tests.benchmarks.tokens import tokens
from tests.benchmarks.tui.names import names
from tests.benchmarks.tui.screen import screen

SECTIONS: dict[str, Callable[[Bench], Iterator[Line]]] = {
    "instant": oneshot.instant,
    "commands": oneshot.commands,
    "rounds": oneshot.rounds,
    "folders": folders,
    "long": oneshot.long,
    "answers": oneshot.answers,
    "children": oneshot.children,
    "tokens": tokens,
    "sessions": sessions,
    "many": many,
    "fleet": fleet,
    "search": search,
    "mcp": servers,
    "pulse": pulse,
    "tui": screen,
    "names": names,
}
PAGE = PROJECT / "docs" / "performance.md"


def main() -> None:
    """Measure what was asked for and print it; `--write` keeps it in docs/performance.md."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("section", nargs="*", help=f"what to measure: {', '.join(SECTIONS)} (all without any)")
    parser.add_argument("--repeat", type=int, default=9, metavar="N", help="runs of each case, in turns (9)")
    parser.add_argument("--write", action="store_true", help="put the figures into docs/performance.md")
    wanted = parser.parse_args()
    chosen = wanted.section or list(SECTIONS)
    if unknown := [name for name in chosen if name not in SECTIONS]:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    if len(chosen) > 1:
        # each in a process of its own: the memory of a program counts that of the process that started it
        more = ["--repeat", str(wanted.repeat), *(["--write"] if wanted.write else [])]
        argv = [sys.executable, "-m", "tests.benchmarks", *more]
        sys.exit(max(subprocess.run([*argv, name], check=False).returncode for name in chosen))
    missed = 0
    with bench(repeat=wanted.repeat) as here:
        for name in chosen:
            scale = oneshot.speed(here)  # each time again: machines are shared, and other work comes and goes
            about = f"{machine()}; {scale:.2f} times the time of the machine of the goals"
            print(f"{name}: {about}")
            rows = [measured(line, scale) for line in SECTIONS[name](here)]
            missed += sum("missed" in row for row in rows)
            if wanted.write:
                write(name, about, rows)
    sys.exit(1 if missed else 0)


def measured(line: Line, scale: float) -> str:
    """A line as a row of the page, printed as soon as it is known."""
    goal = line.goal
    if goal is not None and line.fixed:
        goal *= scale
    floor = f"{line.floor:.4g} {line.unit} ({line.floor_name})" if line.floor else ""
    ratio = f"{line.value / line.floor:.2f}" if line.floor else ""
    cpu = f"{line.cpu:.2f}" if line.cpu else ""
    verdict = "" if goal is None else f"{goal:.4g} {line.unit}: {'reached' if line.value <= goal else 'missed'}"
    print(
        f"  {line.name:42} {line.value:9.4g} {line.unit:3} {ratio and 'x' + ratio:>8} {cpu and 'cpu x' + cpu:>10}  {verdict:26} {line.note}",
        flush=True,
    )
    return f"| {line.name} | {line.value:.4g} {line.unit} | {floor} | {ratio} | {cpu} | {verdict} |"


def machine() -> str:
    """What was measured on, and when."""
    about = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*:\s*(.+)", about.read_text()) if about.exists() else None
    name = model[1] if model else platform.machine()
    return f"{date.today()}, Python {platform.python_version()}, {os.cpu_count()} cores ({name})"


def write(name: str, about: str, rows: list[str]) -> None:
    """Put the figures of one section in the place of the old ones."""
    head, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    table = [
        head,
        f"*{about}*",
        "",
        "| line | Friday | floor | ratio | processor | goal |",
        "|---|---|---|---|---|---|",
        *rows,
        end,
    ]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(head)
    PAGE.write_text(before + "\n".join(table) + rest.partition(end)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
