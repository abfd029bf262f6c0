"""A confined program whose network is one port of this machine: what it reaches, and what it cannot."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from friday_cli.core.protocol.errors import ToolError
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.server import ServerProgram
from friday_cli.workspace.sandbox import bubblewrap, only_port, seatbelt, system_call_filter
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.workspace.sandbox.test_plan import PLAN

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not system_call_filter.supported(), reason="a filter of system calls"
)
PROGRAM = """
import ctypes, errno, json, os, socket, sys, threading
ports = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def tcp(host, port, family=socket.AF_INET, kind=socket.SOCK_STREAM, protocol=0):
    with socket.socket(family, kind, protocol) as one:
        one.settimeout(5)
        one.connect((host, port))
        return one.recv(5).decode()
def fast(host, port):
    with socket.socket() as one:
        one.sendto(b"x", 0x20000000, (host, port))
        return one.recv(5).decode()
def fast_message(host, port):
    with socket.socket() as one:
        one.sendmsg([b"x"], [], 0x20000000, (host, port))
        return one.recv(5).decode()
def later(host, port):
    with socket.socket() as one:
        one.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT
        one.connect((host, port))
        one.send(b"x")
        return one.recv(5).decode()
def datagram(family=socket.AF_INET, kind=socket.SOCK_DGRAM, protocol=0):
    socket.socket(family, kind, protocol).close()
    return "made"
def served(address="127.0.0.1", family=socket.AF_INET, bind=True):
    with socket.socket(family) as one:
        if bind:
            one.bind((address, 0))
        one.listen()
        threading.Thread(target=lambda: one.accept()[0].send(b"mine"), daemon=True).start()
        return tcp("::1" if family == socket.AF_INET6 else "127.0.0.1", one.getsockname()[1], family)
def name():
    return str(bool(socket.getaddrinfo("example.org", 80)))
def raced():
    import time
    right = socket.inet_aton("127.0.0.1"), ports["meter"]
    address = ctypes.create_string_buffer(16)
    def fill(port):
        address[0:8] = socket.AF_INET.to_bytes(2, "little") + port.to_bytes(2, "big") + right[0]
    over, found = time.monotonic() + 1.5, set()
    def change():
        while time.monotonic() < over:
            fill(ports["meter"]), fill(ports["other"])
    threading.Thread(target=change).start()
    while time.monotonic() < over:
        with socket.socket() as one:
            if libc.connect(one.fileno(), address, 16) == 0:
                found.add(one.recv(5).decode())
    return "never the other" if found <= {"meter"} else "REACHED"
tries = {
    "meter": lambda: tcp("127.0.0.1", ports["meter"]),
    "meter by 6": lambda: tcp("::ffff:127.0.0.1", ports["meter"], socket.AF_INET6),
    "own": served,
    "own 6": lambda: served("::1", socket.AF_INET6),
    "raced": raced,
    "other": lambda: tcp("127.0.0.1", ports["other"]),
    "other 6": lambda: tcp("::1", ports["six"], socket.AF_INET6),
    "far": lambda: tcp("192.0.2.1", ports["meter"]),
    "far 6": lambda: tcp("2001:db8::1", ports["meter"], socket.AF_INET6),
    "any": lambda: tcp("0.0.0.0", ports["other"]),
    "fast": lambda: fast("127.0.0.1", ports["other"]),
    "fast message": lambda: fast_message("127.0.0.1", ports["other"]),
    "later": lambda: later("127.0.0.1", ports["other"]),
    "mptcp": lambda: tcp("127.0.0.1", ports["meter"], protocol=262),
    "sctp": lambda: datagram(protocol=132, kind=socket.SOCK_STREAM),
    "udp": datagram,
    "udp 6": lambda: datagram(socket.AF_INET6),
    "raw": lambda: datagram(kind=socket.SOCK_RAW, protocol=1),
    "packet": lambda: datagram(17, socket.SOCK_RAW),
    "vsock": lambda: datagram(40, socket.SOCK_STREAM),
    "open to all": lambda: served("0.0.0.0"),
    "not bound": lambda: served(bind=False),
    "name": name,
}
for what, act in tries.items():
    try:
        answer = act()
    except OSError as error:
        answer = "no"
    print(json.dumps([what, answer]), flush=True)
