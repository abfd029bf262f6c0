"""Random ways of a confined command to local sockets and ports of the person: none gets through. `FRIDAY_FUZZ=10` tries 1,000 in each
sandbox of this machine."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox import system_call_filter
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.fuzz import seeds, socket_ways
from tests.workspace.sandbox.conftest import choice, outside_tmp, root, workspace  # noqa: F401  (fixtures)
from tests.workspace.sandbox.test_local_sockets import services

VARIANTS = 100 * seeds.TIMES
ABSTRACT = "friday-test-91c4"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not system_call_filter.supported(), reason="a filter of system calls"
)


async def test_no_way_reaches_a_socket_of_the_person(
    workspace: LocalWorkspace,  # noqa: F811
    outside_tmp: Path,  # noqa: F811
    root: Path,  # noqa: F811
    choice: SandboxChoice,  # noqa: F811
) -> None:
    if choice.kind == "seatbelt":
        pytest.skip("NOT TESTED HERE: seatbelt's rules are text")
    (root / "sub").mkdir()
    shutil.copy(socket_ways.__file__, root / "ways.py")
    stream = (outside_tmp / "service", root / "inside", root / "sub/inside")
    datagram = (outside_tmp / "datagrams", root / "sub/datagrams")
    with (
        services(*stream) as streams,
        services(*datagram, kind=socket.SOCK_DGRAM) as datagrams,
        services(outside_tmp / "packets", kind=socket.SOCK_SEQPACKET) as packets,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        abstract.bind("\0" + ABSTRACT)
        abstract.listen(50)
        udp.bind(("127.0.0.1", server.getsockname()[1]))
        names = [str(one) for one in (*stream, *datagram, outside_tmp / "packets")]
        names += ["../service", "inside", "sub/inside", "../datagrams", "sub/datagrams", "../packets"]
        given = json.dumps({"paths": names, "abstract": ABSTRACT, "port": server.getsockname()[1]})
        ran = await workspace.run(
            f"{sys.executable} -W ignore ways.py {seeds.first()} {VARIANTS} '{given}' 2>&1",
            agent="a", timeout_s=300, on_output=lambda text: None,
        )  # fmt: skip
        assert ran.output == f"tried {VARIANTS}\n"
        for one in (server, abstract, udp):
            one.setblocking(False)
        for one in (*streams, *packets, server, abstract):
            with pytest.raises(BlockingIOError):
                one.accept()
        for one in (*datagrams, udp):
            with pytest.raises(BlockingIOError):
                one.recv(10)
        argv = [sys.executable, "-W", "ignore", "ways.py", "1", "40", given]
        free = await asyncio.to_thread(
            subprocess.run, argv, cwd=root, capture_output=True, text=True, timeout=60, check=True
        )
        assert free.stdout.count("REACHED") > 5, "without a sandbox they get through"
