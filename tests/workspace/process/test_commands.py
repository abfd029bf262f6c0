from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.workspace import ProgramResult
from friday_cli.tools.shell import BashArguments, bash_tool
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.process.environment import cleaned
from friday_cli.workspace.process.linux import children_of
from tests.timing import paced
from tests.workspace.commands import run, signals


class Fifo:
    """A FIFO from which a command reads (`read -t 20 x <go`) until `release` writes a line."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)

    def release(self) -> None:
        os.write(self._fd, b"\n")

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def fifo(root: Path) -> Iterator[Fifo]:
    fifo = Fifo(root / "go")
    yield fifo
    fifo.close()


async def test_output_and_exit_code(workspace: LocalWorkspace, root: Path) -> None:
    ran = await run(workspace, "pwd; echo err >&2; printf 'no end'; exit 3")
    assert (ran.exit_code, ran.output, ran.bytes) == (3, f"{root}\nerr\nno end", len(f"{root}\nerr\nno end"))
    assert (ran.timed_out, ran.output_file, ran.left) == (False, "", 0)
    assert (await run(workspace, "kill -SEGV $$")).exit_code == 128 + signal.SIGSEGV
    assert (await run(workspace, r"printf 'a\0b\377c\n'")).output == "a\0b\ufffdc\n"


async def test_nothing_can_be_asked_of_a_person(workspace: LocalWorkspace) -> None:
    ran = await run(workspace, "cat; tty; read x; echo $?; echo $PAGER $GIT_PAGER $EDITOR $TERM $GIT_TERMINAL_PROMPT")
    assert ran.output == "not a tty\n1\ncat cat true dumb 0\n"


async def test_commands_start_with_default_signals_and_no_foreign_descriptors(workspace: LocalWorkspace) -> None:
    ran = await run(workspace, "grep -E 'SigIgn|SigBlk' /proc/self/status; ls /proc/self/fd | wc -l; ulimit -c")
    _, blocked, _, ignored, descriptors, core_blocks = ran.output.split()
    assert (signals(blocked), signals(ignored), descriptors, core_blocks) == ([], [], "4", "0")


@paced
async def test_a_command_is_stopped_at_its_limit(workspace: LocalWorkspace, pace: float) -> None:
    ran = await run(workspace, "echo begun; sleep 1000", timeout_s=0.3 * pace)
    assert (ran.exit_code, ran.timed_out, ran.output) == (None, True, "begun\n")


async def test_output_is_shown_while_it_comes(workspace: LocalWorkspace, fifo: Fifo) -> None:
    first = asyncio.Event()
    shown: list[str] = []

    def show(text: str) -> None:
        shown.append(text)
        first.set()

    running = asyncio.create_task(run(workspace, "echo ä; read -t 20 x <go; echo two", on_output=show))
    await asyncio.wait_for(first.wait(), 60)
    assert shown == ["ä\n"]
    fifo.release()
    await running
    assert "".join(shown) == "ä\ntwo\n"


async def test_long_output_keeps_head_and_tail_and_lies_on_disk_in_full(
    workspace: LocalWorkspace, tmp_path: Path
) -> None:
    ran = await run(workspace, "seq 1 100000")
    whole = "".join(f"{n}\n" for n in range(1, 100_001))
    assert await asyncio.to_thread(Path(ran.output_file).read_text) == whole
    assert ran.bytes == len(whole)
    head, _, tail = ran.output.partition("\n[... ")
    assert whole.startswith(head)
    assert whole.endswith(tail.partition(" ...]\n")[2])
    assert ran.output_file in tail
    assert len(ran.output) < 35_000
    assert stat.S_IMODE((tmp_path / "spill").stat().st_mode) == 0o700
    assert stat.S_IMODE(os.stat(ran.output_file).st_mode) == 0o600
    assert await workspace.read(workspace.resolve(ran.output_file), limit=10) == whole[:10].encode()


@pytest.mark.parametrize("flood", ["yes", "yes '' | tr -d '\\n' ; tr '\\0' x </dev/zero", "cat /dev/urandom"])
async def test_endless_output_is_limited(workspace: LocalWorkspace, flood: str) -> None:
    shown: list[str] = []
    ran = await run(workspace, flood, timeout_s=0.7, on_output=shown.append)
    assert ran.timed_out
    assert len(ran.output) < 40_000
    assert all(len(text) <= 8192 for text in shown)
    assert not ran.output_file or os.stat(ran.output_file).st_size <= 64 * 1024 * 1024


async def test_output_that_cannot_be_saved_does_not_end_the_command(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    workspace = LocalWorkspace(root, CommandHost(overflow_folder=tmp_path / "file" / "spill"))
    ran = await run(workspace, "seq 1 100000; exit 5")
    await workspace.close()
    assert (ran.exit_code, ran.output_file) == (5, "")
    assert "could not be saved: Not a directory" in ran.output


async def test_a_command_that_cannot_start_says_why(workspace: LocalWorkspace, root: Path) -> None:
    with pytest.raises(ToolError, match=r"could not be started.*No such file"):
        await workspace.run("true", agent="a", timeout_s=60, on_output=print, cwd=root / "missing")
    for command, message in (("echo \0", "NUL"), ("#" * 200_000, "longer"), ("echo \ud800", "surrogate")):
        with pytest.raises(ToolError, match=message):
            await run(workspace, command)
    assert (await run(workspace, "echo still fine")).exit_code == 0


async def test_limits_hold_for_commands(root: Path) -> None:
    workspace = LocalWorkspace(root, CommandHost(limits={"fsize": 1000}))
    ran = await run(workspace, "head -c 5000 /dev/zero > big")
    await workspace.close()
    assert (root / "big").stat().st_size <= 1000
    assert ran.exit_code != 0


async def test_many_commands_at_once_do_not_mix(workspace: LocalWorkspace) -> None:
    results = await asyncio.gather(*(run(workspace, f"echo {n}; exit {n}", agent=f"a.{n}") for n in range(30)))
    assert [(r.exit_code, r.output) for r in results] == [(n, f"{n}\n") for n in range(30)]


async def test_a_launcher_that_was_killed_is_replaced(workspace: LocalWorkspace) -> None:
    ran = await run(workspace, "cat /proc/$PPID/status | grep PPid")
    os.kill(int(ran.output.split()[1]), signal.SIGKILL)
    async with asyncio.timeout(60):
        while True:
            try:
                assert (await run(workspace, "echo again")).output == "again\n"
                break
            except ToolError:
                await asyncio.sleep(0.01)  # its socket is still open


def children(pid: str) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_supervisor_that_was_killed_before_it_has_a_command_is_replaced(workspace: LocalWorkspace) -> None:
    ran = await run(workspace, "cat /proc/$PPID/status | grep PPid")
    launcher = ran.output.split()[1]
    for _ in range(3000):
        if supervisors := children(launcher):
            break
        await asyncio.sleep(0.01)
    for supervisor in supervisors:
        with suppress(ProcessLookupError):  # that of the command ends just now
            os.kill(supervisor, signal.SIGKILL)
    assert [(await run(workspace, f"echo {n}")).output for n in range(3)] == ["0\n", "1\n", "2\n"]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_launcher_is_started_while_a_command_is_judged(
    workspace: LocalWorkspace, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def popen(*words: Any, **how: Any) -> subprocess.Popen[bytes]:
        first = not tried.is_set()
        try:
            if fails and first:
                raise OSError("not now")
            started.append(start(*words, **how))
            return started[-1]
        finally:
            tried.set()

    tried = threading.Event()
    monkeypatch.setattr(subprocess, "Popen", popen)
    for _ in range(2):
        bash_tool().script(BashArguments("true"), workspace)
    assert await asyncio.to_thread(tried.wait, 60)
    assert (await run(workspace, "echo $PPID")).exit_code == 0
    bash_tool().script(BashArguments("true"), workspace)
    await workspace.close()
    bash_tool().script(BashArguments("true"), workspace)
    assert [process.poll() for process in started] == [0]


async def test_one_launcher_is_started_where_others_are_judged_meanwhile(
    workspace: LocalWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one would take the place of the first, and what runs in that would end with it."""
    started, go, start = list[int](), threading.Event(), subprocess.Popen

    def popen(*words: Any, **how: Any) -> subprocess.Popen[bytes]:
        started.append(1)
        assert go.wait(60)
        return start(*words, **how)

    monkeypatch.setattr(subprocess, "Popen", popen)
    bash_tool().script(BashArguments("true"), workspace)
    ready = asyncio.create_task(workspace._host.supervisor.ready())
    for _ in range(5):
        await asyncio.sleep(0)
    bash_tool().script(BashArguments("true"), workspace)
    go.set()
    await ready
    assert (await run(workspace, "echo hello")).output == "hello\n"
    await workspace.close()
    assert len(started) == 1


