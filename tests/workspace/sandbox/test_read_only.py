"""Read-only commands, with a witness: no file of the folder is changed or executed, nothing connects, no secret is
read, whatever the command is."""

from __future__ import annotations

import hashlib
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.command_safety import workspace_fixture
from tests.command_safety.rows import MUST_PASS
from tests.workspace.commands import run
from tests.workspace.sandbox.conftest import chosen, confined, git

PYTHON = os.path.realpath(sys.executable)
"""Not that of the virtual environment, whose folder may be a temporary one that commands cannot read."""
CANARY = f"canary-{'8' * 6}"
"""It is in no file of this repository, which git may show."""
SHARED = ("/tmp", "/var/tmp", "/dev/shm")
LOOK = [command for _, mode, _, commands in MUST_PASS if mode in ("ask", "plan") for command in commands]
WRITE = (
    "echo x > new",
    "echo x >> README.md",
    ": > README.md",
    "cp README.md new",
    "mv x.txt moved",
    "rm -f x.txt",
    "rm -rf src",
    "touch new",
    "touch README.md",
    "mkdir made",
    "rmdir 'my dir'",
    "ln -s x made",
    "ln README.md made",
    "chmod 777 run.sh",
    "chmod -x run.sh",
    "chown 1:1 x.txt",
    "truncate -s 0 README.md",
    "{python} -c 'import os; os.open(\"x.txt\", os.O_TRUNC)'",
    "dd if=/dev/zero of=x.txt count=1",
    "tee new < README.md",
    "sed -i s/text/bad/ README.md",
    "sed -n 'w new' README.md",
    "sed '/[]/s,]/w new' README.md",
    "sort -o new README.md",
    "awk '{ print > \"new\" }' README.md",
    "find . -name x.txt -delete",
    "find src -type f -exec rm {} +",
    "find . -fprint new",
    "git init made",
    "git add x.txt",
    "git config --file new a.b c",
    "git -c user.name=a commit -m x",
    "install README.md new",
    "mknod made p",
    "split -l 1 README.md made",
    '{python} -c \'open("new", "w")\'',
    '{python} -c \'import os; os.setxattr("x.txt", "user.a", b"b")\'',
    "{python} -c 'import os; os.utime(\"x.txt\", (1, 1))'",
    '{python} -c \'import fcntl, os; fcntl.ioctl(os.open("x.txt", 0), 0x40086602, b"\\x40" + bytes(7))\'',
    "chattr +A x.txt",
    "echo x > {outside}/new",
    "rm -f {outside}/key.txt",
    "echo x > $HOME/new",
    *(f"echo x > {folder}/friday-witness-{{port}}" for folder in SHARED),
)
EXECUTE = (
    "./run.sh", "{root}/run.sh", "find . -name run.sh -exec {} \\;", "echo ./run.sh | xargs -n 1 env", "env ./run.sh",
    "awk 'BEGIN { system(\"./run.sh\") }'", "sed '1e ./run.sh' README.md", "git -c core.fsmonitor=./run.sh status",
    "git -c diff.external=./run.sh diff --no-index x.txt README.md", "git -c core.pager=./run.sh -p log", "PATH=. run.sh",
    "cp run.sh $TMPDIR/mine; $TMPDIR/mine", "sort --compress-program=./run.sh -S 1b README.md", "tar -cf - x.txt -I ./run.sh",
    "{python} -c 'import os; os.execv(\"./run.sh\", [\"a\"])'", "timeout 5 ./run.sh",
)  # fmt: skip
READ = (
    "cat .env", "cat .[^x]nv", "grep -r canary .", "grep '' .env", "head server.pem", "xargs cat <<< .env", "od -c .env",
    "{python} -c 'print(open(\".env\").read())'", "cat $HOME/.netrc", "cat $HOME/notes.txt", "git diff --no-index /dev/null .env",
    "cp .env $TMPDIR/e; cat $TMPDIR/e", "ln .env $TMPDIR/e; cat $TMPDIR/e", "cat /proc/self/root{root}/.env", "strings server.pem",
)  # fmt: skip
CONNECT = (
    "echo x > /dev/tcp/127.0.0.1/{port}",
    "{python} -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'",
    "{python} -c 'import socket; socket.socket(2, 1, 262).connect((\"127.0.0.1\", {port}))'",
    '{python} -c \'import socket; socket.socket(2, 2).sendto(b"x", ("127.0.0.1", {port}))\'',
    "{python} -c 'import socket; socket.socket(1).connect(\"{outside}/socket\")'",
    "echo x > /dev/udp/127.0.0.1/{port}",
)
FORMS = (
    "( {0} )", "{ {0}; } & wait", "f() { {0}; }; f", "eval {1}", "bash -c {1}", "ls | while read l; do {0}; break; done",
    "if true; then {0}; fi", "x=$({0}); echo \"$x\"", "nice timeout 5 bash -c {1}",
)  # fmt: skip
BATCH = 40


