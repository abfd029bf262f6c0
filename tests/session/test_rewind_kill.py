"""Killed between keeping what a file holds and writing it, and right after: the rewind finds out which it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Checkpoint
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from tests.session.harness import Harness, does
from tests.session.test_rewind import everything, writes

PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from friday_cli.system import safe_files
from friday_cli.session.session import Options, Session

write = safe_files.write

def killed(*args: object) -> str:
    if sys.argv[3] == "after":
        write(*args)
    os.kill(os.getpid(), signal.SIGKILL)
    return ""

safe_files.write = killed

async def main() -> None:
    session = await Session.open(Options(Path(sys.argv[1]), model="scripted:" + sys.argv[2], mode="yolo"))
    await session.prompt("write it")

asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_kill_around_the_write_loses_nothing(harness: Harness, when: str) -> None:
    (harness.project / "a.txt").write_text("old\n")
    harness.plays({"a": [does(("read_file", {"path": "a.txt"})), does(writes("a.txt", "new\n"))]})
    assert _killed(harness, when) == -signal.SIGKILL
    assert (harness.project / "a.txt").read_text() == ("new\n" if when == "after" else "old\n")
    async with Store(store_path()) as store:
        session = await store.last_session(harness.project)
    assert session is not None
    assert [type(e.event) for e in await harness.log(session)].count(Checkpoint) == 1
    before = everything(harness.project) | {b"a.txt": (everything(harness.project)[b"a.txt"][0], b"old\n")}
    async with harness.session(mode="yolo", resume=session) as again:
        if when == "after":
            assert (await again.rewind.to(1, "files")).done
        else:
            with pytest.raises(UsageError, match="No file needs to be restored"):
                await again.rewind.to(1, "files")
            assert await again.rewind.changes() == []
        assert everything(harness.project) == before


def _killed(harness: Harness, when: str) -> int:
    argv = [sys.executable, "-c", PROGRAM, str(harness.project), str(harness.scenario), when]
    return subprocess.run(argv, env={**os.environ, "PYTHONPATH": os.getcwd()}, timeout=60, check=False).returncode
