"""A confined command ends with every process that it started, as any other."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.timing import paced
from tests.workspace.commands import run, signals
from tests.workspace.process.test_survivors import alive, escape, gone, kill_friday, mark, started

__all__ = ["mark"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.mark.parametrize("name", ["ignores TERM", "keeps forking"])
async def test_after_a_timeout_nothing_is_left(workspace: LocalWorkspace, mark: str, name: str) -> None:
    ran = await run(workspace, escape(name, mark), timeout_s=0.6)
    assert ran.timed_out
    assert alive(mark) == []


async def test_after_a_cancel_nothing_is_left(workspace: LocalWorkspace, mark: str) -> None:
    running = asyncio.create_task(run(workspace, escape("ignores TERM", mark)))
    await started(mark)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert alive(mark) == []


async def test_a_command_ends_with_its_shell_and_the_rest_is_ended(workspace: LocalWorkspace, mark: str) -> None:
    ran = await run(workspace, f"sleep {mark} & setsid sleep {mark} & echo done; exit 3")
    assert (ran.exit_code, ran.output, ran.left) == (3, "done\n", 2)
    assert alive(mark) == []


@paced
async def test_processes_that_end_shortly_after_the_command_are_awaited(workspace: LocalWorkspace, pace: float) -> None:
    ran = await run(workspace, "(sleep 0.05; echo late) & echo now")
    assert (ran.output, ran.left) == ("now\nlate\n", 0)


async def test_exit_codes_are_those_of_the_command(workspace: LocalWorkspace) -> None:
    assert (await run(workspace, "exit 7")).exit_code == 7
    assert (await run(workspace, "kill -SEGV $$")).exit_code == 139
    ran = await run(workspace, "grep -E 'SigIgn|SigBlk' /proc/self/status; ls /proc/self/fd | wc -l; ulimit -c")
    _, blocked, _, ignored, descriptors, core_blocks = ran.output.split()
    assert (signals(blocked), signals(ignored), descriptors, core_blocks) == ([], [], "4", "0")


async def test_a_background_command_is_killed(workspace: LocalWorkspace, mark: str, root: Path) -> None:
    await workspace.start(f"touch inside; echo up; sleep {mark}", agent="a")
    job = await workspace.job("job-1", agent="a", wait_s=60)
    assert (job.output, job.running) == ("up\n", True)
    assert (root / "inside").exists()
    job = await workspace.job("job-1", agent="a", kill=True)
    assert not job.running
    assert alive(mark) == []


@pytest.mark.parametrize("name", ["setsid", "ignores TERM", "first thread ends"])
async def test_when_friday_is_killed_its_commands_end(root: Path, choice: SandboxChoice, mark: str, name: str) -> None:
    await kill_friday(root, escape(name, mark), mark, choice.kind)


async def test_the_first_command_removes_the_temporary_folder_of_a_killed_process(
    workspace: LocalWorkspace,
    root: Path,
    choice: SandboxChoice,
    mark: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    await kill_friday(root, escape("setsid", mark), mark, choice.kind)
    (left,) = [tmp_path / name for name in os.listdir(tmp_path) if name.startswith("friday-run-")]
    await run(workspace, "true")
    async with asyncio.timeout(60):
        while os.path.exists(left):  # noqa: ASYNC110, ASYNC240 - a thread removes it
            await asyncio.sleep(0.01)


def supervisor_of(mark: str) -> int:
    parents = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in alive(mark)}
    (found,) = [pid for pid in parents if b"process.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


async def test_when_its_supervisor_is_killed_a_command_ends(workspace: LocalWorkspace, mark: str) -> None:
    running = asyncio.create_task(run(workspace, f"setsid sleep {mark} & sleep {mark}"))
    await started(mark)
    os.kill(supervisor_of(mark), 9)
    await running
    await gone(mark)
