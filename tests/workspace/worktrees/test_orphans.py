"""Worktrees of processes that died: found, removed where empty, and never taken away with work in them unasked."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from friday_cli.cli import run
from friday_cli.core.protocol.events import Notice, WorktreeChanged
from friday_cli.paths import data_dir
from tests.session.harness import Stage, delegates, does, says
from tests.workspace.worktrees.repo_fixture import git, listing, own_state

ROOT = Path(__file__).parents[3]
RUN = """
import asyncio, os, signal, sys
from pathlib import Path
from friday_cli.session.session import Options, Session
async def main():
    session = await Session.open(Options(Path(sys.argv[1]), model="scripted:" + sys.argv[2], mode="yolo"))
    print(session.id, flush=True)
    await session.prompt("go")
    print("done", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


def apart(**more: Any) -> dict[str, Any]:
    return delegates("worker", "work", isolation="worktree", **more)


def started(stage: Stage) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", RUN, str(stage.project), str(stage.scenario)]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE)


async def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return (await asyncio.to_thread(process.stdout.readline)).decode().strip()


async def killed(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    assert process.stdout is not None
    process.stdout.close()
    await asyncio.to_thread(process.wait)


async def there(path: Path) -> None:
    """Returns when another process has made `path`."""
    await asyncio.to_thread(_wait, path)


def _wait(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, f"{path} never came"
        time.sleep(0.01)


@pytest.fixture
async def dead(stage: Stage) -> str:
    """A session killed while a.1 had changed something, a.2 nothing yet, and a.3 was done with work left over."""
    stage.plays({
        "a": [
            apart(),
            does(*(("delegate_task", {"profile": "worker", "task": f"part {n}", "isolation": "worktree"}) for n in (2, 3))),
            says("never"),
        ],
        "a.1": [does(("write_file", {"path": "done", "content": "by a.1\n"})), says("ok")],
        "a.2": [does(("bash", {"command": f"touch {stage.project.parent}/two; sleep 20"}))],
        "a.3": [does(("write_file", {"path": "half", "content": "by a.3\n"})),
                does(("bash", {"command": f"touch {stage.project.parent}/three; sleep 20"}))],
    })  # fmt: skip
    process = started(stage)
    session = await line(process)
    for name in ("two", "three"):
        await there(stage.project.parent / name)
    await killed(process)
    return session


def out(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert run(list(argv)) == code
    found = capsys.readouterr()
    return found.out, found.err


async def states(stage: Stage, session: str, path: str) -> list[str]:
    return [e.event.state for e in await stage.log(session) if e.agent == path and isinstance(e.event, WorktreeChanged)]


async def _command(*argv: str) -> int:
    """A command of the CLI, which has an event loop of its own."""
    return await asyncio.to_thread(run, list(argv))


async def test_the_next_session_removes_the_empty_and_tells_of_the_rest(stage: Stage, dead: str) -> None:
    stage.plays({"a": [says("hello")]})
    before = listing(stage.project)
    async with stage.session() as session:
        async with asyncio.timeout(60):
            async for envelope in session.events():
                if isinstance(envelope.event, Notice) and "were not applied" in envelope.event.text:
                    break
        assert f"{dead[:8]}-1, {dead[:8]}-3" in envelope.event.text
    assert listing(stage.project) == before
    assert sorted(p.name for p in (data_dir() / "worktrees" / dead).glob("*.json")) == [
        f"{dead[:8]}-1.json",
        f"{dead[:8]}-3.json",
    ]
    assert git(stage.project, "for-each-ref", "--format=%(refname:short)", "refs/heads/friday").split() == [
        f"friday/{dead[:8]}-1", f"friday/{dead[:8]}-3",
    ]  # fmt: skip


async def test_the_session_itself_goes_on_with_them(stage: Stage, dead: str) -> None:
    stage.plays({"a": [says("x")], "a.3": [does(("bash", {"command": "cat half"})), says("ok")]})
    async with stage.session(mode="yolo", resume=dead) as session:
        assert await states(stage, dead, "a.2") == ["opened", "unchanged"]
        assert await states(stage, dead, "a.3") == ["opened", "changed"]
        assert await states(stage, dead, "a.1") == ["opened", "changed"]
        await session.resume_agent("a.3", "go on")
        assert "by a.3" in (await stage.results(dead, "a.3"))[-1][1]
        await session.apply_worktree("a.1")
        await session.apply_worktree("a.3")
    assert {"done", "half"} <= listing(stage.project).keys()
    assert git(stage.project, "for-each-ref", "refs/heads/friday") == ""


async def test_the_commands(
    stage: Stage, dead: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(stage.project)

    async def cli(*argv: str, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert await _command("worktrees", *argv) == code
        found = capsys.readouterr()
        return found.out, found.err

    first, third = f"{dead[:8]}-1", f"{dead[:8]}-3"
    text, err = await cli("list")
    assert "removed 1 unchanged worktree" in err
    assert [row.split()[:2] for row in text.splitlines()[1:]] == [
        [first, f"{dead[:8]}:a.1"],
        [third, f"{dead[:8]}:a.3"],
    ]
    assert "1 file +1 -0" in text
    listed = json.loads((await cli("list", "--json"))[0])
    assert [(row["id"], row["agent"], row["state"], row["project"]) for row in listed] == [
        (first, "a.1", "changed", str(stage.project)), (third, "a.3", "changed", str(stage.project)),
    ]  # fmt: skip
    assert listed[0]["files"] == [{"path": "done", "added": 1, "removed": 0, "remark": "new"}]
    assert "+by a.1" in (await cli("show", first))[0]
    assert json.loads((await cli("show", f"{dead[:8]}:a.3", "--json"))[0])["diff"].count("+by a.3") == 1
    assert "matches several worktrees" in (await cli("show", dead[:8], code=2))[1]
    assert "There is no worktree 'zzz'" in (await cli("show", "zzz", code=2))[1]
    assert "done +1 -0" in (await cli("apply", first))[0]
    assert listing(stage.project)["done"] == "by a.1\n"
    assert "it needs confirmation" in (await cli("discard", third, code=2))[1]
    assert "removed 0, kept 1" in (await cli("clean"))[1]
    assert f"friday/{third}" in (await cli("discard", third, "--keep-branch"))[1]
    assert git(stage.project, "show", f"friday/{third}:half") == "by a.3\n"
    assert (await cli("list"))[0] == ""
    assert await states(stage, dead, "a.1") == ["opened", "changed", "applied"]
    assert await states(stage, dead, "a.3") == ["opened", "kept"]
    async with stage.session(resume=dead):
        pass
    assert await states(stage, dead, "a.1") == ["opened", "changed", "applied"]
    assert await _command("sessions", "rewind", dead, "--to", "1", "--files", "--yes") == 0
    assert "done" not in listing(stage.project)
    assert await _command("sessions", "rewind", dead, "--undo", "--yes") == 0
    assert listing(stage.project)["done"] == "by a.1\n"


async def test_conflicts_at_the_command_line(stage: Stage, dead: str, capsys: pytest.CaptureFixture[str]) -> None:
    (stage.project / "done").write_text("by me\n")
    assert await _command("worktrees", "apply", f"{dead[:8]}-1") == 1
    assert "Nothing was applied: 1 of 1 changed files conflict." in capsys.readouterr().err
    assert (stage.project / "done").read_text() == "by me\n"
    assert await _command("worktrees", "discard", f"{dead[:8]}-1", "--yes") == 0
    assert not (data_dir() / "worktrees" / dead / f"{dead[:8]}-1").exists()


async def test_those_of_a_living_process_are_left_alone(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.plays(
        {
            "a": [apart(), says("never")],
            "a.1": [does(("bash", {"command": f"touch {stage.project.parent}/on; sleep 20"}))],
        }
    )
    process = started(stage)
    session = await line(process)
    try:
        await there(stage.project.parent / "on")
        assert await _command("worktrees", "list", "--json") == 0
        assert [row["state"] for row in json.loads(capsys.readouterr().out)] == ["in_use"]
        for words in (("apply",), ("discard", "--yes")):
            assert await _command("worktrees", words[0], f"{session[:8]}-1", *words[1:]) == 2
            assert "is in use" in capsys.readouterr().err
        async with stage.session():
            pass
        assert len(list((data_dir() / "worktrees" / session).glob("*.json"))) == 1
    finally:
        await killed(process)


async def test_nothing_was_ever_made(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert await _command("worktrees", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert not data_dir().exists()


def _at_work(*folders: Path) -> bool:
    """Whether a process stands in one of the folders."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            stands = (process / "cwd").readlink()
        except OSError:
            continue  # it has ended, or is not ours to look at
        if any(stands.is_relative_to(folder) for folder in folders):
            return True
    return False


async def test_killed_while_one_is_made(stage: Stage) -> None:
    """Whatever step the process died at, the next one leaves the repository as it was before."""
    for number in range(60):
        (stage.project / f"f{number}").write_text("x\n" * 100)
    git(stage.project, "add", "-A")
    git(stage.project, "commit", "-q", "-m", "two")
    before, files = own_state(stage.project), listing(stage.project)
    stage.plays({"a": [*[apart()] * 3, says("never")], "*": [does(("bash", {"command": "true"})), says("ok")]})
    for delay in (0.0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25):
        process = started(stage)
        session = await line(process)
        await there(data_dir() / "worktrees" / session)
        await asyncio.sleep(delay)
        await killed(process)
        while _at_work(stage.project, data_dir()):  # noqa: ASYNC110 - a git that was at work goes on for a moment
            await asyncio.sleep(0.01)
        await _command("worktrees", "clean")
        left = [str(path) for path in (data_dir() / "worktrees").rglob("*")]
        assert own_state(stage.project) == before
        assert listing(stage.project) == files
        assert left == []


async def test_killed_while_a_card_is_written(stage: Stage) -> None:
    """What a process leaves that dies right then is not a card yet: it goes with the rest."""
    stage.plays({"a": [says("hello")]})
    async with stage.session():
        pass
    folder = data_dir() / "worktrees" / "11111111-2222-3333-4444-555555555555"
    folder.mkdir(parents=True)
    for name in ("11111111-1.json.x5q_8z2k", "main.index", "main.index.lock"):
        (folder / name).write_text("{")
    assert await _command("worktrees", "clean") == 0
    assert not folder.exists()
