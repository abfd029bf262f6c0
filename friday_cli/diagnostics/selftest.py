"""`friday doctor --selftest`: runs a tree of scripted agents in a temporary folder and checks the results.

Only the model is a script; session, loop, tools, permissions, budgets and store are real. The expected figures below are
written by hand, not computed by the code under test.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.limits.budget import Budget
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Envelope, ToolStarted
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.session.open import open_session
from friday_cli.session.open_context import Options
from friday_cli.session.parts import SessionParts
from friday_cli.session.session import Session
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from friday_cli.view import SessionView

CHECK_TIMEOUT_S = 20.0
"""Seconds after which a check fails."""

_PROFILE = """\
---
name: {name}
description: The {name} of the self-test.
allowedTools: [{tools}]
subAgents: [{children}]
maxTokenBudget: 20000
---
You are the {name}.
"""
_PROFILES = (
    ("lead", "read_file, write_file, task_result", "reader, writer"),
    ("reader", "read_file", ""),
    ("writer", "read_file, write_file", ""),
    ("runner", "bash", ""),
)


def _turn(tokens: tuple[int, int], text: str = "", *calls: dict[str, Any]) -> dict[str, Any]:
    return {"text": text, "calls": list(calls), "usage": {"input": tokens[0], "output": tokens[1]}}


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


_TREE: dict[str, Any] = {
    "agents": {
        "a": [
            _turn((1000, 50), "One lead.", _call("delegate_task", profile="lead", task="have it read and written")),
            _turn((200, 20), "Report: {results}"),
        ],
        "a.1": [
            _turn(
                (400, 40), "Two more.",
                _call("delegate_tasks", tasks=[
                    {"profile": "reader", "task": "read the note, then try to write"},
                    {"profile": "writer", "task": "write the answer"},
                ]),
            ),
            _turn((100, 10), "Lead report: {results}"),
        ],
        "a.1.1": [
            _turn((30, 3), "", _call("read_file", path="note.txt")),
            _turn((20, 2), "", _call("write_file", path="forbidden.txt", content="no")),
            _turn((10, 1), "The reader read the note."),
        ],
        "a.1.2": [
            _turn((60, 6), "", _call("write_file", path="answer.txt", content="forty-two\n")),
            _turn((50, 5), "The writer wrote the answer."),
        ],
    }
}  # fmt: skip
_OWN_TOKENS = {"a": 1270, "a.1": 550, "a.1.1": 66, "a.1.2": 121}
"""Tokens that each agent uses in the script."""
_TREE_TOKENS = {"a": 2007, "a.1": 737, "a.1.1": 66, "a.1.2": 121}
_ANSWERS = ("Report:", "Lead report:", "The reader read the note.", "The writer wrote the answer.")

_ENDLESS: dict[str, Any] = {
    "agents": {
        "a": [
            _turn(
                (10, 1),
                "",
                _call(
                    "delegate_tasks",
                    tasks=[
                        {"profile": "runner", "task": "run without end"},
                        {"profile": "reader", "task": "think without end"},
                    ],
                ),
            )
        ],
        "a.1": [_turn((10, 1), "", _call("bash", command="echo $$ > pid.txt; exec sleep 300"))],
        "a.2": [{"text": "never sent", "delay_s": 300}],
    }
}


class SelftestCheck(msgspec.Struct, frozen=True):
    """The result of one check: its name, whether it passed, and what was found."""

    name: str
    ok: bool
    text: str


class _CheckFailed(Exception):
    """A check that failed; the text tells a person why."""


def run() -> list[SelftestCheck]:
    """Run all checks (a few seconds). Never raises: an exception is a failed check."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="friday-selftest-", ignore_cleanup_errors=True) as folder:
        home = _SelftestHome(Path(folder))
        checks = asyncio.run(_run_checks(home))
    return [*checks, SelftestCheck("time", True, f"{time.monotonic() - started:.1f} s")]


class _SelftestHome:
    """A temporary FRIDAY_HOME and work folder, without the settings, keys or profiles of the machine."""

    def __init__(self, top: Path) -> None:
        self.work = top / "work"
        home = top / "home"
        (home / "profiles").mkdir(parents=True)
        self.work.mkdir()
        self.env = {"FRIDAY_HOME": str(home), "HOME": str(top), "PATH": os.environ.get("PATH", os.defpath)}
        (self.work / "note.txt").write_text("the question\n", encoding="utf-8")
        for name, tools, children in _PROFILES:
            text = _PROFILE.format(name=name, tools=tools, children=children)
            (home / "profiles" / f"{name}.md").write_text(text, encoding="utf-8")
        self._top = top

    async def open(self, script: dict[str, Any], mode: Any, **flags: object) -> Session:
        return Session(await self.open_parts(script, mode, **flags))

    async def open_parts(self, script: dict[str, Any], mode: Any, **flags: object) -> SessionParts:
        file = self._top / f"{mode}.json"
        file.write_text(json.dumps(script), encoding="utf-8")
        options = Options(self.work, model=f"scripted:{file}", mode=mode, flags=flags)
        return await open_session(options, self.env)


async def _run_checks(home: _SelftestHome) -> list[SelftestCheck]:
    tree = _SelftestTree(home)
    checks = [await _check("tree", tree.run)]
    if checks[0].ok:
        for name, work in (("allowlist", tree.allowlist), ("charging", tree.charging), ("store", tree.store)):
            checks.append(await _check(name, work))
    checks.append(await _check("cancel", lambda: _cancel(home)))
    return checks


