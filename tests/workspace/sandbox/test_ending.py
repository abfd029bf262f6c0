"""A confined command ends with all it started, as any other."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.timing import paced
from tests.workspace.process.test_survivors import alive, escape, gone, mark, started
from tests.workspace.sandbox.conftest import run

__all__ = ["mark"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.parametrize("name", ["deaf to TERM", "forks on"])
async def test_after_a_timeout_nothing_is_left(workspace: LocalWorkspace, mark: str, name: str) -> None:
    ran = await run(workspace, escape(name, mark), timeout_s=0.6)
    assert ran.timed_out
    assert alive(mark) == []


async def test_after_a_cancel_nothing_is_left(workspace: LocalWorkspace, mark: str) -> None:
    running = asyncio.create_task(run(workspace, escape("deaf to TERM", mark)))
    await started(mark)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert alive(mark) == []


async def test_what_is_left_is_counted_and_ended(workspace: LocalWorkspace, mark: str) -> None:
    ran = await run(workspace, f"sleep {mark} & setsid sleep {mark} & echo done; exit 3")
    assert (ran.exit_code, ran.output, ran.left) == (3, "done\n", 2)
    assert alive(mark) == []


@paced
async def test_what_ends_by_itself_shortly_after_is_waited_for(workspace: LocalWorkspace, pace: float) -> None:
    ran = await run(workspace, "(sleep 0.05; echo late) & echo now")
    assert (ran.output, ran.left) == ("now\nlate\n", 0)


async def test_exit_codes_are_those_of_the_command(workspace: LocalWorkspace) -> None:
    assert (await run(workspace, "exit 7")).exit_code == 7
    assert (await run(workspace, "kill -SEGV $$")).exit_code == 139
    ran = await run(workspace, "grep -E 'SigIgn|SigBlk' /proc/self/status; ls /proc/self/fd | wc -l; ulimit -c")
    assert ran.output.split() == ["SigBlk:", "0" * 16, "SigIgn:", "0" * 16, "4", "0"]


async def test_a_background_command_runs_on_and_is_killed(workspace: LocalWorkspace, mark: str, root: Path) -> None:
    await workspace.start(f"touch inside; echo up; sleep {mark}", agent="a")
    job = await workspace.job("job-1", agent="a", wait_s=60)
    assert (job.output, job.running) == ("up\n", True)
    assert (root / "inside").exists()
    job = await workspace.job("job-1", agent="a", kill=True)
    assert not job.running
    assert alive(mark) == []


FRIDAY = """
import asyncio, os, sys
from pathlib import Path
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox.detect import detect_sandbox
from friday_cli.workspace.sandbox.policy import SandboxPolicy

async def main():
    sandbox = SandboxPolicy(detect_sandbox(sys.argv[3], os.environ), environ=os.environ)
    workspace = LocalWorkspace(Path(sys.argv[1]), sandbox=sandbox)
    await workspace.run(sys.argv[2], agent="a", timeout_s=1000, on_output=lambda text: None)

asyncio.run(main())
"""


@pytest.mark.parametrize("name", ["setsid", "deaf to TERM"])
async def test_when_friday_is_killed_its_commands_end(root: Path, choice: SandboxChoice, mark: str, name: str) -> None:
    friday = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FRIDAY, str(root), escape(name, mark), choice.kind,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        await started(mark)
    finally:
        friday.kill()
        await friday.wait()
    await gone(mark)


async def test_when_its_supervisor_is_killed_a_command_ends(workspace: LocalWorkspace, mark: str) -> None:
    running = asyncio.create_task(run(workspace, f"setsid sleep {mark} & sleep {mark}"))
    await started(mark)
    (supervisor,) = [p for p in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_supervisor(p, mark)]
    os.kill(supervisor, 9)
    await running
    await gone(mark)


def _is_supervisor(pid: int, mark: str) -> bool:
    """Whether a process is the parent of the outermost one of this test, and none of them itself."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        mine = [c for c in children if mark.encode() in Path(f"/proc/{c}/cmdline").read_bytes()]
        return bool(mine) and b"friday_cli.workspace.process.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
