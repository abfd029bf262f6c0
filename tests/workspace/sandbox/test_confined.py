"""Confined commands that try to write, read, connect and kill outside of the sandbox."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox import system_call_filter
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.workspace.commands import run
from tests.workspace.sandbox.conftest import confined


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def client(name: str) -> str:
    """A command that connects to a socket of this machine and prints "reached"."""
    program = f"import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({name!r})\nprint('reached')\n"
    return f"cat > c.py <<'E'\n{program}E\n{sys.executable} c.py"


async def test_the_workspace_and_the_temp_folder_can_be_written(workspace: LocalWorkspace, root: Path) -> None:
    command = "echo a > new && mkdir -p d/e && mv new d/e/ && echo b > $TMPDIR/kept && ln d/e/new twin"
    ran = await run(workspace, command)
    assert (ran.exit_code, ran.output, ran.blocked) == (0, "", "")
    assert (root / "d/e/new").read_text() == (root / "twin").read_text() == "a\n"
    ran = await run(workspace, "cat $TMPDIR/kept; echo x >/dev/null; mktemp >/dev/null && echo ok")
    assert ran.output == "b\nok\n"


async def test_the_temp_folder_is_private_and_removed_with_the_session(root: Path, choice: SandboxChoice) -> None:
    sandbox = confined(choice)
    workspace = LocalWorkspace(root, CommandHost(sandbox=sandbox))
    await run(workspace, "echo secret > $TMPDIR/f; chmod 644 $TMPDIR/f")
    folder = sandbox._temporary()
    assert os.stat(folder).st_mode & 0o077 == 0
    await workspace.close()
    assert not os.access(folder, os.F_OK)


ATTEMPTS = [
    "echo bad > {outside}/file",
    "echo bad > {outside}/new",
    "rm -f {outside}/file",
    "mv {outside}/file {outside}/moved",
    "mv {outside}/file .",
    "mkdir {outside}/folder",
    "ln -s /x {outside}/link",
    "truncate -s 0 {outside}/file",
    "ln -s {outside}/file link && echo bad > link",
    "ln -s {outside} links && echo bad > links/new",
    "ln {outside}/file twin && echo bad > twin",
    "echo bad > ../../outside/file",
    "echo bad > /proc/self/root{outside}/file",
    "echo bad > /proc/self/cwd/../../outside/file",
    "echo x > mine && cp mine {outside}/new",
    "(setsid sh -c 'echo bad > {outside}/file' &) ; sleep 0.2",
    "cp /dev/null {outside}/file",
]


async def test_nothing_outside_can_be_written(workspace: LocalWorkspace, outside: Path) -> None:
    for number, attempt in enumerate(ATTEMPTS):
        await run(workspace, f"mkdir {number}; cd {number}; " + attempt.format(outside=outside))
        assert contents(outside) == {"file": "as it was\n"}, attempt


async def test_without_a_sandbox_the_same_attempts_succeed(unconfined: LocalWorkspace, outside: Path) -> None:
    await run(unconfined, f"ln -s {outside}/file link && echo bad > link; echo bad > /proc/self/root{outside}/new")
    assert contents(outside) == {"file": "bad\n", "new": "bad\n"}


async def test_other_folders_can_be_read_and_extra_ones_written(
    root: Path, outside: Path, choice: SandboxChoice
) -> None:
    added = outside.parent / "added"
    added.mkdir()
    workspace = LocalWorkspace(root, CommandHost(sandbox=confined(choice)), extra=[added])
    ran = await run(workspace, f"cat {outside}/file; echo a > {added}/f && cat {added}/f")
    await workspace.close()
    assert ran.output == "as it was\na\n"


# ---- secrets -----------------------------------------------------------------------


SECRETS = (
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".config/gcloud/x",
    ".azure/x",
    ".kube/config",
    ".gnupg/x",
    ".netrc",
    ".docker/config.json",
    ".npmrc",
    ".pypirc",
    "friday/auth.toml",
    "friday/data/friday.db",
    "mine/token",
)


async def test_secrets_cannot_be_read(root: Path, outside_tmp: Path, choice: SandboxChoice) -> None:
    home = outside_tmp / "home"
    for name in SECRETS:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("canary-4711\n")
    (home / "plain").write_text("plain\n")
    environ = {**os.environ, "HOME": str(home)}
    sandbox = confined(choice, environ, own=(home / "friday",), read_deny=("~/mine",))
    workspace = LocalWorkspace(root, CommandHost(environ=environ, sandbox=sandbox))
    words = " ".join(f"~/{name}" for name in SECRETS)
    ran = await run(
        workspace,
        f"cat ~/plain; for f in {words}; do cat $f; cat /proc/self/root$HOME/${{f#$HOME/}}; done; ln -s ~/.ssh s; cat s/*;"
        " cp -r ~ copy; tar cf - ~ 2>/dev/null | grep -a canary; grep -rs canary . ~; ln ~/.netrc twin; cat twin",
    )
    await workspace.close()
    assert "plain\n" in ran.output
    assert "canary" not in ran.output
    if choice.kind != "landlock":  # Landlock cannot hide names
        assert "id_ed25519" not in "".join(str(path) for path in (root / "copy").rglob("*"))


async def test_saved_output_can_be_read_in_fridays_own_folder(
    root: Path, outside_tmp: Path, choice: SandboxChoice
) -> None:
    own = outside_tmp / "friday"
    spill = own / "data" / "spill" / "this"
    spill.mkdir(parents=True)
    (spill / "long.txt").write_text("long\n")
    (own / "auth.toml").write_text("canary\n")
    workspace = LocalWorkspace(
        root, CommandHost(overflow_folder=spill, sandbox=confined(choice, own=(own, own / "data")))
    )
    ran = await run(
        workspace, f"cat {spill}/long.txt; echo bad > {spill}/long.txt; cat {own}/auth.toml {own}/data/../auth.toml"
    )
    await workspace.close()
    assert ran.output.startswith("long\n")
    assert "canary" not in ran.output
    assert (spill / "long.txt").read_text() == "long\n"


@pytest.fixture
async def friday() -> AsyncIterator[asyncio.subprocess.Process]:
    """A process of the same user, with a key in its environment."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "print(flush=True); input()",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "OPENAI_API_KEY": "canary-4711"},
    )
    assert process.stdout
    await process.stdout.readline()
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
async def test_the_environment_of_other_processes_cannot_be_read(
    workspace: LocalWorkspace, unconfined: LocalWorkspace, friday: asyncio.subprocess.Process
) -> None:
    look = f"cat /proc/{friday.pid}/environ; cat /proc/[0-9]*/environ | tr '\\0' '\\n'"
    assert "canary-4711" not in (await run(workspace, look)).output
    assert "canary-4711" in (await run(unconfined, look)).output


