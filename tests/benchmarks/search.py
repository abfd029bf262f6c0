"""Searching many files: Friday's tools against ripgrep on the same folder."""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from friday_cli.workspace.process.command_host import CommandHost
from tests.benchmarks.measure import Bench, Line

QUESTIONS = {
    "grep, rare": ("grep", {"pattern": "needle_[0-9]+"}, ["rg", "-n", "needle_[0-9]+"]),
    "grep, frequent": ("grep", {"pattern": "value"}, ["rg", "-n", "value"]),
    "grep --files": ("grep", {"pattern": "value", "mode": "files"}, ["rg", "-l", "value"]),
    "glob": ("glob", {"pattern": "*.py"}, ["rg", "--files", "-g", "*.py"]),
}


def search(bench: Bench) -> Iterator[Line]:
    """grep and glob over 10,000 and 100,000 files; the time of the tool alone, in a running process."""
    for count in (10_000, 100_000):
        folder = bench.folder / f"files-{count}"
        plant(folder, count)
        for name, (ours, floor) in bench.module("search", str(folder)).items():
            goal = 1.3 * floor if floor else None
            yield Line(f"{name}, {count:,} files", ours, "s", goal, floor or None, "ripgrep" if floor else "")
        shutil.rmtree(folder)


def plant(folder: Path, count: int) -> None:
    """A tree of small source files, a hundred per folder; one in a thousand has a needle."""
    body = "".join(f"value_{n} = compute({n})\n" for n in range(20))
    for number in range(count):
        inside = folder / f"part{number // 1000}" / f"room{number // 100 % 10}"
        if number % 100 == 0:
            inside.mkdir(parents=True)
        needle = f"needle_{number}\n" if number % 1000 == 7 else ""
        (inside / f"file{number}.{'py' if number % 2 else 'txt'}").write_text(body + needle)


def ripgrep(argv: list[str], folder: Path) -> float:
    """Seconds of one run, its output kept as a tool keeps it; 0.0 where there is no ripgrep."""
    if shutil.which("rg") is None:
        return 0.0
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out:
        subprocess.run([*argv, "."], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, check=True)
    return time.monotonic() - begun


async def measure(folder: Path) -> dict[str, tuple[float, float]]:
    """The median seconds of each question, asked of the tools themselves and of ripgrep in turns."""
    from friday_cli.core.protocol.errors import ToolError
    from friday_cli.core.protocol.tool import KnownFiles, ToolContext
    from friday_cli.tools import search as search_tools
    from friday_cli.workspace.local import LocalWorkspace

    async def ask(question: str, choices: object) -> str:
        raise ToolError("no person can be asked")

    workspace = LocalWorkspace(folder, CommandHost(overflow_folder=folder.parent / "spill"))
    tools = {tool.name: tool for tool in search_tools.tools()}
    context = ToolContext("a", "call", workspace, KnownFiles(), lambda text: None, ask)
    found = {}
    for name, (tool, arguments, rg) in QUESTIONS.items():
        ours, floor = [], []
        for _ in range(6):
            begun = time.monotonic()
            await tools[tool].run(context, tools[tool].parse(arguments))
            ours.append(time.monotonic() - begun)
            floor.append(await asyncio.to_thread(ripgrep, rg, folder))
        found[name] = statistics.median(ours[1:]), statistics.median(floor[1:])
    await workspace.close()
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(Path(sys.argv[1])))))