"""
ALLOWED = {"meter": "meter", "meter by 6": "meter", "own": "mine", "own 6": "mine", "raced": "never the other"}


@pytest.fixture(autouse=True)
def a_kind_with_a_filter(choice: SandboxChoice) -> None:
    if choice.kind == "seatbelt":
        pytest.skip("NOT TESTED HERE: seatbelt's rules are text")


async def _service(word: str, host: str = "127.0.0.1") -> asyncio.Server:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word.encode())
        writer.close()

    return await asyncio.start_server(answer, host, 0, family=socket.AF_INET6 if ":" in host else socket.AF_INET)


async def _said(workspace: LocalWorkspace, program: ServerProgram) -> str:
    server = await workspace.serve(program, "a.1")
    said = b""
    async with asyncio.timeout(60):
        while data := await server.read():
            said += data
    await server.end()
    return said.decode() + server.errors


@pytest.mark.skipif(not socket.has_ipv6, reason="IPv6")
async def test_it_reaches_that_port_and_what_it_serves_itself_and_nothing_else(
    workspace: LocalWorkspace, root: Path
) -> None:
    services = {"meter": await _service("meter"), "other": await _service("other"), "six": await _service("six", "::1")}
    ports = {name: server.sockets[0].getsockname()[1] for name, server in services.items()}
    (root / "program.py").write_text(PROGRAM)
    program = ServerProgram(
        (sys.executable, "program.py", json.dumps(ports)),
        {"PATH": os.environ["PATH"]},
        confined=True,
        network=True,
        only_port=ports["meter"],
    )
    said = dict(json.loads(line) for line in (await _said(workspace, program)).splitlines())
    assert {what: answer for what, answer in said.items() if answer != "no"} == ALLOWED
    assert len(said) == 23
    for server in services.values():
        server.close()


async def test_a_port_of_another_confined_command_is_not_reached(workspace: LocalWorkspace) -> None:
    def program(code: str) -> ServerProgram:
        path = {"PATH": os.environ["PATH"]}
        return ServerProgram((sys.executable, "-c", code), path, confined=True, network=True, only_port=1)

    serving = (
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\ns.accept()"
    )
    first = await workspace.serve(program(serving), "a.1")
    async with asyncio.timeout(60):
        port = int(await first.read())
    tries = (
        f"import socket\ntry:\n    socket.create_connection(('127.0.0.1', {port}))\n    print('REACHED')\n"
        "except OSError:\n    print('no')\n"
    )
    assert await _said(workspace, program(tries)) == "no\n"
    await first.end()


async def test_what_a_program_and_its_commands_execute_is_recorded(workspace: LocalWorkspace, root: Path) -> None:
    script = "(sh -c 'true; /bin/echo \"a  b\"'); exec env X=1 /bin/echo end"
    program = ServerProgram(
        ("sh", "-c", script), {"PATH": os.environ["PATH"]}, confined=True, network=True, record=True
    )
    server = await workspace.serve(program, "a.1")
    async with asyncio.timeout(60):
        while await server.read():
            pass
    await server.wait()
    rows = server.executed or []
    own = [row for row in rows if row.words[:2] == ["sh", "-c"] or row.words[:1] == [os.fsdecode("sh")]]
    words = [row.words for row in rows]
    assert ["/bin/echo", "a  b"] in words
    assert ["sh", "-c", 'true; /bin/echo "a  b"'] in words
    assert words[-1] == ["/bin/echo", "end"]
    inner = next(row for row in rows if row.words[:1] == ["/bin/echo"] and row.words[1:] == ["a  b"])
    assert own[-1].pid in (inner.pid, *inner.above)


async def test_without_a_wish_nothing_is_recorded(workspace: LocalWorkspace) -> None:
    program = ServerProgram(("sh", "-c", "/bin/true"), {"PATH": os.environ["PATH"]}, confined=True, network=True)
    server = await workspace.serve(program, "a.1")
    await server.wait()
    assert server.executed is None


async def test_a_terminal_of_its_own_can_be_made_and_no_other_opened(workspace: LocalWorkspace, root: Path) -> None:
    ours, theirs = os.openpty()
    name = os.ttyname(theirs)
    (root / "t.py").write_text(
        "import os, pty, sys\n"
        f"try:\n    os.open({name!r}, os.O_RDWR | os.O_NOCTTY)\n    print('REACHED')\n"
        "except OSError:\n    print('no')\n"
        "pid, fd = pty.fork()\n"
        "if pid == 0:\n    os.execvp('sh', ['sh', '-c', 'test -t 0 && echo in a terminal > /dev/tty'])\n"
        "try:\n    print(os.read(fd, 100).decode().strip())\nexcept OSError as error:\n    print(error)\n"
    )
    ran = await workspace.run(f"{sys.executable} t.py", agent="a", timeout_s=30, on_output=lambda text: None)
    assert ran.output.splitlines() == ["no", "in a terminal"], ran.output
    os.close(ours)
    os.close(theirs)


async def test_a_machine_that_cannot_limit_the_network_starts_nothing(
    workspace: LocalWorkspace, choice: SandboxChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed = system_call_filter.GuardedCalls(only_port=True)
    monkeypatch.setattr(system_call_filter, "supported", lambda: False)
    with pytest.raises(OSError, match="cannot be limited to one address"):
        system_call_filter.guard_calls(handed)
    if choice.kind == "bubblewrap":
        with monkeypatch.context() as patched:  # not for what removes the folders of this test
            patched.setattr(os, "stat", lambda path: os.stat_result((0o104755, *[0] * 9)))
            with pytest.raises(OSError, match="rights of root"):
                bubblewrap.guard(PLAN._replace(network=True, only_port=1))


def test_a_service_of_others_is_not_reached_by_the_port_of_ones_own_at_another_address() -> None:
    """A command may listen at 127.0.0.2; that opens no connection to whoever has the port at 127.0.0.1."""
    with socket.socket() as foreign, socket.socket() as own:
        foreign.bind(("127.0.0.1", 0))
        foreign.listen()
        port = foreign.getsockname()[1]
        own.bind(("127.0.0.2", port))
        own.listen()
        theirs, ours = os.fstat(foreign.fileno()).st_ino, os.fstat(own.fileno()).st_ino
        found = [only_port._listening(os.getpid(), socket.inet_aton(host), port) for host in ("127.0.0.1", "127.0.0.2")]
    assert found == [[theirs], [ours]]


async def test_a_program_that_cannot_start_says_so(
    workspace: LocalWorkspace, root: Path, choice: SandboxChoice
) -> None:
    (broken := root / "broken").write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    program = ServerProgram(
        (str(broken),), {"PATH": os.environ["PATH"]}, confined=True, network=True, only_port=1, record=True
    )
    server = await workspace.serve(program, "a.1")
    if choice.kind == "bubblewrap":  # it starts itself, and says what it could not start
        await server.wait()
        assert str(broken) in server.errors
    else:
        with pytest.raises(ToolError):
            await server.wait()
    await server.end()


def test_seatbelt_allows_the_port_alone() -> None:
    text = seatbelt.profile(PLAN._replace(kind="seatbelt", network=True, only_port=4711))
    assert text.splitlines()[-2:] == ["(deny network*)", '(allow network-outbound (remote tcp "localhost:4711"))']
