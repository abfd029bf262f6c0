"""Confined commands and local sockets: those of the person cannot be reached by any path, those of the command stay usable."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from friday_cli.core.protocol.workspace import CommandResult
from friday_cli.system import session_socket
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox import system_call_filter
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.workspace.sandbox.conftest import confined

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not system_call_filter.supported(), reason="a filter of system calls"
)


@pytest.fixture(autouse=True)
def a_kind_with_a_filter(choice: SandboxChoice) -> None:
    if choice.kind == "seatbelt":
        pytest.skip("NOT TESTED HERE: seatbelt's rules are text")


async def python(workspace: LocalWorkspace, code: str) -> CommandResult:
    """Run a Python program in the folder of the workspace."""
    path = workspace.root / "program.py"
    path.write_text(code)
    return await workspace.run(
        f"{sys.executable} program.py 2>&1", agent="a", timeout_s=120, on_output=lambda text: None
    )


@contextmanager
def services(*paths: Path, kind: int = socket.SOCK_STREAM) -> Iterator[list[socket.socket]]:
    """Sockets of the person that listen at `paths`."""
    here, made = os.getcwd(), []
    try:
        for path in paths:
            os.chdir(path.parent)  # the name of a socket is short
            made.append(socket.socket(socket.AF_UNIX, kind))
            made[-1].bind(path.name)
            if kind != socket.SOCK_DGRAM:
                made[-1].listen(50)
            made[-1].setblocking(False)
        yield made
    finally:
        os.chdir(here)
        for one in made:
            one.close()


def connects(kind: str, *paths: str) -> str:
    return (
        "import os, socket\n"
        f"for path in {paths!r}:\n"
        f"    s = socket.socket(socket.AF_UNIX, socket.SOCK_{kind})\n"
        "    try:\n        s.connect(path)\n        s.send(b'x')\n        print('REACHED', path)\n"
        "    except OSError as error:\n        print(type(error).__name__)\n"
    )


@pytest.mark.parametrize("kind", ["STREAM", "SEQPACKET"])
async def test_no_socket_of_the_person_is_reached(
    workspace: LocalWorkspace, outside_tmp: Path, root: Path, kind: str
) -> None:
    (root / "link").symlink_to("../service")
    (root / "folder").symlink_to("..")
    (root / "sub").mkdir()
    ways = (
        "../service",
        str(outside_tmp / "service"),
        "inside",
        "sub/inside",
        "link",
        "folder/service",
        "/proc/self/cwd/../service",
        f"/proc/self/root{outside_tmp}/service",
        "./sub/../../service",
        "/proc/thread-self/cwd/inside",
    )
    with services(
        outside_tmp / "service", root / "inside", root / "sub/inside", kind=getattr(socket, f"SOCK_{kind}")
    ) as made:
        ran = await python(workspace, connects(kind, *ways))
        assert (ran.output.count("Error"), "REACHED" in ran.output) == (len(ways), False), ran.output
        for one in made:
            with pytest.raises(BlockingIOError):
                one.accept()


async def test_the_socket_of_a_session_is_neither_reached_nor_removed_nor_replaced(
    workspace: LocalWorkspace, outside_tmp: Path
) -> None:
    folder = session_socket.socket_folder({"FRIDAY_HOME": str(outside_tmp)})
    folder.mkdir(parents=True)
    path = folder / "1.sock"
    code = (
        "import os, socket\n"
        f"path, folder = {str(path)!r}, {str(folder)!r}\n"
        "ways = (lambda: socket.socket(socket.AF_UNIX).connect(path), lambda: os.unlink(path), lambda: os.rename(path, path + 'x'),\n"
        "        lambda: os.symlink('/tmp/other', folder + '/2.sock'), lambda: open(folder + '/3.sock', 'w'), lambda: os.rename(folder, folder + 'x'))\n"
        "for way in ways:\n    try:\n        way()\n        print('DONE')\n    except OSError as error:\n        print('no')\n"
    )
    with services(path) as (owner,):
        ran = await python(workspace, code)
        assert ran.output.split() == ["no"] * 6, ran.output
        with pytest.raises(BlockingIOError):
            owner.accept()
    assert [entry.name for entry in folder.iterdir()] == ["1.sock"]


async def test_datagrams_reach_no_service_either(workspace: LocalWorkspace, outside_tmp: Path) -> None:
    code = (
        "import socket\n"
        "def a(kind): socket.socket(socket.AF_UNIX, kind).sendto(b'x', '../service')\n"
        "def b(kind): socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b'x', '../service')\n"
        "def c(kind): socket.socket(socket.AF_UNIX, kind).sendmsg([b'x'], [], 0, '../service')\n"
        "for way in (a, b, c):\n    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):\n"
        "        try:\n            way(kind)\n            print('SENT')\n        except OSError as error:\n            print('no')\n"
    )
    with services(outside_tmp / "service", kind=socket.SOCK_DGRAM) as (service,):
        ran = await python(workspace, code)
        assert (ran.exit_code, ran.output.count("no") > 5) == (0, True), ran.output
        with pytest.raises(BlockingIOError):
            service.recv(10)


async def test_a_thread_that_changes_the_address_meanwhile_reaches_nothing(
    workspace: LocalWorkspace, outside_tmp: Path
) -> None:
    """The supervisor reads the address once and connects itself; so does a name that is swapped on the disk."""
    code = """