async def test_a_launcher_for_which_no_command_came_is_ended(workspace: LocalWorkspace) -> None:
    before = children_of(os.getpid())
    bash_tool().script(BashArguments("true"), workspace)
    await workspace.close()
    assert children_of(os.getpid()) == before


# ---- programs that Friday runs itself -------------------------------------------


async def test_a_program_takes_words_as_they_are(workspace: LocalWorkspace) -> None:
    printed = await workspace.execute(["printf", "%s|", "-n", "$(id)", "a b\n", "*"], agent="a", timeout_s=60, limit=99)
    assert (printed.exit_code, printed.out, printed.err) == (0, b"-n|$(id)|a b\n|*|", "")


async def test_a_program_is_ended_at_its_limits(workspace: LocalWorkspace) -> None:
    async def execute(*argv: str, limit: int = 1000, timeout_s: float = 60) -> ProgramResult:
        return await workspace.execute(argv, agent="a", timeout_s=timeout_s, limit=limit)

    printed = await execute("yes")
    assert (printed.cut, printed.exit_code, printed.out) == (True, None, b"y\n" * 500)
    printed = await execute("sleep", "100", timeout_s=0.2)
    assert (printed.timed_out, printed.exit_code) == (True, None)
    printed = await execute("sh", "-c", "echo out; echo err >&2; exit 2", limit=4)
    assert (printed.exit_code, printed.out, printed.err, printed.cut) == (2, b"out\n", "err\n", False)
    printed = await execute("sh", "-c", "echo out; yes >&2", limit=9000)
    assert (printed.exit_code, printed.out, printed.cut) == (128 + signal.SIGXFSZ, b"out\n", False)
    assert printed.err.startswith("y\n")
    assert "lines left out ...]" in printed.err
    if sys.platform == "linux":
        assert signals((await execute("grep", "SigIgn", "/proc/self/status")).out.split()[1]) == []
    with pytest.raises(ToolError, match="not found"):
        await execute("no-such-program")