def state(folder: Path) -> dict[str, object]:
    """Everything that a command could change in a folder."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
        found[str(path.relative_to(folder))] = (
            status.st_mode,
            status.st_uid,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_nlink,
            content,
        )
    return found


class Witness:
    """A project with secrets, a program that leaves a mark, and a server, next to a home."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        self.root = workspace_fixture.create_project(folder)
        (self.root / ".git/config").unlink()
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for words in (("init", "-q"), ("add", "README.md", "src"), (*who, "commit", "-qm", "x")):
            subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True, timeout=60)
        self.tcp, self.udp, self.local = socket.create_server(("127.0.0.1", 0)), socket.socket(2, 2), socket.socket(1)
        port = self.tcp.getsockname()[1]
        self.udp.bind(("127.0.0.1", port))
        here = os.getcwd()
        os.chdir(folder / "outside")  # the name of a socket is short
        self.local.bind("socket")
        os.chdir(here)
        self.local.listen()
        for server in (self.tcp, self.udp, self.local):
            server.setblocking(False)
        for name in (".env", "server.pem"):
            (self.root / name).write_text(f"KEY={CANARY}\n")
        for name in (".netrc", "notes.txt"):
            (home / name).write_text(f"{CANARY}\n")
        (self.root / "run.sh").write_text("#!/bin/sh\necho ran-$((1 + 1))\n")
        (self.root / "run.sh").chmod(0o755)
        self.names = {"root": self.root, "outside": folder / "outside", "port": port, "python": PYTHON}
        self.before = state(folder), state(home)

    def unharmed(self) -> bool:
        left = [folder for folder in SHARED if os.path.lexists(f"{folder}/friday-witness-{self.names['port']}")]
        return (state(self.folder), state(self.home)) == self.before and not left and not self._connected()

    def _connected(self) -> bool:
        for server in (self.tcp, self.local):
            try:
                server.accept()
                return True
            except BlockingIOError:
                pass
        try:
            self.udp.recv(10)
            return True
        except BlockingIOError:
            return False

    def close(self) -> None:
        for server in (self.tcp, self.udp, self.local):
            server.close()


@pytest.fixture
def witness(outside_tmp: Path, home: Path) -> Iterator[Witness]:
    made = Witness(outside_tmp, home)
    yield made
    made.close()


@pytest.fixture(params=("landlock", "bubblewrap"))
def looking(request: pytest.FixtureRequest) -> SandboxChoice:
    """A sandbox in which a command is read-only."""
    found = chosen(request.param)
    if isinstance(found, str):
        pytest.skip(f"NOT TESTED HERE: {found}")
    return SandboxChoice(found.kind, found.program, found.detail, read_only_kind=found.kind)


def variants(commands: tuple[str, ...], witness: Witness) -> list[str]:
    """Each command as it is and in three of the forms; three commands in a row are in all of them."""
    filled = list(commands)
    for name, value in witness.names.items():
        filled = [command.replace(f"{{{name}}}", str(value)) for command in filled]
    return filled + [
        FORMS[(at + more) % len(FORMS)].replace("{0}", command).replace("{1}", shlex.quote(command))
        for at, command in enumerate(filled)
        for more in (0, 3, 6)
    ]


async def outputs(choice: SandboxChoice, witness: Witness, commands: list[str]) -> str:
    """What all commands print; each batch of them runs in one read-only shell, each command in a shell of its own."""
    workspace = LocalWorkspace(witness.root, CommandHost(sandbox=confined(choice, write=())))
    assert workspace.supports_read_only
    printed = []
    for first in range(0, len(commands), BATCH):
        script = "\n".join(f"bash -c {shlex.quote(command)}" for command in commands[first : first + BATCH])
        printed.append((await run(workspace, script, access="read_only")).output)
        assert witness.unharmed(), commands[first : first + BATCH]
    await workspace.close()
    return "".join(printed)


@pytest.mark.parametrize(
    "commands",
    [WRITE, EXECUTE, READ, CONNECT],
    ids=("write", "execute", "read", "connect"),
)
async def test_nothing_is_changed_executed_read_or_reached(
    witness: Witness, looking: SandboxChoice, commands: tuple[str, ...]
) -> None:
    printed = await outputs(looking, witness, variants(commands, witness))
    assert CANARY not in printed
    if looking.read_only_kind == "landlock":  # bubblewrap cannot prevent that a file of the folder is executed
        assert "ran-2" not in printed