import ctypes, os, socket, struct, sys, threading, time
sys.setswitchinterval(0.0005)
libc = ctypes.CDLL(None)
own = socket.socket(socket.AF_UNIX); own.bind('own'); own.listen(1000)
good, bad = (struct.pack('H', 1) + name.ljust(20, b'\\0') for name in (b'own', b'../service'))
text, stop = ctypes.create_string_buffer(good, len(good)), False
def flip():
    while not stop:
        ctypes.memmove(text, bad, len(bad)); ctypes.memmove(text, good, len(good))
def swap():
    while not stop:
        os.symlink('own', 'n1'); os.replace('n1', 'name'); os.symlink('../service', 'n2'); os.replace('n2', 'name')
threads = [threading.Thread(target=work) for work in (flip, swap)]
[thread.start() for thread in threads]
reached, turn, end = 0, 0, time.monotonic() + 8
while turn < 150 and (time.monotonic() < end or not reached):  # a busy machine tries less often
    turn += 1
    s = socket.socket(socket.AF_UNIX); reached += libc.connect(s.fileno(), text, len(good)) == 0; s.close()
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect('name'); reached += 1
    except OSError: pass
stop = True
[thread.join() for thread in threads]
print('own', reached > 0)
"""
    with services(outside_tmp / "service") as (service,):
        ran = await python(workspace, code)
        assert "own True" in ran.output, ran.output
        with pytest.raises(BlockingIOError):
            service.accept()


async def test_a_service_under_a_name_that_the_command_bound_before_is_not_reached(
    workspace: LocalWorkspace, root: Path
) -> None:
    code = (
        "import os, socket\n"
        "os.rename('inside', 'kept')\nown = socket.socket(socket.AF_UNIX); own.bind('inside'); own.listen()\n"
        "os.unlink('inside'); os.rename('kept', 'inside')\n" + connects("STREAM", "inside")
    )
    with services(root / "inside") as (service,):
        ran = await python(workspace, code)
        assert "REACHED" not in ran.output
        with pytest.raises(BlockingIOError):
            service.accept()


MANAGER = """
import multiprocessing as m
def work(d): d['x'] = 1
if __name__ == '__main__':
    m.set_start_method('forkserver')
    with m.Manager() as manager:
        d = manager.dict()
        p = m.Process(target=work, args=(d,)); p.start(); p.join()
        print(dict(d))
