"""`python -m tests.external_agents.random_kills [N] [SEED]`: runs of an external agent in which Friday, its program or a command of
that is killed with SIGKILL at a random moment. Then no process is left, each event that was shown is in the log, and the agent
goes on in the session of its program."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from friday_cli.store.store import Store
from tests.external_agents.conftest import AGENT, GIT, ROOT

VICTIMS = ("friday", "program", "command")
STEPS: list[dict[str, Any]] = [
    {"say": "I look. "},
    {"start": "trap '' TERM HUP; sleep 47.25"},
    {"edit": {"a.txt": "two\n"}},
    {"run": "sleep 0.2; echo done"},
    {"ask": {"call": {"kind": "execute", "rawInput": {"command": "true"}}}},
    {"run": "sleep 0.2"},
    {"say": "Done."},
]
SHOWN = 36
"""About as many events are shown of a run that nothing happens to."""
WAIT_S = 60
"""Seconds in which all must have ended; two are promised, and the machine may be busy."""


class World:
    """A home with the profile `robot`, a project, and the sessions in them. `env` are more variables."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.home, self.project = folder / "home", folder / "project"
        (self.home / "profiles").mkdir(parents=True)
        self.project.mkdir()
        (self.project / "a.txt").write_text("one\n", encoding="utf-8")
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run([*GIT, *words], cwd=self.project, check=True, capture_output=True)
        script = folder / "acp.json"
        features = {"sessionCapabilities": {"resume": {}}}
        script.write_text(json.dumps({"prompts": [STEPS], "features": features}), encoding="utf-8")
        argv = json.dumps([sys.executable, AGENT, str(script)])
        page = f"---\nname: robot\ndescription: x\nexternal: {{acp: {argv}, wire: none}}\n---\n"
        (self.home / "profiles" / "robot.md").write_text(page, encoding="utf-8")
        self.env = {**os.environ, "FRIDAY_HOME": str(self.home), "PYTHONPATH": str(ROOT), **env}

    def ask(self, *argv: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "friday_cli", "ask", "--mode", "auto", *argv]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.project, env=self.env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )

    def programs(self) -> dict[int, str]:
        """The processes of programs and what they started, by number."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"HOME={self.home}/data/".encode() in (process / "environ").read_bytes():
                    found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def stored(self, session: str) -> list[dict[str, Any]]:
        """The log of a session."""

        async def read() -> list[dict[str, Any]]:
            store = Store(self.home / "data" / "friday.db")
            try:
                return [json.loads(msgspec.json.encode(one)) for one in await store.events(session)]
            finally:
                await store.close()

        return asyncio.run(read())


def play(world: World, seed: int, reached: Counter[str]) -> list[str]:
    """Play one run, kill one of its processes, and continue it. What is wrong, in words."""
    rng = random.Random(seed)
    victim, at, later = VICTIMS[seed % 3], rng.randint(12, SHOWN), rng.random() * 0.2
    process, shown = world.ask("--profile", "robot", "-f", "stream-json", "go"), list[dict[str, Any]]()
    assert process.stdout is not None
    for line in process.stdout:
        with suppress(ValueError):  # a kill may cut the last one
            shown.append(json.loads(line))
        if len(shown) == at:
            time.sleep(later)
            reached[f"killed: {victim}"] += _kill(world, victim, process.pid)
    process.communicate()
    faults = _left(world)
    session = next((one["event"]["session"] for one in shown if one["event"]["kind"] == "session_started"), "")
    if not any(one["agent"] == "a.1" for one in shown):
        return faults
    before = world.stored(session)
    known = {one["seq"]: one for one in before}
    faults += [f"event {one['seq']} is lost" for one in shown if one["seq"] and known.get(one["seq"]) != one]
    again = world.ask("--resume-agent", f"{session}:a.1", "-f", "json", "More.")
    out, err = again.communicate()
    with suppress(ValueError):
        document = json.loads(out)
        reached[f"continued after the end of: {victim}"] += 1
        if again.returncode or not document["result"].endswith("Done."):
            faults.append(f"it does not go on: {document}")
    if not out:
        faults.append(f"it does not go on: {err.decode()}")
    after = world.stored(session)
    if after[: len(before)] != before:
        faults.append("what was written was changed")
    kinds = Counter((one["agent"], one["event"]["kind"], one["event"].get("run")) for one in after)
    runs = {(agent, run) for agent, kind, run in kinds if kind == "agent_started"}
    faults += [
        f"run {run} of {agent} has not one end" for agent, run in runs if kinds[agent, "agent_finished", run] != 1
    ]
    return faults + _left(world)


def _kill(world: World, victim: str, friday: int) -> bool:
    programs = world.programs()
    wanted = "acp_agent.py" if victim == "program" else "sleep"
    pids = [friday] if victim == "friday" else [pid for pid, words in programs.items() if wanted in words]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(pids)


def _left(world: World) -> list[str]:
    deadline = time.monotonic() + WAIT_S
    while (found := world.programs()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [f"left running: {words}" for words in found.values()]


def main(count: int, first: int) -> int:
    """Play `count` runs. Returns the exit code."""
    reached, wrong = Counter[str](), 0
    for seed in range(first, first + count):
        with TemporaryDirectory() as folder:
            faults = play(World(Path(folder)), seed, reached)
        wrong += bool(faults)
        for fault in faults:
            print(f"seed {seed}: {fault}", flush=True)
    print(f"{count} runs, {wrong} with faults; {dict(sorted(reached.items()))}")
    return int(wrong > 0)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    raise SystemExit(main(*[*given, *(100, 1)[len(given) :]]))
