"""No process that a command started outlives it, whatever it does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process import linux
from friday_cli.workspace.process.client import SupervisorClient
from tests.timing import paced
from tests.workspace.commands import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ESCAPES = {
    "plain": "sleep {mark} & sleep {mark}",
    "nohup": "nohup sleep {mark} >/dev/null 2>&1 & sleep {mark}",
    "setsid": "setsid sleep {mark} & setsid -f sleep {mark}; sleep {mark}",
    "double fork": "(setsid sh -c '(sleep {mark} &) &' &) ; sleep {mark}",
    "ignores TERM": "trap '' TERM HUP INT; (trap '' TERM; while :; do sleep {mark}; done) & sleep {mark}",
    "no environment": "env -i setsid sh -c 'env -i sleep {mark} & sleep {mark}' & sleep {mark}",
    "stopped": "sleep {mark} & kill -STOP $!; sleep {mark}",
    "keeps forking": "f() {{ (sleep 0.01; f) & sleep {mark}; }}; f & sleep 0.2; sleep {mark}",
    "python daemon": "{python} -c 'import os,time\nfor _ in range(2):\n if os.fork(): os._exit(0)\n os.setsid()\ntime.sleep({mark} % 600 + 600)'; sleep {mark}",
    "first thread ends": "{python} -c 'import ctypes,os,threading,time\nif os.fork(): os._exit(0)\nos.setsid()\n"
    "threading.Thread(target=time.sleep, args=({mark} % 600 + 600,)).start()\nctypes.CDLL(None).pthread_exit(None)' >/dev/null 2>&1; sleep {mark}",
}


@pytest.fixture
def mark() -> Iterator[str]:
    """A number that every process of this test has in its command line."""
    number = f"9{uuid.uuid4().int % 10**9}"
    yield number
    for pid in alive(number):
        os.kill(pid, signal.SIGKILL)


def alive(mark: str, *, program: bytes = b"") -> list[int]:
    """The running processes (of `program`) that have `mark` in their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                threads = os.listdir(f"/proc/{name}/task")  # the first one may have ended, and tells nothing then
                words = max(Path(f"/proc/{name}/task/{thread}/cmdline").read_bytes() for thread in threads)
                if mark.encode() in words and words.startswith(program):
                    found.append(int(name))
            except (OSError, ValueError):
                pass
    return found


async def started(mark: str) -> None:
    """Wait until a `sleep` of this test runs."""
    async with asyncio.timeout(60):
        while not alive(mark, program=b"sleep\0"):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.02)


async def gone(mark: str) -> None:
    """Wait until no process of this test runs: two seconds on an idle machine."""
    async with asyncio.timeout(60):
        while alive(mark):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.02)


def escape(name: str, mark: str) -> str:
    return ESCAPES[name].format(mark=mark, python=sys.executable)


@pytest.mark.parametrize("name", ESCAPES)
async def test_after_a_timeout_nothing_is_left(workspace: LocalWorkspace, mark: str, name: str) -> None:
    ran = await run(workspace, escape(name, mark), timeout_s=0.6)
    assert ran.timed_out
    assert alive(mark) == []


@pytest.mark.parametrize(("name", "cancels"), [("setsid", 1), ("ignores TERM", 1), ("ignores TERM", 2)])
async def test_after_a_cancel_nothing_is_left(workspace: LocalWorkspace, mark: str, name: str, cancels: int) -> None:
    running = asyncio.create_task(run(workspace, escape(name, mark), agent="a.1"))
    await started(mark)
    for _ in range(cancels):
        running.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await running
    if cancels > 1:
        await workspace.release("a.1")
    assert alive(mark) == []


@pytest.mark.parametrize("after", [0, 1, 2, 3, 5, 8, 13, 21])
async def test_a_cancel_while_it_starts_leaves_nothing(workspace: LocalWorkspace, mark: str, after: int) -> None:
    await run(workspace, "true")
    running = asyncio.create_task(run(workspace, escape("setsid", mark)))
    for _ in range(after):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await workspace.release("a")
    assert alive(mark) == []


