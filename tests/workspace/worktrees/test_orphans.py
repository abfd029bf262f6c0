"""Worktrees of processes that died: those without changes are removed, the others are reported and kept."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from friday_cli.cli import run
from friday_cli.core.protocol.events import Notice
from friday_cli.system.paths import data_dir
from tests.session.harness import Harness, says
from tests.workspace.worktrees.repo_fixture import commit, friday_branches, git, listing, own_state
from tests.workspace.worktrees.steps import bash, batch, isolated, metadata_files, states, writes

ROOT = Path(__file__).parents[3]
RUN = """
import asyncio, os, sys
from pathlib import Path
from friday_cli.session.session import Options, Session
async def main():
    session = await Session.open(Options(Path(sys.argv[1]), model="scripted:" + sys.argv[2], mode="yolo"))
    print(os.getpid(), session.id, flush=True)
    await session.prompt("go")
    await asyncio.sleep(60)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        asyncio.run(main())
    os.waitpid(child, 0)
    print("ended", flush=True)
"""
"""Runs one session after another, each in a process forked after the imports, which take most of the time."""
Cli = Callable[..., Awaitable[tuple[str, str]]]


class OtherFriday:
    """Another process that has a session of a harness, until it is killed."""

    def __init__(self, harness: Harness) -> None:
        words = [sys.executable, "-c", RUN, str(harness.project), str(harness.scenario)]
        self._forker = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._forker.stdin
        assert self._forker.stdout
        self._requests, self._answers = self._forker.stdin, self._forker.stdout
        self._pid = 0

    def start(self) -> str:
        """Open a session and run it. Returns its id."""
        self._requests.write("\n")
        self._requests.flush()
        pid, session = self._answers.readline().split()
        self._pid = int(pid)
        return session

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        self._pid = 0
        assert self._answers.readline() == "ended\n"

    def close(self) -> None:
        if self._pid:
            self.kill()
        with self._forker:
            self._requests.close()


@pytest.fixture
def other(harness: Harness) -> Iterator[OtherFriday]:
    other = OtherFriday(harness)
    yield other
    other.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
async def dead(harness: Harness, other: OtherFriday) -> str:
    """A session that was killed when a.1 had ended with a change, a.2 had changed nothing, and a.3 had a change."""
    two, three = (harness.project.parent / name for name in ("two", "three"))
    harness.plays(
        {
            "a": [isolated(), batch(("worker", "part 2"), ("worker", "part 3"), isolation="worktree"), says("never")],
            "a.1": [writes("done", "by a.1\n"), says("ok")],
            "a.2": [bash(f"touch {two}; sleep 20")],
            "a.3": [writes("half", "by a.3\n"), bash(f"touch {three}; sleep 20")],
        }
    )
    session = await asyncio.to_thread(other.start)
    await asyncio.to_thread(wait_until, lambda: two.exists() and three.exists())
    await asyncio.to_thread(other.kill)
    return session


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs `friday worktrees ...`; returns its output and error output."""

    async def call(*argv: str, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert await asyncio.to_thread(run, ["worktrees", *argv]) == code
        return capsys.readouterr()

    return call


async def test_the_next_session_removes_the_unchanged_and_reports_the_others(harness: Harness, dead: str) -> None:
    harness.plays({"a": [says("hello")]})
    before = listing(harness.project)
    async with harness.session() as session, asyncio.timeout(60):
        async for envelope in session.events():
            if isinstance(envelope.event, Notice) and "were not applied" in envelope.event.text:
                break
        assert f"{dead[:8]}-1, {dead[:8]}-3" in envelope.event.text
    assert listing(harness.project) == before
    names = [f"{dead[:8]}-1", f"{dead[:8]}-3"]
    assert [path.stem for path in metadata_files(dead)] == names
    assert friday_branches(harness.project) == [f"friday/{name}" for name in names]


async def test_the_resumed_session_uses_them_again(harness: Harness, dead: str) -> None:
    harness.plays({"a": [says("x")], "a.3": [bash("cat half"), says("ok")]})
    async with harness.session(mode="yolo", resume=dead) as session:
        assert [(await states(harness, dead, f"a.{n}"))[-1] for n in (1, 2, 3)] == ["changed", "unchanged", "changed"]
        await session.result(await session.start_agent("a.3", "continue"))
        assert "by a.3" in (await harness.results(dead, "a.3"))[-1][1]
        await session.apply_worktree("a.1")
        await session.apply_worktree("a.3")
    assert {"done", "half"} <= listing(harness.project).keys()
    assert friday_branches(harness.project) == []


async def test_the_commands(harness: Harness, dead: str, cli: Cli) -> None:
    first, third = f"{dead[:8]}-1", f"{dead[:8]}-3"
    text, err = await cli("list")
    assert "removed 1 unchanged worktree" in err
    rows = [row.split()[:2] for row in text.splitlines()[1:]]
    assert rows == [[first, f"{dead[:8]}:a.1"], [third, f"{dead[:8]}:a.3"]]
    assert "1 file +1 -0" in text
    listed = json.loads((await cli("list", "--json"))[0])
    assert [(row["id"], row["agent"], row["state"], row["project"]) for row in listed] == [
        (first, "a.1", "changed", str(harness.project)),
        (third, "a.3", "changed", str(harness.project)),
    ]
    assert listed[0]["files"] == [{"path": "done", "added": 1, "removed": 0, "remark": "new"}]
    assert "+by a.1" in (await cli("show", first))[0]
    assert json.loads((await cli("show", f"{dead[:8]}:a.3", "--json"))[0])["diff"].count("+by a.3") == 1
    assert "matches several worktrees" in (await cli("show", dead[:8], code=2))[1]
    assert "There is no worktree 'zzz'" in (await cli("show", "zzz", code=2))[1]
    assert "this needs your confirmation" in (await cli("discard", third, code=2))[1]
    assert "removed 0, kept 2" in (await cli("clean"))[1]
    assert f"friday/{third}" in (await cli("discard", third, "--keep-branch"))[1]
    assert git(harness.project, "show", f"friday/{third}:half") == "by a.3\n"
    assert await states(harness, dead, "a.3") == ["opened", "kept"]


async def test_an_apply_at_the_command_line_can_be_rewound(harness: Harness, dead: str, cli: Cli) -> None:
    (harness.project / "done").write_text("by me\n")
    assert "1 of 1 changed files conflict." in (await cli("apply", f"{dead[:8]}-1", code=1))[1]
    assert (harness.project / "done").read_text() == "by me\n"
    (harness.project / "done").unlink()
    assert "done +1 -0" in (await cli("apply", f"{dead[:8]}-1"))[0]
    await cli("discard", f"{dead[:8]}-3", "--yes")
    assert (await cli("list"))[0] == ""
    assert metadata_files(dead) == []
    async with harness.session(resume=dead):
        pass
    assert await states(harness, dead, "a.1") == ["opened", "changed", "applied"]
    for words, content in ((("--to", "1", "--files"), None), (("--undo",), "by a.1\n")):
        assert await asyncio.to_thread(run, ["sessions", "rewind", dead, *words, "--yes"]) == 0
        assert listing(harness.project).get("done") == content


async def test_those_of_a_living_process_are_not_changed(harness: Harness, other: OtherFriday, cli: Cli) -> None:
    started = harness.project.parent / "on"
    harness.plays({"a": [isolated(), says("never")], "a.1": [bash(f"touch {started}; sleep 20")]})
    session = await asyncio.to_thread(other.start)
    await asyncio.to_thread(wait_until, started.exists)
    assert [row["state"] for row in json.loads((await cli("list", "--json"))[0])] == ["in_use"]
    for command, *more in (("apply",), ("discard", "--yes")):
        assert "is in use" in (await cli(command, f"{session[:8]}-1", *more, code=2))[1]
    async with harness.session():
        pass
    assert len(metadata_files(session)) == 1


async def test_without_any_session(cli: Cli) -> None:
    assert json.loads((await cli("list", "--json"))[0]) == []
    assert not data_dir().exists()


def works_in(*folders: Path) -> bool:
    """Whether the working folder of any process is in one of `folders`."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            current = (process / "cwd").readlink()
        except OSError:
            continue  # it has ended, or belongs to another user
        if any(current.is_relative_to(folder) for folder in folders):
            return True
    return False


async def test_a_process_that_is_killed_while_it_creates_a_worktree_leaves_the_repository_unchanged(
    harness: Harness, other: OtherFriday, cli: Cli
) -> None:
    """At any step: the next process removes what it left."""
    commit(harness.project, **{f"f{number}": "x\n" * 100 for number in range(60)})
    before, files = own_state(harness.project), listing(harness.project)
    harness.plays({"a": [*[isolated()] * 3, says("never")], "*": [bash("true"), says("ok")]})
    for delay in (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25):
        session = await asyncio.to_thread(other.start)
        await asyncio.to_thread(wait_until, (data_dir() / "worktrees" / session).exists)
        await asyncio.sleep(delay)
        await asyncio.to_thread(other.kill)
        await asyncio.to_thread(wait_until, lambda: not works_in(harness.project, data_dir()))  # a git may still run
        await cli("clean")
        assert own_state(harness.project) == before
        assert listing(harness.project) == files
        assert list((data_dir() / "worktrees").rglob("*")) == []


async def test_unfinished_files_of_a_killed_process_are_removed(harness: Harness, cli: Cli) -> None:
    harness.plays({"a": [says("hello")]})
    async with harness.session():
        pass
    folder = data_dir() / "worktrees" / "11111111-2222-3333-4444-555555555555"
    folder.mkdir(parents=True)
    for name in ("11111111-1.json.x5q_8z2k", "main.index", "main.index.lock"):
        (folder / name).write_text("{")
    await cli("clean")
    assert not folder.exists()
