"""What language servers cost Friday itself, with the scripted server: `python -m tests.lsp.figures` prints a table for docs/performance.md."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from friday_cli.lsp.entry import known_servers
from friday_cli.lsp.find import Folders, servers_for
from friday_cli.system.paths import config_dir
from friday_cli.workspace.process import linux
from tests.lsp.scale import WAITS
from tests.lsp.test_check import WORSE, check, server
from tests.lsp.test_commands import entry, write
from tests.session.harness import Harness, does, says

TIMES = 20


async def flood(folder: Path) -> tuple[float, float]:
    """Seconds for which an answer of 5,000 problems (20 times each) keeps the event loop at most, and for the whole check, as medians."""
    longest, whole = list[float](), list[float]()
    async with server("flood", folder) as running:
        for _ in range(TIMES):
            held, over = 0.0, False

            async def look() -> None:
                nonlocal held
                while not over:  # noqa: B023
                    before = time.perf_counter()
                    await asyncio.sleep(0)
                    held = max(held, time.perf_counter() - before)

            looking, begun = asyncio.create_task(look()), time.perf_counter()
            await check(running, "", WORSE)
            whole.append(time.perf_counter() - begun)
            over = True
            await looking
            longest.append(held)
    return statistics.median(longest), statistics.median(whole)


def found(folder: Path) -> float:
    """Seconds to find the servers of a file, the first time."""
    (folder / "pyproject.toml").touch()
    known = tuple(known_servers().values())
    begun = time.perf_counter()
    servers_for(folder / "a.py", Folders(folder, folder), known, os.environ)
    return time.perf_counter() - begun


async def session(harness: Harness, *, enabled: bool) -> tuple[float, float]:
    """Seconds that the end of a session takes that changed a file, and megabytes of this process after it."""
    harness.plays({"a": [does(("write_file", {"path": "a.bad", "content": f"BAD {time.time()}\n"})), says("done")]})
    async with harness.after_run(**{**WAITS, "flags": {**WAITS["flags"], "lsp.enabled": enabled}}):
        (harness.project / "a.bad").unlink()
        begun = time.perf_counter()
    return time.perf_counter() - begun, linux.memory_of(os.getpid()) / 1e6


def main() -> None:
    """Measure in a home of its own."""
    with tempfile.TemporaryDirectory(prefix="friday-lsp-") as top:
        os.environ["FRIDAY_HOME"] = f"{top}/home"
        (project := Path(os.path.realpath(top), "project")).mkdir()
        harness = Harness(project, {})
        write(config_dir(), "lsp.json", {"script": entry("none")})
        ends = {}
        for enabled in (False, True):
            asyncio.run(session(harness, enabled=enabled))
            ran = [asyncio.run(session(harness, enabled=enabled)) for _ in range(5)]
            ends[enabled] = statistics.median(end for end, _ in ran), ran[-1][1]
        held, whole = asyncio.run(flood(project))
        print("| what | measured | goal |\n|---|---|---|")
        print(f"| find the servers of a file | {1000 * found(project):.1f} ms | 5 ms |")
        print(f"| memory of Friday with a server, above one without | {ends[True][1] - ends[False][1]:.1f} MB | 6 MB |")
        print(
            f"| the end of a session with a server, above one without | {ends[True][0] - ends[False][0]:.2f} s | 0.3 s |"
        )
        print(f"| 5,000 problems: the event loop is held | {1000 * held:.0f} ms of {1000 * whole:.0f} ms | 10 ms |")


if __name__ == "__main__":
    main()
