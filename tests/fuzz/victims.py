"""Sessions that are killed: `python -m tests.fuzz.victims FOLDER SEED COUNT` plays COUNT of them, each in a process that dies.

One store for all. A victim writes its session's id and then the number of every event it is shown to `FOLDER/acks-SEED`;
at an event, some milliseconds after one, or when nothing happens any more it is killed with SIGKILL, whatever it is doing.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from friday_cli.session.open_context import Options
from friday_cli.session.session import Session

AT_ONCE = 4
LINGERS = "(setsid sleep 47.25 &) ; nohup sleep 47.25"
"""A command that outlives its shell unless somebody sees to it."""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def apart(rng: random.Random, *, lingers: bool) -> dict[str, Any]:
    """Children in worktrees of their own, whose work is then taken over, thrown away or left."""
    tasks = [{"profile": "coder", "task": f"part {n}", "isolation": "worktree"} for n in "12"]
    ends = [call("apply_delegation", id="a.1"), call(rng.choice(["apply_delegation", "discard_delegation"]), id="a.2")]
    writes = [call("write_file", path="{task}.txt", content="x" * 10), call("bash", command="sleep 0.05; echo done")]
    if lingers:
        writes.insert(1, call("bash", command=LINGERS))
    root = [{"text": "", "calls": [call("delegate_tasks", tasks=tasks[: rng.randint(1, 2)])]}]
    return {
        "agents": {
            "a": [
                *root,
                *({"text": "", "calls": [end]} for end in ends[: rng.randint(0, 2)]),
                {"text": "That was it."},
            ],
            "a.*": [{"text": "So.", "calls": writes[: rng.randint(0, 3)]}, {"text": "My part is done."}],
        }
    }


def scenario(rng: random.Random, *, lingers: bool) -> dict[str, Any]:
    """Two or three levels of agents that read, write, run commands and ask, some behind the back of those above."""

    def turn(text: str, *calls: dict[str, Any]) -> dict[str, Any]:
        slow = {"delay_s": rng.random() * 0.05, "chunk_delay_s": rng.choice([0.0, 0.002, 0.02])}
        return {"text": text, "calls": list(calls), **slow}

    names = ("coder", "researcher", "general")
    tasks = [{"profile": rng.choice(names), "task": f"part {n} of the work"} for n in range(rng.randint(1, 3))]
    work = [
        call("write_file", path=f"out-{rng.randint(0, 10**6)}.txt", content="x" * rng.choice([10, 10_000])),
        call("read_file", path="README.md"),
        call("bash", command="sleep 0.05; echo done"),
        call("ask_user", question="Which one?", choices=["this", "that"]),
        call("delegate_task", profile="researcher", task="look into one thing only"),
    ]
    rng.shuffle(work)
    if lingers:
        work.insert(1, call("bash", command=LINGERS))
    behind = [
        call("delegate_task", profile=rng.choice(names), task=f"part {n} behind it", background=True) for n in "12"
    ]
    again = call("delegate_task", resume="a.1", task="go on with your part")
    note = call("message_sub_agent", id="a.2", text="mind the time")
    asks = call("ask_user", question="Shall I?") if rng.random() < 0.2 else call("read_file", path="README.md")
    return {
        "agents": {
            "a": [
                turn("I let this go on behind me.", *behind[: rng.randint(0, 2)]),
                turn("I hand this out now.", call("delegate_tasks", tasks=tasks), call("read_file", path="README.md")),
                turn("And a look of my own.", asks, call("todo", items=[{"text": "finish"}])),
                turn("Once more.", rng.choice([again, note]), call("list_sub_agents")),
                turn("All parts are done."),
                *(turn("So that has ended, too.") for _ in range(3)),
            ],
            "a.*": [
                turn("First step of mine.", *work[:2]),
                turn("Second step of mine.", work[2]),
                turn("My part is done."),
                turn("I went on with it.", call("write_file", path="again.txt", content="x")),
                turn("My part is done again."),
            ],
            "a.*.*": [turn("A look.", call("read_file", path="README.md")), turn("I found one thing.")],
        }
    }


def victim(folder: Path, seed: int, patience: float) -> None:
    """One session in this process; returns only if death came too late. It is killed, too, when nothing happens for a
    while, `patience` times as long as a quick machine needs."""
    rng = random.Random(seed)
    file = folder / f"scene-{seed}.json"
    in_worktrees = rng.random() < 0.3
    file.write_text(json.dumps((apart if in_worktrees else scenario)(rng, lingers=seed % 2 == 0)))
    acks = os.open(folder / f"acks-{seed}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    dies_at, after_s = rng.randint(3, 90), rng.choice([0.0, rng.random() * 0.05])
    if rng.random() < 0.3:
        dies_at, after_s = 2, rng.random() * (0.6 + 1.5 * in_worktrees)
    stalls_s = patience * (2.0 if in_worktrees else 0.7)
    options = Options(
        folder / "project",
        model=f"scripted:{file}",
        attended=True,
        mode="yolo" if in_worktrees else rng.choice(["yolo", "yolo", "yolo", "ask"]),
    )

    async def main() -> None:
        session = await Session.open(options)
        os.write(acks, f"{session.id}\n".encode())
        running = asyncio.create_task(session.prompt("do the work"))
        loop, death = asyncio.get_running_loop(), (os.kill, os.getpid(), signal.SIGKILL)
        stalls = loop.call_later(5.0 * patience, *death)
        async for envelope in session.events():
            if envelope.seq is not None:
                os.write(acks, f"{envelope.seq}\n".encode())
                stalls.cancel()
                stalls = loop.call_later(stalls_s, *death)
            if envelope.seq == dies_at:
                if not after_s:
                    os.kill(os.getpid(), signal.SIGKILL)
                threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
            if running.done() and envelope.seq == session._log.last:
                break
        await session.close()

    asyncio.run(main())


def main(folder: Path, first: int, count: int, patience: float) -> None:
    living: dict[int, int] = {}
    for seed in range(first, first + count):
        pid = os.fork()
        if pid == 0:
            try:
                victim(folder, seed, patience)
            finally:
                os._exit(0)
        living[pid] = seed
        while len(living) >= AT_ONCE or (living and seed == first + count - 1):
            ended, _ = os.wait()
            living.pop(ended, None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
