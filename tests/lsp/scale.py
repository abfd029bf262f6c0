"""The scripted language server under load: `python -m tests.lsp.scale kills [200]` kills it at random moments while agents change files,
`python -m tests.lsp.scale sessions [50]` opens sessions beside each other. What is counted must hold in the tests too, in small."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from friday_cli.agents.code_checks import CodeChecks
from friday_cli.core.agent.agent import Agent
from friday_cli.core.protocol.code_check import CodeCheck
from friday_cli.core.protocol.events import ToolFinished
from friday_cli.system.paths import config_dir
from friday_cli.workspace.process import linux
from tests.lsp.test_commands import entry, write
from tests.session.harness import Harness, does, says

OPTIONS: dict[str, Any] = {"mode": "yolo", "trusted": True, "flags": {"sandbox.kind": "none"}}
WAITS = {**OPTIONS, "flags": {**OPTIONS["flags"], "lsp.wait_s": 60}}
"""Changes wait until the server has started, on a busy machine too."""
ANSWER = re.compile(r"(\d new problem|no new problem|not known whether there are new problems)")
"""Every result of a change has one of the three answers."""
CHANGES = 5
"""Changes of each session."""


class Killed(NamedTuple):
    """What sessions did whose servers were killed."""

    kills: int
    started: int
    left: int
    """Servers that still ran after their session."""
    results: Sequence[str]
    longest_s: float
    """The time of the longest change."""
    held_s: float = 0.0
    """The longest time that a result waited for servers."""

    @property
    def without_answer(self) -> list[str]:
        """Results that say nothing of problems."""
        return [text for text in self.results if not ANSWER.search(text)]


def pids(path: Path) -> list[int]:
    """The servers that were started."""
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def running(found: Sequence[int]) -> list[int]:
    """Those that still run."""
    return [pid for pid in found if os.path.exists(f"/proc/{pid}")]


async def kills(harness: Harness, count: int, seed: int) -> Killed:
    """Kill servers `count` times, in as many sessions as that takes."""
    choose, killed, done, held = random.Random(seed), 0, Killed(0, 0, 0, (), 0.0), list[float]()
    checked = CodeChecks.checked

    async def timed(checks: CodeChecks, agent: Agent) -> Sequence[CodeCheck]:
        begun = time.monotonic()
        try:
            return await checked(checks, agent)
        finally:
            held.append(time.monotonic() - begun)

    CodeChecks.checked = timed  # type: ignore[method-assign]
    while killed < count:
        path = harness.project.parent / f"pids{done.started}-{killed}"
        write(
            config_dir(),
            "lsp.json",
            {"script": entry(choose.choice(("none", "late", "push")), env={"SCRIPTED_PIDS": str(path)})},
        )
        harness.plays({"a": [*(_change(f"f{number}.bad") for number in range(CHANGES)), says("done")]})
        for old in harness.project.glob("f*.bad"):
            old.unlink()
        session = asyncio.create_task(harness.ran(**OPTIONS))
        hit = set[int]()
        while not session.done():
            await asyncio.sleep(choose.uniform(0, choose.choice((0.2, 2, 4))))
            for pid in [pid for pid in running(pids(path)) if pid not in hit][-1:]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    hit.add(pid)
        ended = [e.event for e in await harness.log((await session).id) if isinstance(e.event, ToolFinished)]
        killed, begun = killed + len(hit), pids(path)
        done = Killed(
            killed,
            done.started + len(begun),
            done.left + len(running(begun)),
            (*done.results, *(event.text for event in ended)),
            max(done.longest_s, *(event.duration_s for event in ended)),
            max(held),
        )
        if not begun:
            raise RuntimeError("no server was started")
    CodeChecks.checked = checked  # type: ignore[method-assign]
    return done


def _change(name: str) -> dict[str, Any]:
    return does(("write_file", {"path": name, "content": "BAD new\n"}))


class Together(NamedTuple):
    """What sessions beside each other did."""

    most: int
    """Servers that ran at the same time."""
    mb: int
    """The memory that they took then, in megabytes."""
    results: Sequence[str]
    left: int


async def together(harness: Harness, count: int) -> Together:
    """Open `count` sessions at the same time, each with a change."""
    path, most, taken, over = harness.project.parent / "pids", 0, 0, False
    write(config_dir(), "lsp.json", {"script": entry("none", env={"SCRIPTED_PIDS": str(path)})})
    harness.plays({"a": [does(("bash", {"command": "echo BAD >> $$.bad; echo $$"})), says("done")]})

    async def look() -> None:
        nonlocal most, taken
        while not over:
            found = running(pids(path))
            most = max(most, len(found))
            taken = max(taken, sum(map(linux.memory_of, found)) // 1_000_000)
            await asyncio.sleep(0.1)

    looking = asyncio.create_task(look())
    sessions = await asyncio.gather(*(harness.ran(**WAITS) for _ in range(count)))
    over = True
    await looking
    results = [(await harness.results(session.id, "a"))[0][1] for session in sessions]
    return Together(most, taken, results, len(running(pids(path))))


def main() -> int:
    """Run it in a home of its own. The exit code is 1 if something does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.lsp.scale", description=__doc__)
    parser.add_argument("what", choices=("kills", "sessions"))
    parser.add_argument("count", nargs="?", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="friday-lsp-") as top:
        os.environ["FRIDAY_HOME"] = f"{top}/home"
        (project := Path(os.path.realpath(top), "project")).mkdir()
        harness = Harness(project, {})
        if asked.what == "kills":
            done = asyncio.run(kills(harness, asked.count or 200, asked.seed))
            unknown = sum("not known" in text for text in done.results)
            print(f"{done.kills} kills of {done.started} servers, {done.left} left; {len(done.results)} changes, {unknown} not known, "
                  f"{len(done.without_answer)} without an answer, the longest took {done.longest_s:.2f} s, {done.held_s:.2f} s of one were for servers")  # fmt: skip
            return int(bool(done.left or done.without_answer))
        found = asyncio.run(together(harness, asked.count or 50))
        answers = [match[1] for text in found.results if (match := ANSWER.search(text))]
        unknown = sum("not known" in answer for answer in answers)
        print(f"{len(found.results)} sessions: at most {found.most} servers with {found.mb} MB together, {len(answers) - unknown} answers, {unknown} not known, "
              f"{found.left} servers left")  # fmt: skip
        return int(found.most > 6 or found.left or len(answers) < len(found.results))


if __name__ == "__main__":
    sys.exit(main())
