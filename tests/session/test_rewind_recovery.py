"""What a kill in a command or in a rewind leaves is put right at the next start, and nothing of the person is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from friday_cli.store.store import Store
from friday_cli.system.paths import data_dir, store_path
from friday_cli.workspace.checkpoints import recorder
from tests.session.harness import Harness, does, says, wait_for
from tests.session.test_rewind import everything, runs, writes

DIES_IN_A_COMMAND = """
import asyncio, sys
from pathlib import Path
from friday_cli.session.session import Options, Session

async def main() -> None:
    session = await Session.open(Options(Path(sys.argv[1]), model="scripted:" + sys.argv[2], mode="yolo"))
    await session.prompt("go")

asyncio.run(main())
"""
DIES_IN_A_REWIND = """
import asyncio, os, signal, sys
from pathlib import Path
from friday_cli.session.session import Options, Session
from friday_cli.workspace.fs import transaction

async def main() -> None:
    options = Options(Path(sys.argv[1]), model="scripted:" + sys.argv[2], mode="yolo", resume=sys.argv[3])
    session = await Session.open(options)
    make, made = transaction._make, []

    def dies(*args: object) -> None:
        if sys.argv[4] != "0":
            made.append(make(*args))
        if len(made) == int(sys.argv[4]):
            os.kill(os.getpid(), signal.SIGKILL)

    transaction._make = dies
    await session.rewind.to(1)

asyncio.run(main())
"""


def program(harness: Harness, code: str, *more: str) -> list[str]:
    return [sys.executable, "-c", code, str(harness.project), str(harness.scenario), *more]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.getcwd()}


def finished(argv: list[str]) -> int:
    return subprocess.run(argv, env=environment(), timeout=60, check=False).returncode


async def last(harness: Harness) -> str:
    async with Store(store_path()) as store:
        found = await store.last_session(harness.project)
    assert found is not None
    return found


def cli(*args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "friday_cli", "sessions", *args]
    return subprocess.run(argv, env=environment(), capture_output=True, text=True, timeout=60, check=False)


def killed_in(harness: Harness, command: str) -> None:
    """A session whose process is killed while `command` waits after its changes."""
    changes = f"{command}; touch ../ready; {wait_for('never')}"
    harness.plays({"a": [does(runs(changes)), says("done")]})
    process = subprocess.Popen(program(harness, DIES_IN_A_COMMAND), env=environment())
    try:
        subprocess.run(["bash", "-c", wait_for(harness.project.parent / "ready")], check=True)
    finally:
        process.kill()
        process.wait()


async def test_what_a_command_overwrote_before_a_kill_comes_back(harness: Harness) -> None:
    for number in range(8):
        (harness.project / f"f{number}").write_text(f"old {number}\n")
    os.symlink("f0", harness.project / "link")
    before = everything(harness.project)
    killed_in(harness, "for n in 0 1 2 3; do echo new > f$n; done; rm f4 link; mkdir d; echo x > d/x; mv f5 d/f5")
    changed = everything(harness.project)
    session = await last(harness)
    assert len(list((data_dir() / "baselines" / session).iterdir())) == 1
    done = cli("rewind", session, "--to", "1", "--yes")
    assert (done.returncode, "9 files that changed" in done.stderr) == (0, True), done.stderr
    assert everything(harness.project) == before
    assert cli("rewind", session, "--undo", "--yes").returncode == 0
    assert everything(harness.project) == changed
    assert not (data_dir() / "baselines" / session).exists()


async def test_what_a_person_may_have_changed_after_the_kill_is_asked_about(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "GRACE_S", -1000.0)  # as if the process had died long before the files changed
    for name in ("changed", "deleted"):
        (harness.project / name).write_text("old\n")
    before = everything(harness.project)
    killed_in(harness, "echo new > changed; rm deleted; echo made > made")
    after = everything(harness.project)
    async with harness.session(mode="yolo", resume=await last(harness)) as session:
        told = await session.rewind.to(1)
        assert not told.done
        assert {(c.path, c.reason) for c in told.conflicts} == {
            ("changed", "it was changed since"), ("made", "it was changed since"), ("deleted", "it was deleted since"),
        }  # fmt: skip
        assert everything(harness.project) == after
        assert (await session.rewind.to(1, conflicts="overwrite")).done
        assert everything(harness.project) == before


async def test_a_kill_between_commands_blames_no_agent(harness: Harness) -> None:
    harness.plays({"a": [does(runs("echo agent > made")), says("done")]})
    code = DIES_IN_A_COMMAND.replace('("go")', '("go")\n    import os\n    os.kill(os.getpid(), 9)')
    assert finished(program(harness, code)) == -signal.SIGKILL
    (harness.project / "person").write_text("mine\n")
    async with harness.session(mode="yolo", resume=await last(harness)) as session:
        assert [row.path for row in await session.rewind.changes()] == ["made"]


@pytest.mark.parametrize("after", [0, 1, 5, 9, 10])
async def test_a_rewind_that_was_killed_half_way_is_undone(harness: Harness, after: int) -> None:
    for number in range(4):
        (harness.project / f"f{number}").write_text(f"old {number}\n")
    (harness.project / "d").mkdir()
    (harness.project / "d/x").write_text("x\n")
    os.symlink("f0", harness.project / "y")
    change = (
        "for n in 0 1 2; do echo new $n > f$n; done; rm -r f3 d y; mkdir y n; echo y > y/y; echo n > n/n; echo d > d"
    )
    harness.plays({"a": [does(runs(change), writes("made", "m\n")), says("done")]})
    before = everything(harness.project)
    session = (await harness.ran(mode="yolo")).id
    agents = everything(harness.project)
    argv = program(harness, DIES_IN_A_REWIND, session, str(after))
    assert finished(argv) == -signal.SIGKILL
    if after:
        assert everything(harness.project) != agents, "it was killed half-way"
    async with harness.session(mode="yolo", resume=session) as again:
        assert everything(harness.project) == agents
        assert any("A rewind was cut off" in str(e.event) for e in await again.history())
        assert (await again.rewind.to(1)).done
        assert everything(harness.project) == before
        await again.rewind.undo()
        assert everything(harness.project) == agents
        assert {row.agent for row in await again.rewind.changes()} == {"a"}