async def test_friday_cannot_be_killed_from_inside(
    workspace: LocalWorkspace, choice: SandboxChoice, friday: asyncio.subprocess.Process
) -> None:
    if choice.kind == "landlock" and choice.abi < 6:
        pytest.skip(f"NOT TESTED HERE: Landlock {choice.abi} does not limit signals (6 does)")
    if choice.kind == "seatbelt":
        pytest.skip("NOT TESTED HERE: seatbelt does not limit signals")
    await run(workspace, f"kill -9 {friday.pid}; kill -9 -1")
    friday.terminate()
    assert await friday.wait() == -signal.SIGTERM


# ---- the network -------------------------------------------------------------------


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"reached\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


async def test_the_network_is_off_unless_allowed(
    workspace: LocalWorkspace, choice: SandboxChoice, root: Path, port: int
) -> None:
    if choice.kind == "landlock" and choice.abi < 4:
        pytest.skip(f"NOT TESTED HERE: Landlock {choice.abi} does not restrict the network (4 does)")
    connect = f"exec 3<>/dev/tcp/127.0.0.1/{port} && cat <&3"
    ran = await run(workspace, connect)
    assert "reached" not in ran.output
    assert "network is off" in ran.blocked
    assert (await run(workspace, connect, access="network")).output == "reached\n"
    assert (await run(workspace, "echo x > ../../above", access="network")).exit_code != 0
    allowed = LocalWorkspace(root, CommandHost(sandbox=confined(choice, network=True)))
    assert (await run(allowed, connect)).output == "reached\n"
    await allowed.close()