"""


async def test_what_the_command_itself_makes_stays_usable(workspace: LocalWorkspace) -> None:
    assert (await python(workspace, MANAGER)).output == "{'x': 1}\n"
    code = (
        "import os, socket, tempfile, threading\n"
        "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n"
        "r, w = os.pipe(); os.write(w, b'x'); assert os.read(r, 1) == b'x'\n"
        "for path in ('sock', os.path.join(tempfile.mkdtemp(), 'sock')):\n"
        "    server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen()\n"
        "    client = socket.socket(socket.AF_UNIX); client.connect(path); client.send(b'x')\n"
        "    assert server.accept()[0].recv(1) == b'x'\n"
        "try:\n    socket.socket(socket.AF_UNIX).connect('missing')\nexcept FileNotFoundError:\n    print('right')\n"
    )
    ran = await python(workspace, code)
    assert ran.output == "right\n"


async def test_a_server_in_the_background_is_reached_by_the_next_command(workspace: LocalWorkspace) -> None:
    (workspace.root / "server.py").write_text(
        "import socket\ns = socket.socket(socket.AF_UNIX); s.bind('sock'); s.listen(); print('ready', flush=True)\n"
        "s.accept()[0].send(b'hello')\n"
    )
    started = await workspace.start(f"{sys.executable} server.py", agent="a")
    seen = started.output
    while "ready" not in seen:
        seen += (await workspace.job(started.id, agent="a", wait_s=5)).output
    ran = await python(workspace, "import socket\ns = socket.socket(1); s.connect('sock'); print(s.recv(9))\n")
    assert ran.output == "b'hello'\n"


async def test_a_socket_that_the_settings_name_is_reached(root: Path, outside_tmp: Path, choice: SandboxChoice) -> None:
    (outside_tmp / "named").mkdir()
    write = (str(outside_tmp / "named"), sys.prefix, sys.base_prefix)
    workspace = LocalWorkspace(root, CommandHost(sandbox=confined(choice, write=write)))
    with services(outside_tmp / "named/service"):
        ran = await python(workspace, connects("STREAM", "../named/service"))
        assert "REACHED" in ran.output, ran.output
    await workspace.close()


async def test_other_doors_to_processes_of_the_person_are_closed(workspace: LocalWorkspace) -> None:
    """/proc/PID/{root,cwd,fd,mem}, abstract names and input of a terminal (TIOCSTI)."""
    with services() as _, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0friday-{os.getpid()}")
        abstract.listen()
        code = (
            "import fcntl, os, socket, sys\n"
            f"pid = {os.getpid()}\n"
            "def tries():\n"
            "    for name in ('root/etc/hostname', 'cwd/.', 'fd/0', 'mem', 'environ', 'exe'):\n"
            "        yield lambda name=name: os.open(f'/proc/{pid}/{name}', os.O_RDONLY)\n"
            "        yield lambda name=name: os.readlink(f'/proc/{pid}/{name.partition(chr(47))[0]}')\n"
            "    yield lambda: os.readlink(f'/proc/{pid}/fd/0')\n"
            "    yield lambda: socket.socket(socket.AF_UNIX).connect(f'\\0friday-{pid}')\n"
            "    yield lambda: fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), 0x5412, b'x')\n"
            "for number, attempt in enumerate(tries()):\n"
            "    try:\n        attempt()\n        print('DONE', number)\n    except OSError:\n        pass\n"
        )
        ran = await python(workspace, code)
        assert (ran.exit_code, ran.output) == (0, "")


async def test_many_calls_at_once_are_answered(workspace: LocalWorkspace) -> None:
    code = (
        "import socket, threading\n"
        "own = socket.socket(socket.AF_UNIX); own.bind('own'); own.listen(500)\n"
        "def work():\n    for _ in range(10):\n        s = socket.socket(socket.AF_UNIX); s.connect('own'); s.close()\n"
        "threads = [threading.Thread(target=work) for _ in range(20)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]; print('all')\n"
    )
    both = await asyncio.gather(
        python(workspace, code),
        workspace.run("echo beside", agent="b", timeout_s=120, on_output=lambda text: None),
    )
    assert [ran.output for ran in both] == ["all\n", "beside\n"]
    assert threading.active_count() < 50