async def test_a_copy_in_a_temporary_folder_anywhere_is_not_executed(
    witness: Witness, looking: SandboxChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the usual temporary folders everything is hidden; this one is in none of them."""
    if looking.read_only_kind != "landlock":
        pytest.skip("NOT TESTED HERE: only Landlock prevents that a file of the folder is executed")
    with tempfile.TemporaryDirectory(prefix=".sandbox-test-", dir=witness.folder.parent) as elsewhere:
        monkeypatch.setattr("tempfile.tempdir", elsewhere)
        copied = "cp run.sh $TMPDIR/mine; cat $TMPDIR/mine; $TMPDIR/mine; echo $TMPDIR"
        printed = await outputs(looking, witness, [copied])
    assert "echo ran-" in printed
    assert "ran-2" not in printed
    assert elsewhere in printed


@pytest.mark.parametrize("part", range(8))
async def test_what_passes_because_it_looks_harms_nothing(witness: Witness, looking: SandboxChoice, part: int) -> None:
    printed = await outputs(looking, witness, LOOK[part::8])
    assert CANARY not in printed
    assert "ran-2" not in printed


async def test_git_runs_no_program_of_a_setting_and_the_limits_hold(witness: Witness, looking: SandboxChoice) -> None:
    """Programs of the system could be executed: the settings that name them are neutral."""
    with (witness.root / ".git/config").open("a") as file:
        file.write('[core]\n\tfsmonitor = "echo helper-$((1 + 1)) >&2; false"\n')
    await git(witness.root, "init", "-q", "--bare", "x.git")
    (witness.root / "README.md").write_text("changed\n")
    environ = {**os.environ, "GIT_EXTERNAL_DIFF": "echo outer-$((1 + 1))"}
    workspace = LocalWorkspace(witness.root, CommandHost(environ=environ, sandbox=confined(looking, write=())))
    command = "git status --short; git diff; git -C x.git log; ulimit -t; ulimit -d; ulimit -f"
    usual = (await run(workspace, command)).output
    looked = (await run(workspace, command, access="read_only")).output
    await workspace.close()
    for text, words in (
        ("helper-2", usual),
        ("outer-2", usual),
        ("+changed", looked),
        ("cannot use bare repository", looked),
    ):
        assert text in words
    assert not [text for text in ("helper-2", "outer-2") if text in looked]
    assert looked.endswith("600\n4194304\n1048576\n")
    assert "600\n4194304" not in usual


FORKS = """
import os, resource, signal
started, most = [], resource.getrlimit(resource.RLIMIT_NPROC)[0]
try:
    while len(started) <= most:
        pid = os.fork()
        if not pid:
            signal.pause()
        started.append(pid)
except BlockingIOError:
    pass
for pid in started:
    os.kill(pid, signal.SIGKILL)
print("all" if len(started) > most else "limited")
"""


async def test_the_number_of_processes_is_limited(witness: Witness, looking: SandboxChoice) -> None:
    if os.geteuid() == 0:
        pytest.skip("NOT TESTED HERE: not tested as root, whose processes the kernel does not limit")
    printed = await outputs(looking, witness, [f"{PYTHON} -c {shlex.quote(FORKS)}"])
    assert printed == "limited\n"


LASTING = """
import ctypes, fcntl, os
libc = ctypes.CDLL(None)
def tried(name, call):
    try:
        if call() != -1:
            print(name, end=" ")
    except OSError:
        pass
tried("memory", lambda: libc.shmctl(libc.shmget(0, 4096, 0o1600), 0, 0))
tried("queue", lambda: libc.msgctl(libc.msgget(0, 0o1600), 0, 0))
tried("semaphore", lambda: libc.semctl(libc.semget(0, 1, 0o1600), 0, 0))
tried("processors", lambda: os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0)))
tried("priority", lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), os.nice(0)))
tried("file", lambda: fcntl.ioctl(os.open("x.txt", 0), 0x80086601, bytes(8)) and 1)
"""


async def test_nothing_in_the_kernel_outlives_it_and_other_processes_stay_as_they_are(
    witness: Witness, looking: SandboxChoice
) -> None:
    printed = await outputs(looking, witness, [f"{PYTHON} -c {shlex.quote(LASTING)}; echo end; nice ls > /dev/null"])
    assert printed == "end\n"


async def test_the_witness_notices(witness: Witness) -> None:
    """The same commands do harm where nothing confines them."""
    workspace = LocalWorkspace(witness.root)
    port = witness.names["port"]
    ran = await run(workspace, "cat .env; ./run.sh")
    assert ran.output == f"KEY={CANARY}\nran-2\n"
    assert witness.unharmed()
    for harm, repair in (
        (f"echo x > /dev/tcp/127.0.0.1/{port}", ""),
        (f"echo x > /tmp/friday-witness-{port}", f"rm /tmp/friday-witness-{port}"),
        ("echo x > $HOME/new", "rm $HOME/new"),
        ("chmod 700 run.sh", "chmod 755 run.sh"),
    ):
        await run(workspace, harm)
        assert not witness.unharmed(), harm
        await run(workspace, repair or "true")
        witness.before = state(witness.folder), state(witness.home)
        assert witness.unharmed(), repair
    await workspace.close()