# ---- in the background -----------------------------------------------------------


async def test_a_background_command_is_polled_and_ends(workspace: LocalWorkspace, fifo: Fifo) -> None:
    job = await workspace.start("echo one; read -t 20 x <go; echo two; exit 4", agent="a")
    assert (job.id, job.running) == ("job-1", True)
    job = await workspace.job("job-1", agent="a", wait_s=60)
    assert (job.output, job.running, job.exit_code) == ("one\n", True, None)
    fifo.release()
    output = ""
    while job.running:
        job = await workspace.job("job-1", agent="a", wait_s=60)
        output += job.output
    assert (output, job.exit_code, job.ended) == ("two\n", 4, True)
    again = await workspace.job("job-1", agent="a")
    assert (again.output, again.exit_code, again.ended) == ("", 4, False)


async def test_a_background_command_is_killed(workspace: LocalWorkspace) -> None:
    await workspace.start("trap '' TERM; echo up; sleep 1000", agent="a")
    await workspace.job("job-1", agent="a", wait_s=60)
    job = await workspace.job("job-1", agent="a", kill=True)
    assert (job.running, job.exit_code, job.ended) == (False, None, True)


async def test_background_commands_belong_to_their_agent(workspace: LocalWorkspace) -> None:
    await workspace.start("sleep 1000", agent="a.1")
    for agent in ("a", "a.2"):
        with pytest.raises(ToolError, match=r"No such background command: 'job-1'.*Yours: none"):
            await workspace.job("job-1", agent=agent)
    await workspace.release("a.1")
    with pytest.raises(ToolError):
        await workspace.job("job-1", agent="a.1")


async def test_the_number_of_background_commands_is_limited(workspace: LocalWorkspace) -> None:
    for _ in range(16):
        await workspace.start("sleep 1000", agent="a")
    with pytest.raises(ToolError, match="already running"):
        await workspace.start("sleep 1000", agent="a")
    await workspace.start("sleep 1000", agent="a.1")


async def test_a_closed_workspace_starts_nothing(workspace: LocalWorkspace) -> None:
    await run(workspace, "true")
    await workspace.close()
    with pytest.raises(ToolError, match="closed"):
        await run(workspace, "true")


# ---- what changed --------------------------------------------------------------


async def test_files_that_a_command_changed_are_detected(workspace: LocalWorkspace, root: Path) -> None:
    (root / "old.txt").write_text("old")
    (root / "moved.txt").write_text("moved")
    (root / ".git").mkdir()
    await run(workspace, "sleep 0.05")
    ran = await run(workspace, "mkdir d; echo new > d/new.txt; echo more >> old.txt; echo x > .git/index")
    assert {(c.path, c.seen) for c in ran.changed} == {
        ("d/new.txt", "seen while a command ran"),
        ("old.txt", "seen while a command ran"),
    }
    assert all(len(c.sha256) == 64 for c in ran.changed)


