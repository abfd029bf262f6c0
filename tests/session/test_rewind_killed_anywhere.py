"""A rewind, its undo and the recovery after a kill, each killed before every change on the disk that it makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.session.harness import Harness, does, says
from tests.session.test_rewind import everything, runs, writes

KILLER = """
import asyncio, hashlib, json, os, signal, sys
from pathlib import Path
from friday_cli.system.paths import store_path
from friday_cli.session.rewind import without_agents
from friday_cli.store.store import Store
from tests.session.test_rewind import everything

project, session = Path(sys.argv[1]), sys.argv[2]
CHANGES = ("os.rename", "os.remove", "os.symlink", "os.link", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate")
left = 0

def watch(name, args):
    global left
    if name in CHANGES or name == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

async def work(what):
    async with Store(store_path()) as store:
        with await store.own(session) as owner:
            async with without_agents(store, session, owner=owner) as rewinder:
                if what == "rewind":
                    assert (await rewinder.to(1, "files")).done
                if what == "undo":
                    assert (await rewinder.undo()).done

def forked(what, before):
    "Do `what` in a process that is killed before its change number `before` (0: never). Whether it was killed."
    global left
    child = os.fork()
    if not child:
        left = before
        sys.addaudithook(watch)
        try:
            asyncio.run(work(what))
        except BaseException as error:
            print(what, before, repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, (what, before, status)
    return os.WIFSIGNALED(status)

def files():
    return hashlib.sha256(repr(sorted(everything(project).items())).encode()).hexdigest()

begin = files()
assert not forked("rewind", 0)
end = files()
assert not forked("undo", 0)
faults, kills = [], {}
for what, back in (("rewind", "undo"), ("undo", "rewind")):
    for number in range(1, 1000, 3):
        if not forked(what, number):
            break
        if number % 2:
            forked("open", number // 3)  # 0, once: never killed
        forked("open", 0)
        if files() == end:  # it was killed when all was done
            forked(back, 0)
        if files() != begin:
            faults.append(f"{what}, killed before change {number}: a mix of files")
    kills[what] = number // 3
    begin, end = end, begin
    if files() != begin:
        faults.append(f"the {what} after the kills")
forked("rewind", 0)
forked("undo", 0)
if files() != begin:
    faults.append("the last undo")
print(json.dumps([faults, kills]))
"""


def kills(*arguments: str) -> tuple[list[str], dict[str, int]]:
    """What was wrong after the kills, and how many there were."""
    argv = [sys.executable, "-c", KILLER, *arguments]
    env = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    faults, counts = json.loads(done.stdout.splitlines()[-1])
    return faults, counts


async def test_all_files_are_from_one_moment_wherever_a_rewind_is_killed(harness: Harness) -> None:
    for name in ("f0", "f1", "d/x"):
        (harness.project / name).parent.mkdir(exist_ok=True)
        (harness.project / name).write_text(f"old {name}\n")
    os.symlink("f0", harness.project / "y")
    change = "echo new > f0; rm -r f1 d y; mkdir y n; echo y > y/y; echo n > n/n; echo d > d"
    harness.plays({"a": [does(runs(change), writes("made", "m\n")), says("done")]})
    session = (await harness.ran(mode="yolo")).id
    before = everything(harness.project)
    faults, counts = kills(str(harness.project), session)
    assert faults == []
    assert min(counts.values()) >= 10, counts
    assert everything(harness.project) == before
