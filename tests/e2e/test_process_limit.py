"""The limit of processes and threads is reached (`ulimit -u`): a line says so, and nothing waits."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import threading

import pytest

from tests.e2e.friday import Friday

SAYS = (
    "The system does not start any more processes or threads for this user. End some, or raise the limit (ulimit -u)."
)
_NOBODYS = 61_234
"""A user without processes: the limit does not hold for root."""


def limited(count: int) -> None:
    """Let this process, before its program starts, have `count` processes and threads. Root becomes another user who may open all files."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
        os.setresuid(_NOBODYS, _NOBODYS, _NOBODYS)
        may = 1 << 1 | 1 << 2 | 1 << 3  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        assert libc.capset(header, (ctypes.c_uint32 * 6)(may, may, may, 0, 0, 0)) == 0
        for number in (1, 2, 3):
            assert libc.prctl(47, 2, number, 0, 0) == 0  # PR_CAP_AMBIENT_RAISE
    resource.setrlimit(resource.RLIMIT_NPROC, (count, count))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 8, 12])
def test_it_is_said_in_one_line(friday: Friday, count: int) -> None:
    friday.plays("agents:\n  a:\n    - calls: [{name: bash, arguments: {command: echo hi}}]\n    - text: '{results}'\n")
    command = [sys.executable, "-m", "friday_cli", "ask", "-m", friday.model, "--yolo", "--timeout", "30", "go"]
    done = subprocess.run(
        command,
        cwd=friday.project,
        env=friday.env,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: limited(count),
    )
    assert "itself failed" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith(("hi\n", "Commands cannot be started: ")) or SAYS in done.stderr + done.stdout


def test_a_server_says_it_where_the_library_makes_a_group_of_the_error(friday: Friday) -> None:
    program = (
        "import threading\n"
        "start = threading.Thread.start\n"
        "def limited(thread):\n"
        "    if thread.name.startswith('AnyIO'): raise RuntimeError(\"can't start new thread\")\n"
        "    start(thread)\n"
        "threading.Thread.start = limited\n"
        "import friday_cli.__main__ as started\n"
        "started.main()"
    )
    command = [sys.executable, "-c", program, "mcp", "serve", "-m", "demo"]
    done = subprocess.run(
        command, cwd=friday.project, env=friday.env, input="{}\n", capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (1, f"friday: {SAYS}\n")


def test_an_error_that_cannot_be_reported_ends_the_process(friday: Friday) -> None:
    """As without memory, while threads run on."""
    program = (
        "import threading\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "import friday_cli.__main__ as started, friday_cli.frontends.oneshot.options as options\n"
        "import friday_cli.diagnostics.log_file as log_file\n"
        "def fails(*_): raise MemoryError\n"
        "options.parse = log_file.report_defect = fails\n"
        "started.main()"
    )
    command = [sys.executable, "-c", program, "ask", "hello"]
    done = subprocess.run(command, cwd=friday.project, env=friday.env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "could not be reported" in done.stderr
    with open("/dev/full", "w") as full:  # as a terminal that is closed
        assert subprocess.run(command, cwd=friday.project, env=friday.env, stderr=full, timeout=60).returncode == 1


def test_what_was_begun_is_done_and_saved_where_no_more_threads_start(
    friday: Friday, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three are enough: the watch's, the store's and one for files. With fewer, a line says so before a request is sent."""
    friday.plays(
        "agents:\n  a:\n    - calls: [{name: delegate_task, arguments: {profile: researcher, task: look}}]\n"
        "    - calls: [{name: write_file, arguments: {path: out.txt, content: hello}}]\n    - text: THE ANSWER\n"
        "  a.1:\n    - text: child done\n"
    )
    start, started = threading.Thread.start, [0]

    def limited(thread: threading.Thread) -> None:
        started[0] += 1
        if started[0] > 3:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", limited)
        done = friday("--yolo", "go")
    assert started[0] > 3
    assert (done.code, done.out) == (0, "THE ANSWER\n"), done.err
    assert (friday.project / "out.txt").read_text() == "hello"
    assert friday("-c", "and?").code == 0


def test_a_process_that_cannot_be_made_is_named(friday: Friday) -> None:
    """Not as "standard output", which it is not."""
    program = (
        "import errno, os, sys\n"
        "def refused(*given): raise BlockingIOError(errno.EAGAIN, 'Resource temporarily unavailable')\n"
        "os.fork = refused\n"
        "import friday_cli.__main__ as started\n"
        "started.main()"
    )
    command = [sys.executable, "-c", program, "ask", "-b", "hello"]
    done = subprocess.run(command, cwd=friday.project, env=friday.env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, f"friday: {SAYS}\n")
