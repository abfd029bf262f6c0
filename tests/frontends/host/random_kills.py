"""`python -m tests.frontends.host.random_kills [N] [SEED]`: sessions whose processes are killed with SIGKILL at random moments.

Each of N sessions is a main agent with a sub-agent in the background and another one, whose commands run, in the background or
in a terminal of its own. The process that owns it, an attached chat, both, or the process that the shell waits for is killed,
also while a person has a sub-agent. Then: what another frontend saw is in the log, each reply was asked for once, money is what
the service counted, `friday agents` is true, no process and no socket is left, and the session goes on to its end.

`--cap`: instead, N sessions (20) at once under one cap of a dollar a day; half of their processes are killed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from friday_cli.core.protocol.errors import FridayError
from friday_cli.session.commands import TakeOver
from friday_cli.session.remote import RemoteSession
from friday_cli.system import session_socket
from tests.frontends.host.world import WAIT_S, Watcher, World, gone, until, world
from tests.frontends.tui.terminal_fixture import Terminal
from tests.servers.fake_model_server import Say, Turn

REPLY = (3000, 1000, 0)
COST = 0.08
"""US dollars of a reply at these prices."""
BEGUN = 0.25
"""The most that a request counts whose process was killed: its input and 4,000 tokens."""
REQUESTS = 10
"""Of a session that nothing happens to: four of the main agent, three of each sub-agent."""
VICTIMS = (
    "owner",
    "owner",
    "chat",
    "owner and chat",
    "owner with a sub-agent taken over",
    "chat in a terminal",
    "waiting process",
)


def rule(turn: Turn) -> Say:
    """A main agent `#sN` with a sub-agent in the background and another one, and what those do."""
    name, _, child = turn.agent.partition(".")
    if turn.forbidden:
        return Say("stopped", usage=REPLY)
    if child:
        command = f"echo {turn.agent}-{turn.turn} >> log-{name}; sleep 0.3"
        return Say("looked", usage=REPLY) if turn.turn == 2 else _call("bash", command=command)
    if turn.turn < 2:
        more = {"background": True} if turn.turn == 0 else {}
        return _call("delegate_task", profile="general", task=f"#{name}.{turn.turn} look", **more)
    command = f"echo {turn.agent}-{turn.turn} >> log-{name}; sleep 0.3"
    return _call("bash", command=command) if turn.turn == 2 else Say(f"all done {name}", usage=REPLY)


def _call(tool: str, **arguments: Any) -> Say:
    return Say(calls=[(tool, arguments)], usage=REPLY, delay_s=0.1)


class OneSession:
    """A session, who is killed, and after how many requests."""

    def __init__(self, world: World, number: int, rng: random.Random) -> None:
        self.world, self.name = world, f"s{number}"
        self.victim = rng.choice(VICTIMS)
        self.after, self.delay_s = rng.randint(1, REQUESTS), rng.uniform(0, 0.3)
        self.killed = False
        """Whether the owner was killed while it worked."""
        self.session = ""

    def __repr__(self) -> str:
        return f"{self.name} {self.session[:8]}: {self.victim}, {self.delay_s:.2f} s after request {self.after}"

    def play(self) -> None:
        """Start it, kill, and look at what is left. Raises AssertionError."""
        chats: list[Terminal] = []
        own = self.victim in ("chat in a terminal", "waiting process")
        task = f"go #{self.name}"
        try:
            if own:
                chats.append(Terminal(self.world.project, "--yolo", "-i", task, **self.world.env))
                self._pump(chats, lambda: self.world.session_of(task), "the session")
                self.session = self.world.session_of(task)
            else:
                begun = self.world.friday("ask", "-b", "--yolo", task)
                self.session = self.world.session_of(task)
                assert self.session.startswith(begun.partition("session ")[2][:8])
            watcher = None if own else Watcher(self.session, self.world.env)
            if "chat" in self.victim and not own:
                chats.append(Terminal(self.world.project, "attach", self.session[:8], **self.world.env))
            self._pump(chats, self._reached, f"request {self.after}")
            if "taken over" in self.victim:
                with suppress(FridayError):
                    asyncio.run(self._take_over())
            time.sleep(self.delay_s)
            self._kill(chats)
            if watcher is not None:
                self._check_seen(watcher)
            if own or "owner" in self.victim:
                until(lambda: not self.world.owner(self.session), "the end of the owner")
            self._check_row()
            self._go_on()
        finally:
            for chat in chats:
                chat.__exit__()
        until(lambda: not self.world.processes(), "the end of all processes")
        assert session_socket.sessions(self.world.env) == []
        self._check_log()

    def _pump(self, chats: list[Terminal], ready: Callable[[], Any], what: str) -> None:
        """Wait for something, and read what the chats draw meanwhile."""

        def read() -> Any:
            for chat in chats:
                chat.read(0)
            return ready()

        until(read, what)

    def _reached(self) -> bool:
        asked = sum(turn.agent.partition(".")[0] == self.name for turn in self.world.server.turns)
        return asked >= self.after or not self.world.owner(self.session)

    def _has_ended(self) -> bool:
        return any((agent, kind) == ("a", "agent_finished") for _, agent, kind, _ in self.world.events(self.session))

    async def _take_over(self) -> None:
        remote = await RemoteSession.connect(self.session, env=self.world.env)
        if remote is not None:
            await remote.do(TakeOver("a.1"))
            await remote.close()

    def _kill(self, chats: list[Terminal]) -> None:
        owner = self.world.owner(self.session)
        pids = [chat.pid for chat in chats] if self.victim in ("chat", "owner and chat", "waiting process") else []
        if self.victim not in ("chat", "waiting process") and owner:
            pids.append(owner)
            self.killed = True
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
            until(lambda pid=pid: gone(pid), f"the end of {pid}")

    def _check_seen(self, watcher: Watcher) -> None:
        """Nothing that a frontend saw is missing in the log, and it saw each event once."""
        if "owner" not in self.victim:
            until(self._has_ended, "the end of the main agent")
            watcher.leave()
        seen = [(envelope.seq, envelope.agent, envelope.event) for envelope in watcher.end()]
        assert [seq for seq, _, _ in seen] == list(range(1, len(seen) + 1)), "events twice or missing in a frontend"
        log = {seq: (agent, kind) for seq, agent, kind, _ in self.world.events(self.session)}
        for seq, agent, event in seen:
            kind = str(event.__struct_config__.tag)
            assert log.get(seq or 0) == (agent, kind), f"event {seq} ({kind}) was seen and is not in the log"

    def _check_row(self) -> None:
        """`friday agents` says what is so."""
        row = self.world.rows()[self.session]
        if row["pid"] is not None:
            assert "owner" not in self.victim, f"a dead owner is listed: {row}"
            return
        ends = [
            fields
            for _, agent, kind, fields in self.world.events(self.session)
            if (agent, kind) == ("a", "agent_finished")
        ]
        expected = (
            "ended" if (ends and ends[-1]["status"] == "completed") or "waiting" in self.victim else "interrupted"
        )
        assert (row["state"], row["at_work"], row["questions"], row["reachable"]) == (expected, 0, [], False), row
        assert self.session not in session_socket.sessions(self.world.env), "a socket of a dead owner"

    def _go_on(self) -> None:
        """Resume it if it was interrupted, and wait for its end."""
        if self.world.rows()[self.session]["state"] == "interrupted":
            assert self.killed or self.victim == "waiting process"
            self.world.friday("agents", "resume", self.session, "--yes")
        until(lambda: not self.world.owner(self.session), "the end of the session")
        row = self.world.rows()[self.session]
        assert row["state"] == "ended", row

    def _check_log(self) -> None:
        """Nothing is missing in the log, and each reply was asked for once: only one that was on its way at a kill is lost."""
        log = self.world.events(self.session)
        assert [seq for seq, *_ in log] == list(range(1, len(log) + 1))
        results = [fields.get("result") for _, agent, kind, fields in log if (agent, kind) == ("a", "agent_finished")]
        if self.victim != "waiting process":
            assert results[-1] == f"all done {self.name}", results
        names: dict[str, str] = {}
        for _, agent, kind, fields in log:
            if kind == "agent_started" and (found := re.search(r"#([\w.]+)", fields["task"])):
                names.setdefault(agent, found[1])
        stored = Counter(names[agent] for _, agent, kind, _ in log if kind == "turn_finished")
        asked = Counter(turn.agent for turn in self.world.server.turns if turn.agent.partition(".")[0] == self.name)
        for agent, count in asked.items():
            lost = count - stored[agent]
            most = 1 if self.killed or self.victim == "waiting process" else 0
            assert 0 <= lost <= most, f"{agent}: {count} requests, {stored[agent]} replies in the log"


def _say(text: str) -> None:
    print(text, flush=True)


def play(count: int, seed: int, say: Callable[[str], object] = _say) -> list[str]:
    """Kill in `count` sessions. Returns what was wrong."""
    wrong: list[str] = []
    victims: Counter[str] = Counter()
    with world(rule) as place:
        place.friday("budget", "set", "--daily", "10000")
        kills = 0
        for number in range(count):
            one = OneSession(place, number, random.Random(seed * 1_000_003 + number))
            say(f"{one}")
            try:
                one.play()
            except Exception as error:
                wrong.append(f"{one}: {error!r}")
                say(f"WRONG {wrong[-1]}")
                for pid in place.processes():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            victims[one.victim] += 1
            kills += one.killed or one.victim == "waiting process"
            paid, (used, held) = COST * len(place.server.turns), place.used()
            if held or not paid - 1e-6 <= used <= paid + kills * 3 * (BEGUN - COST) + 1e-6:
                wrong.append(f"{one}: ${used:.2f} in the books, ${held:.2f} held, ${paid:.2f} by the service's count")
                say(f"WRONG {wrong[-1]}")
        wrong += place.server.complaints
        say(
            f"{count} sessions, seed {seed}: {dict(victims)}; {len(place.server.turns)} requests, ${paid:.2f}; books ${used:.2f}; {len(wrong)} wrong"
        )
    return wrong


def play_cap(count: int, seed: int, say: Callable[[str], object] = _say) -> list[str]:
    """`count` sessions at once under a cap of a dollar; half of their processes are killed at random moments."""
    rng = random.Random(seed)

    def answer(turn: Turn) -> Say:
        more = turn.turn < 40 and not turn.forbidden
        return _call("list_dir", path="./" * turn.turn + ".") if more else Say("that is all", usage=REPLY)

    with world(answer, '[budget]\non_cap = "wrap_up"\n') as place:
        place.friday("budget", "set", "--daily", "1")
        argv = [sys.executable, "-m", "friday_cli", "ask", "-b", "--yolo"]
        nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        begun = [
            subprocess.Popen([*argv, f"#s{number} go on"], cwd=place.project, env=place.env, **nowhere)  # type: ignore[call-overload]
            for number in range(count)
        ]
        killed: set[int] = set()
        for _ in range(count // 2):
            time.sleep(rng.uniform(0, 0.3))
            owners = until(lambda: _others(place, killed) or all(p.poll() is not None for p in begun), "an owner")
            if isinstance(owners, list):
                killed.add(chosen := rng.choice(owners))
                with suppress(ProcessLookupError):
                    os.kill(chosen, signal.SIGKILL)
        for process in begun:
            process.wait(WAIT_S)
        until(lambda: not place.processes(), "the end of all sessions")
        place.rows()  # counts what the killed ones had begun
        paid, (used, held) = COST * len(place.server.turns), place.used()
        wrong = [] if paid <= 1 + COST and used <= 1 + COST and not held and used >= 1 - BEGUN - COST else ["the cap"]
        wrong += place.server.complaints
        say(
            f"{count} sessions, {len(killed)} killed, seed {seed}: ${paid:.2f} by the service's count, books ${used:.2f}, held ${held:.2f}; {len(wrong)} wrong"
        )
    return wrong


def _others(place: World, killed: set[int]) -> list[int]:
    """The processes that own a session and were not killed."""
    owners = (place.owner(name) for name in session_socket.sessions(place.env))
    return [pid for pid in owners if pid and pid not in killed]


def main() -> int:
    """The exit code: 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=0, metavar="N", help="sessions (100; with --cap 20)")
    parser.add_argument("seed", nargs="?", type=int, default=1, metavar="SEED")
    parser.add_argument("--cap", action="store_true")
    given = parser.parse_args()
    if given.cap:
        return bool(play_cap(given.count or 20, given.seed))
    return bool(play(given.count or 100, given.seed))


if __name__ == "__main__":
    sys.exit(main())