async def _check(name: str, work: Callable[[], Any]) -> SelftestCheck:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            return SelftestCheck(name, True, await work())
    except _CheckFailed as failure:
        return SelftestCheck(name, False, str(failure))
    except TimeoutError:
        return SelftestCheck(name, False, f"not finished after {CHECK_TIMEOUT_S:.0f} s")
    except Exception as error:
        return SelftestCheck(name, False, f"{type(error).__name__}: {error}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise _CheckFailed(message)


class _SelftestTree:
    """Runs a root, its child and two grandchildren once; each method after `run` checks one aspect of that run."""

    def __init__(self, home: _SelftestHome) -> None:
        self._home = home
        self._session = ""
        self._events: list[Envelope] = []
        self._view = SessionView()
        self._budgets: dict[str, Budget] = {}
        self._spent: dict[str, float] = {}

    async def run(self) -> str:
        parts = await self._home.open_parts(_TREE, "edits")
        session = Session(parts)
        self._session = session.id
        listener = asyncio.create_task(self._listen(session, parts.tree))
        try:
            outcome = await session.prompt("Go.")
            self._spent = {path: budget.tokens.spent for path, budget in self._budgets.items()}
        finally:
            await session.close()
            await listener
        _require(outcome.status == "completed", f"the root ended as {outcome.status}: {outcome.error or outcome.text}")
        for answer in _ANSWERS:
            _require(answer in outcome.text, f"{answer!r} did not reach the root: {outcome.text!r}")
        _require(
            set(self._view.agents) == set(_OWN_TOKENS),
            f"agents {sorted(self._view.agents)} instead of {sorted(_OWN_TOKENS)}",
        )
        return "a root, its child and two grandchildren completed, and every result was returned"

    async def _listen(self, session: Session, tree: SubagentTree) -> None:
        async for envelope in session.events():
            self._view.apply(envelope)
            if isinstance(envelope.event, AgentStarted):
                for run in tree.running(envelope.agent):
                    self._budgets[run.path] = run.agent.budget
            if envelope.seq is not None:
                self._events.append(envelope)

    async def allowlist(self) -> str:
        calls = self._view.agents["a.1.1"].calls
        writes = [call for call in calls.values() if call.tool == "write_file"]
        _require(len(writes) == 1, "the reader did not try to write")
        _require(not (self._home.work / "forbidden.txt").exists(), "an agent without write_file wrote a file")
        _require(writes[0].status in ("error", "denied"), f"the forbidden call ended as {writes[0].status}")
        started = [e.event.tool for e in self._events if e.agent == "a.1.1" and isinstance(e.event, ToolStarted)]
        _require(started == ["read_file"], "the forbidden call was started")
        answer = self._home.work / "answer.txt"
        _require(answer.is_file() and answer.read_text() == "forty-two\n", "the agent with write_file did not write")
        return "a call of a tool outside the profile was refused, and no file was written"

    async def charging(self) -> str:
        for path, tokens in _OWN_TOKENS.items():
            (end,) = [e.event for e in self._events if e.agent == path and isinstance(e.event, AgentFinished)]
            assert isinstance(end, AgentFinished)
            _require(end.usage.billed == tokens, f"{path} used {end.usage.billed} tokens instead of {tokens}")
            total = _TREE_TOKENS[path]
            _require(
                end.tree_usage.billed == total, f"{path}'s tree used {end.tree_usage.billed} tokens instead of {total}"
            )
            spent = self._spent.get(path, -1 if path == "a" else total)
            _require(spent == total, f"the budget of {path} was charged {spent:.0f} tokens instead of {total}")
        _require(self._view.totals.billed == _TREE_TOKENS["a"], "the total of the session is different")
        return f"every token was charged to all ancestors: {_TREE_TOKENS['a']:,} on the budget of the root"

    async def store(self) -> str:
        async with Store(store_path(self._home.env)) as store:
            stored = await store.events(self._session)
            rows = {row.path: row.usage.billed for row in await store.agents(self._session)}
        _require(bool(self._events), "no events were published")
        lost = [e.seq for e in self._events if e not in stored]
        _require(not lost, f"{len(lost)} of {len(self._events)} published events are not in the store")
        _require([e.seq for e in stored] == list(range(1, len(stored) + 1)), "the event numbers have gaps")
        _require(SessionView.of(stored) == self._view, "the replayed events differ from the live events")
        _require(rows == _OWN_TOKENS, f"the agent rows contain {rows} instead of {_OWN_TOKENS}")
        return f"all {len(stored)} events are stored, and a replay gives the same view"


async def _cancel(home: _SelftestHome) -> str:
    session = await home.open(_ENDLESS, "yolo", **{"sandbox.kind": "none"})  # inside a sandbox the pid differs
    try:
        session.start("Run without end.")
        pid = await _read_pid(home.work / "pid.txt")
        running = sorted(run.agent for run in session.running())
        _require(running == ["a", "a.1", "a.2"], f"running agents: {running}")
        started = time.monotonic()
        stopped = await session.stop("a")
        seconds = time.monotonic() - started
        remaining = [run.agent for run in session.running()]
        _require(not remaining, f"still running after the stop: {', '.join(remaining)}")
        _require(not _alive(pid), "a command was still running after its agent had stopped")
    finally:
        await session.close()
    tasks = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith(("agent ", "work "))]
    _require(not tasks, f"tasks still running: {', '.join(tasks)}")
    return f"{stopped} agents and a running command ended {seconds:.1f} s after a stop"


async def _read_pid(file: Path) -> int:
    """Wait for the pid that a command writes into `file`."""
    while True:
        try:
            return int(await asyncio.to_thread(file.read_text))
        except (FileNotFoundError, ValueError):
            await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        return not os.path.isdir("/proc/self")  # without /proc the signal is the only evidence