async def test_no_kind_of_socket_leaves_the_machine(
    workspace: LocalWorkspace, choice: SandboxChoice, port: int
) -> None:
    if choice.kind == "landlock" and not system_call_filter.supported():
        pytest.skip(f"NOT TESTED HERE: no filter of system calls for {os.uname().machine}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        udp = server.getsockname()[1]
        for program in (
            f"import socket; socket.socket(2, 1, 262).connect(('127.0.0.1', {port})); print('reached')",  # MPTCP
            f"import socket; socket.socket(2, 1).sendto(b'x', 0x20000000, ('127.0.0.1', {port})); print('reached')",  # fast open
            f"import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', {udp}))",
        ):
            output = (await run(workspace, f'{sys.executable} -c "{program}"')).output
            assert "reached" not in output.splitlines()  # from Python 3.13 on a traceback shows the program
        with pytest.raises(BlockingIOError):
            server.recv(10)


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit")
async def test_the_limits_of_other_processes_cannot_be_changed(
    workspace: LocalWorkspace, unconfined: LocalWorkspace, friday: asyncio.subprocess.Process
) -> None:
    call = f"resource.prlimit({friday.pid}, resource.RLIMIT_NOFILE, (100, 100))"
    change = f'{sys.executable} -c "import resource; {call}"'
    resource.prlimit(friday.pid, resource.RLIMIT_NOFILE, (200, 200))
    await run(workspace, change)
    assert resource.prlimit(friday.pid, resource.RLIMIT_NOFILE) == (200, 200)
    await run(unconfined, change)
    assert resource.prlimit(friday.pid, resource.RLIMIT_NOFILE) == (100, 100)


async def test_an_abstract_socket_cannot_be_reached(
    workspace: LocalWorkspace, unconfined: LocalWorkspace, choice: SandboxChoice
) -> None:
    if choice.kind == "seatbelt" or (choice.kind == "landlock" and choice.abi < 6):
        pytest.skip(f"NOT TESTED HERE: {choice.kind} {choice.detail} does not restrict abstract sockets")
    name = f"friday-{uuid.uuid4()}"
    command = client(f"\0{name}")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        assert "reached" not in (await run(workspace, command)).output
        assert (await run(unconfined, command)).output == "reached\n"


async def test_a_key_agent_cannot_be_reached(root: Path, outside_tmp: Path, choice: SandboxChoice) -> None:
    agent = outside_tmp / "agent"
    environ = {**os.environ, "SSH_AUTH_SOCK": str(agent), "DOCKER_HOST": f"unix://{agent}", "KEPT": "1"}
    workspace = LocalWorkspace(root, CommandHost(environ=environ, sandbox=confined(choice, environ)))
    command = client("../agent")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(outside_tmp)  # the name of a socket is short
        server.bind("agent")
        os.chdir(here)
        server.listen()
        assert (await run(workspace, "echo $SSH_AUTH_SOCK$DOCKER_HOST$KEPT")).output == "1\n"
        assert "reached" not in (await run(workspace, command)).output
        assert "reached" in (await run(workspace, command, access="outside")).output
    await workspace.close()


@pytest.mark.skipif(sys.platform != "linux", reason="/run")
async def test_the_sockets_of_services_are_covered(workspace: LocalWorkspace, choice: SandboxChoice) -> None:
    if choice.kind != "bubblewrap":
        pytest.skip(f"NOT TESTED HERE: {choice.kind} cannot cover folders")
    ran = await run(workspace, "ls /run/docker.sock /var/run/docker.sock /run/dbus /run/user; echo x > /run/x")
    assert ran.output.count("Permission denied") + ran.output.count("No such file") + ran.output.count("Read-only") == 5


# ---- the terminal --------------------------------------------------------------------


async def test_the_users_terminals_cannot_be_written_or_read(workspace: LocalWorkspace) -> None:
    leader, follower = os.openpty()
    name = os.ttyname(follower)
    os.set_blocking(leader, False)
    try:
        ran = await run(workspace, f"echo bad > {name}; echo bad > /dev/tty; head -c1 {name}; tty")
        assert ran.exit_code != 0
        with pytest.raises(BlockingIOError):
            os.read(leader, 10)
    finally:
        os.close(leader)
        os.close(follower)


async def test_no_privilege_can_be_gained(workspace: LocalWorkspace) -> None:
    ran = await run(workspace, "grep -E 'CapEff|NoNewPrivs' /proc/self/status; mount -t tmpfs none . && echo mounted")
    assert "NoNewPrivs:\t1" in ran.output
    assert "mounted" not in ran.output


async def test_kernel_settings_cannot_be_written(workspace: LocalWorkspace) -> None:
    """Root needs no capability to write them, and the program in `core_pattern` runs outside of every sandbox."""
    names = (
        "/proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sysrq-trigger /proc/mtrr /proc/irq/*/smp_affinity"
    )
    ran = await run(workspace, f"for f in {names}; do (: >> $f) 2>/dev/null && echo $f; done; echo done")
    assert ran.output == "done\n"