async def test_a_cancel_while_the_launcher_starts_leaves_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, starting, go_on = LocalWorkspace(root), asyncio.Event(), threading.Event()
    loop, start = asyncio.get_running_loop(), SupervisorClient._start

    def slowly(client: SupervisorClient) -> None:
        loop.call_soon_threadsafe(starting.set)
        go_on.wait(20)
        start(client)

    monkeypatch.setattr(SupervisorClient, "_start", slowly)
    running = asyncio.create_task(run(workspace, "true"))
    await starting.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    closing = asyncio.create_task(workspace.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    assert workspace._started is not None
    launcher = workspace._host.supervisor._launcher
    assert launcher is None or launcher.poll() is not None


async def test_a_cancel_while_the_folder_is_looked_at_leaves_no_prepared_process(
    workspace: LocalWorkspace, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(workspace, "true")
    looking, open_files = asyncio.Event(), len(os.listdir("/proc/self/fd"))

    async def command_started(*_: object) -> None:
        looking.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(workspace.write_hook, "command_started", command_started)
        running = asyncio.create_task(run(workspace, f"sleep {mark}"))
        await looking.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert len(os.listdir("/proc/self/fd")) == open_files
    assert (await run(workspace, "echo next")).output == "next\n"
    assert alive(mark) == []


async def test_a_command_ends_with_its_shell_and_the_rest_is_ended(workspace: LocalWorkspace, mark: str) -> None:
    ran = await run(workspace, f"sleep {mark} & setsid sleep {mark} & echo done; exit 3")
    assert (ran.exit_code, ran.output, ran.left, ran.timed_out) == (3, "done\n", 2, False)
    assert alive(mark) == []


@paced
async def test_processes_that_end_shortly_after_the_command_are_awaited(workspace: LocalWorkspace, pace: float) -> None:
    """Within `SETTLE_S`: on a busy machine it may take more than one attempt."""
    ran = await run(workspace, "(sleep 0.05; echo late) & echo now")
    assert (ran.output, ran.left) == ("now\nlate\n", 0)


async def test_released_agents_leave_nothing_and_others_continue(workspace: LocalWorkspace, mark: str) -> None:
    await workspace.start(escape("ignores TERM", f"{mark}1"), agent="a.1")
    await workspace.start(f"sleep {mark}2", agent="a.1.1")
    await started(f"{mark}1")
    await started(f"{mark}2")
    await workspace.release("a.1")
    assert alive(f"{mark}1") == []
    assert len(alive(f"{mark}2")) >= 1
    await workspace.close()
    assert alive(mark) == []


@paced
async def test_the_children_of_a_killed_supervisor_are_found(workspace: LocalWorkspace, mark: str, pace: float) -> None:
    command = f"setsid sleep {mark} & sleep {0.3 * pace}; kill -9 $PPID; sleep {mark}"  # not before it has started
    assert (await run(workspace, command)).exit_code is None
    await gone(mark)


def test_a_pid_that_was_reused_is_never_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pid from /proc counts only while its process, pinned by a pidfd, is below the supervisor (Q43)."""
    with (
        subprocess.Popen(["sleep", "600"]) as other,
        subprocess.Popen(
            ["sh", "-c", "sleep 600 & echo $!; wait; read x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as top,
    ):
        try:
            assert top.stdout is not None
            child = int(top.stdout.readline())
            children_of = linux.children_of
            monkeypatch.setattr(linux, "children_of", lambda pid: [other.pid, *children_of(pid), top.pid])
            with linux.descendants(top.pid) as found:
                assert [pid for pid, _ in found] == [child]
                pin = found[0][1]
                os.kill(child, signal.SIGKILL)
                until = time.monotonic() + 60
                while os.path.exists(f"/proc/{child}"):  # its pid can be reused now
                    assert time.monotonic() < until
                    time.sleep(0.005)
                if pin >= 0:
                    with pytest.raises(ProcessLookupError):
                        signal.pidfd_send_signal(pin, signal.SIGTERM)
            assert other.poll() is None
        finally:
            other.kill()
            top.kill()


FRIDAY = """
import asyncio, os, sys
from pathlib import Path
from friday_cli.config.settings import SandboxSettings
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox.detect import detect_sandbox
from friday_cli.workspace.sandbox.policy import SandboxPolicy

async def main():
    sandbox = SandboxPolicy(detect_sandbox(sys.argv[3], os.environ), SandboxSettings(), environ=os.environ)
    workspace = LocalWorkspace(Path(sys.argv[1]), CommandHost(sandbox=sandbox))
    await workspace.start(sys.argv[2], agent="a")
    await workspace.run(sys.argv[2], agent="a", timeout_s=1000, on_output=lambda text: None)

asyncio.run(main())
"""


async def kill_friday(root: Path, command: str, mark: str, sandbox: str = "none") -> None:
    """Kill a process of Friday that runs a command, and wait until the processes of this test have ended."""
    friday = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        FRIDAY,
        str(root),
        command,
        sandbox,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        await started(mark)
        await asyncio.sleep(0.3)
    finally:
        friday.kill()
        await friday.wait()
    await gone(mark)


@pytest.mark.parametrize("name", ["setsid", "ignores TERM", "double fork", "first thread ends"])
async def test_when_friday_is_killed_its_commands_end(root: Path, mark: str, name: str) -> None:
    await kill_friday(root, escape(name, mark), mark)