async def test_changes_during_another_agents_command_are_marked_shared(workspace: LocalWorkspace, fifo: Fifo) -> None:
    begun = asyncio.Event()
    command = "echo up; read -t 20 x <go; echo 1 > theirs.txt"
    other = asyncio.create_task(run(workspace, command, agent="a.1", on_output=lambda text: begun.set()))
    await begun.wait()
    ran = await run(workspace, "echo 1 > mine.txt", agent="a.2")
    fifo.release()
    theirs = await other
    assert [c.seen for c in ran.changed] == ["seen while a command ran, shared"]
    assert {c.seen for c in theirs.changed} == {"seen while a command ran, shared"}


async def test_fridays_own_writes_are_not_changes_of_a_command(
    workspace: LocalWorkspace, root: Path, fifo: Fifo
) -> None:
    begun = asyncio.Event()
    running = asyncio.create_task(run(workspace, "echo up; read -t 20 x <go", on_output=lambda text: begun.set()))
    await begun.wait()
    await workspace.write(root / "own.txt", b"own", expect=None)
    fifo.release()
    assert (await running).changed == ()


async def test_too_many_changes_are_counted_and_a_scan_that_takes_too_long_finds_none(
    workspace: LocalWorkspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = await run(workspace, "for i in $(seq 1 60); do echo $i > f$i; done")
    assert len(ran.changed) == 51
    assert ran.changed[-1].path == "(10 more files)"
    monkeypatch.setattr("friday_cli.workspace.fs.change_detection.SCAN_CPU_S", -1.0)
    assert (await run(workspace, "echo 1 > another")).changed == ()


# ---- the environment -------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANTHROPIC_API_KEY", "x"), ("OPENAI_APIKEY", "x"), ("GITHUB_TOKEN", "x"), ("npm_config__authToken", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"), ("DB_PASSWORD", "x"), ("MYSQL_PWD", "x"), ("DB_PASS", "x"), ("PGPASSWORD", "x"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "x"), ("BASIC_AUTH", "x"), ("SSH_AUTH_SOCK", "x"), ("SENTRY_DSN", "x"),
        ("INNOCENT", "ghp_" + "a" * 36), ("INNOCENT", "AKIA" + "A" * 16), ("INNOCENT", "sk-ant-" + "a" * 30),
        ("INNOCENT", "-----BEGIN RSA PRIVATE KEY-----"), ("DATABASE_URL", "postgres://me:hunter2@db/x"),
        ("GIT_ASKPASS", "/usr/bin/ask"),
    ],
)  # fmt: skip
def test_secrets_do_not_reach_commands(name: str, value: str) -> None:
    assert name not in cleaned({name: value})
    assert cleaned({name: value}, keep=[name])[name] == value


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "PWD",
        "OLDPWD",
        "LANG",
        "GIT_AUTHOR_NAME",
        "XAUTHORITY",
        "KEYBOARD",
        "TOKENIZERS_PARALLELISM",
        "VIRTUAL_ENV",
        "CARGO_HOME",
        "PATHEXT",
        "COLORTERM",
        "https_proxy",
    ],
)
def test_other_variables_reach_commands(name: str) -> None:
    value = "http://me:hunter2@proxy:3128" if name == "https_proxy" else "value"
    assert cleaned({name: value})[name] == value


async def test_no_key_is_in_the_environment_of_anything_started(root: Path) -> None:
    canary = "canary-4711"
    workspace = LocalWorkspace(
        root, CommandHost(environ={**os.environ, "OPENAI_API_KEY": canary, "MY_SETTING": "kept"}, keep=())
    )
    ran = await run(
        workspace, "env; tr '\\0' '\\n' </proc/$PPID/environ; tr '\\0' ' ' </proc/$PPID/cmdline; ls /proc/$PPID"
    )
    await workspace.close()
    assert "MY_SETTING=kept" in ran.output
    assert "process.supervisor" in ran.output
    assert canary not in ran.output


@pytest.mark.parametrize("given", ["/bin/given", ""])
async def test_commands_have_a_shell_in_their_environment(root: Path, given: str) -> None:
    """Without it bash looks up the user's, which takes longer than most commands."""
    environ = {"PATH": os.environ["PATH"], **({"SHELL": given} if given else {})}
    workspace = LocalWorkspace(root, CommandHost(environ=environ, keep=()))
    ran = await run(
        workspace, "tr '\\0' '\\n' </proc/$$/environ | grep ^SHELL= && test -x \"$SHELL\" -o -n '" + given + "'"
    )
    await workspace.close()
    assert ran.exit_code == 0
    assert not given or ran.output == f"SHELL={given}\n"
