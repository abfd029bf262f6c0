"""`friday doctor --selftest`: a real tree of agents in a temporary folder, and whether Friday kept its promises.

The model is a script, everything else is real: session, loop, tools, permissions, budgets, store. The figures below are
what must come out; they are counted here by hand and not read from what is tested.
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
from friday_cli.paths import store_path
from friday_cli.session.open import Options
from friday_cli.session.session import Session
from friday_cli.store import Store
from friday_cli.view import SessionView

PATIENCE_S = 20.0
"""After this long a part counts as hanging."""

_PROFILE = """\
---
name: {name}
description: The {name} of the self-test.
allowedTools: [{tools}]
subAgents: [{below}]
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


def _turn(spent: tuple[int, int], text: str = "", *calls: dict[str, Any]) -> dict[str, Any]:
    return {"text": text, "calls": list(calls), "usage": {"input": spent[0], "output": spent[1]}}


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


_TREE: dict[str, Any] = {
    "agents": {
        "a": [
            _turn((1000, 50), "One lead.", _call("delegate_task", profile="lead", task="have it read and written")),
            _turn((200, 20), "All told: {results}"),
        ],
        "a.1": [
            _turn(
                (400, 40), "Two more.",
                _call("delegate_tasks", tasks=[
                    {"profile": "reader", "task": "read the note, then try to write"},
                    {"profile": "writer", "task": "write the answer"},
                ]),
            ),
            _turn((100, 10), "The lead has heard: {results}"),
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
_SPENT = {"a": 1270, "a.1": 550, "a.1.1": 66, "a.1.2": 121}
"""Tokens of each agent, by the script."""
_WITH_CHILDREN = {"a": 2007, "a.1": 737, "a.1.1": 66, "a.1.2": 121}
_ANSWERS = ("All told:", "The lead has heard:", "The reader read the note.", "The writer wrote the answer.")

_ENDLESS: dict[str, Any] = {
    "agents": {
        "a": [
            _turn((10, 1), "", _call("delegate_tasks", tasks=[
                {"profile": "runner", "task": "run for ever"}, {"profile": "reader", "task": "think for ever"},
            ])),
        ],
        "a.1": [_turn((10, 1), "", _call("bash", command="echo $$ > pid.txt; exec sleep 300"))],
        "a.2": [{"text": "never said", "delay_s": 300}],
    }
}  # fmt: skip


class SelftestCheck(msgspec.Struct, frozen=True):
    """One promise: what was looked at, whether it was kept, and what was seen."""

    name: str
    ok: bool
    text: str


class _CheckFailed(Exception):
    """A promise that was not kept, in words."""


def run() -> list[SelftestCheck]:
    """All checks; takes a few seconds. Never raises: whatever goes wrong is a check that failed."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="friday-selftest-", ignore_cleanup_errors=True) as folder:
        place = _SelftestHome(Path(folder))
        checks = asyncio.run(_all(place))
    return [*checks, SelftestCheck("time", True, f"{time.monotonic() - begun:.1f} s")]


class _SelftestHome:
    """A home and a folder to work in, and nothing of the machine's own settings, keys or profiles."""

    def __init__(self, top: Path) -> None:
        self.work = top / "work"
        home = top / "home"
        (home / "profiles").mkdir(parents=True)
        self.work.mkdir()
        self.env = {"FRIDAY_HOME": str(home), "HOME": str(top), "PATH": os.environ.get("PATH", os.defpath)}
        (self.work / "note.txt").write_text("the question\n", encoding="utf-8")
        for name, tools, below in _PROFILES:
            text = _PROFILE.format(name=name, tools=tools, below=below)
            (home / "profiles" / f"{name}.md").write_text(text, encoding="utf-8")
        self._top = top

    async def open(self, play: dict[str, Any], mode: Any, **flags: object) -> Session:
        script = self._top / f"{mode}.json"
        script.write_text(json.dumps(play), encoding="utf-8")
        options = Options(self.work, model=f"scripted:{script}", mode=mode, flags=flags)
        return await Session.open(options, env=self.env)


async def _all(place: _SelftestHome) -> list[SelftestCheck]:
    tree = _SelftestTree(place)
    checks = [await _checked("tree", tree.play)]
    if checks[0].ok:
        for name, work in (("allowlist", tree.allowlist), ("charging", tree.charging), ("store", tree.store)):
            checks.append(await _checked(name, work))
    checks.append(await _checked("cancel", lambda: _cancel(place)))
    return checks


async def _checked(name: str, work: Callable[[], Any]) -> SelftestCheck:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return SelftestCheck(name, True, await work())
    except _CheckFailed as broken:
        return SelftestCheck(name, False, str(broken))
    except TimeoutError:
        return SelftestCheck(name, False, f"not done after {PATIENCE_S:.0f} s")
    except Exception as error:
        return SelftestCheck(name, False, f"{type(error).__name__}: {error}")


def _must(kept: bool, otherwise: str) -> None:
    if not kept:
        raise _CheckFailed(otherwise)


class _SelftestTree:
    """A root, its child and two grandchildren, played once; each check looks at one side of it."""

    def __init__(self, place: _SelftestHome) -> None:
        self._place = place
        self._session = ""
        self._heard: list[Envelope] = []
        self._live = SessionView()
        self._budgets: dict[str, Budget] = {}
        self._spent: dict[str, float] = {}

    async def play(self) -> str:
        session = await self._place.open(_TREE, "edits")
        self._session = session.id
        listening = asyncio.create_task(self._listen(session))
        try:
            outcome = await session.prompt("Go.")
            self._spent = {path: budget.tokens.spent for path, budget in self._budgets.items()}
        finally:
            await session.close()
            await listening
        _must(outcome.status == "completed", f"the root ended as {outcome.status}: {outcome.error or outcome.text}")
        for words in _ANSWERS:
            _must(words in outcome.text, f"{words!r} did not reach the root: {outcome.text!r}")
        _must(set(self._live.agents) == set(_SPENT), f"agents {sorted(self._live.agents)} instead of {sorted(_SPENT)}")
        return "a root, its child and two grandchildren did their work, and every result came back"

    async def _listen(self, session: Session) -> None:
        async for envelope in session.events():
            self._live.apply(envelope)
            if isinstance(envelope.event, AgentStarted):
                for run in session.running(envelope.agent):
                    self._budgets[run.path] = run.agent.budget
            if envelope.seq is not None:
                self._heard.append(envelope)

    async def allowlist(self) -> str:
        refused = self._live.agents["a.1.1"].calls
        tried = [call for call in refused.values() if call.tool == "write_file"]
        _must(len(tried) == 1, "the reader did not try to write")
        _must(not (self._place.work / "forbidden.txt").exists(), "an agent wrote a file without having write_file")
        _must(tried[0].status in ("error", "denied"), f"the forbidden call ended as {tried[0].status}")
        begun = [e.event.tool for e in self._heard if e.agent == "a.1.1" and isinstance(e.event, ToolStarted)]
        _must(begun == ["read_file"], "the forbidden call was started")
        answer = self._place.work / "answer.txt"
        _must(answer.is_file() and answer.read_text() == "forty-two\n", "the agent that may write did not")
        return "a tool that a profile lacks was refused at dispatch, and no file was written"

    async def charging(self) -> str:
        for path, tokens in _SPENT.items():
            (end,) = [e.event for e in self._heard if e.agent == path and isinstance(e.event, AgentFinished)]
            assert isinstance(end, AgentFinished)
            _must(end.usage.billed == tokens, f"{path} used {end.usage.billed} tokens instead of {tokens}")
            total = _WITH_CHILDREN[path]
            _must(
                end.tree_usage.billed == total, f"{path}'s tree used {end.tree_usage.billed} tokens instead of {total}"
            )
            spent = self._spent.get(path, -1 if path == "a" else total)
            _must(spent == total, f"{spent:.0f} tokens stand on the budget of {path} instead of {total}")
        _must(self._live.totals.billed == _WITH_CHILDREN["a"], "the session's sum is another")
        return f"every token was charged up the tree: {_WITH_CHILDREN['a']:,} on the root's budget"

    async def store(self) -> str:
        async with Store(store_path(self._place.env)) as store:
            kept = await store.events(self._session)
            rows = {row.path: row.usage.billed for row in await store.agents(self._session)}
        _must(bool(self._heard), "nothing was published")
        lost = [e.seq for e in self._heard if e not in kept]
        _must(not lost, f"{len(lost)} of {len(self._heard)} published events are not in the store")
        _must([e.seq for e in kept] == list(range(1, len(kept) + 1)), "the events are not numbered without a hole")
        _must(SessionView.of(kept) == self._live, "what is read from the store is not what was seen live")
        _must(rows == _SPENT, f"the store's rows say {rows} instead of {_SPENT}")
        return f"all {len(kept)} events are in the file, and replaying them gives what was seen live"


async def _cancel(place: _SelftestHome) -> str:
    session = await place.open(_ENDLESS, "yolo", **{"sandbox.kind": "none"})  # inside, a process has another number
    try:
        session.start("Go on for ever.")
        pid = await _number(place.work / "pid.txt")
        at_work = sorted(node.path for node in session.running())
        _must(at_work == ["a", "a.1", "a.2"], f"at work were {at_work}")
        begun = time.monotonic()
        stopped = await session.stop("a")
        took = time.monotonic() - begun
        left = [node.path for node in session.running()]
        _must(not left, f"still at work after the stop: {', '.join(left)}")
        _must(not _alive(pid), "a command outlived its agent")
    finally:
        await session.close()
    others = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith(("agent ", "work "))]
    _must(not others, f"tasks left: {', '.join(others)}")
    return f"{stopped} agents and a running command ended {took:.1f} s after a stop"


async def _number(file: Path) -> int:
    """The number that a command writes into `file` once it runs."""
    while True:
        try:
            return int(await asyncio.to_thread(file.read_text))
        except (FileNotFoundError, ValueError):
            await asyncio.sleep(0.01)


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for yet does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        return not os.path.isdir("/proc/self")  # without /proc the signal has told
