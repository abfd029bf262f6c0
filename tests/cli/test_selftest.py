"""`friday doctor --selftest`: it passes on a sound Friday, and fails on each of these broken ones."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from friday_cli.core.agent import tool_calls
from friday_cli.core.agent.agent import Agent
from friday_cli.core.limits.budget import Budget
from friday_cli.core.permissions.rule import Allowlist
from friday_cli.core.protocol.events import Envelope, ToolFinished
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.diagnostics import selftest
from friday_cli.extensions.profiles import Profile
from friday_cli.store import journal
from friday_cli.store.journal import SessionJournal
from tests.cli.console import Console

Patch = pytest.MonkeyPatch


def failed(checks: Sequence[selftest.SelftestCheck]) -> list[str]:
    return [check.name for check in checks if not check.ok]


def test_a_sound_friday_passes_and_leaves_nothing(console: Console) -> None:
    ran = console("doctor", "--selftest")
    assert ran.code == 0, ran.out
    for name in ("tree", "allowlist", "charging", "store", "cancel"):
        assert f"✓ {name} " in ran.out
    assert not console.friday_home.exists()
    assert not list(console.project.iterdir())
    document = console("doctor", "--selftest", "--json").document
    assert document["ok"] is True
    assert [check["ok"] for check in document["selftest"]] == [True] * 6


def dispatch_looks_in_the_roots_tools(patch: Patch) -> None:
    understand = tool_calls.understand

    def lax(agent: Agent, *rest: Any) -> Any:
        top = agent
        while top.parent is not None:
            top = top.parent
        agent.rules.allowlist = Allowlist()
        tools = {**top.conversation.tools, **agent.conversation.tools}
        conversation = msgspec.structs.replace(agent.conversation, tools=tools)
        return understand(msgspec.structs.replace(agent, conversation=conversation), *rest)

    patch.setattr(tool_calls, "understand", lax)


def a_child_charges_only_itself(patch: Patch) -> None:
    def charge(self: Budget, tokens: int, cost: float | None) -> None:
        self.tokens.spent += tokens
        self._queue.serve()

    patch.setattr(Budget, "charge", charge)


def results_are_not_written(patch: Patch) -> None:
    append = journal.append_events

    def lossy(db: Any, key: int, envelopes: Sequence[Envelope]) -> None:
        append(db, key, [e for e in envelopes if not isinstance(e.event, ToolFinished)])

    patch.setattr(journal, "append_events", lossy)


def nothing_is_written(patch: Patch) -> None:
    def append(self: SessionJournal, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    patch.setattr(SessionJournal, "append", append)


def times_are_rounded(patch: Patch) -> None:
    append = journal.append_events

    def vague(db: Any, key: int, envelopes: Sequence[Envelope]) -> None:
        append(db, key, [msgspec.structs.replace(e, at=round(e.at)) for e in envelopes])

    patch.setattr(journal, "append_events", vague)


def a_stop_stops_nothing(patch: Patch) -> None:
    stop = SubagentTree.stop

    async def lazy(self: SubagentTree, path: str, **how: Any) -> int:
        closing = any(frame.function == "close" for frame in inspect.stack())
        return await stop(self, path, **how) if path != "a" or closing else 0

    patch.setattr(SubagentTree, "stop", lazy)


NOBODY_IS_CHARGED = (Budget, "charge", lambda self, tokens, cost: self._queue.serve())


@pytest.mark.parametrize(("mutant", "check"), [
    ((Profile, "select", lambda self, parent: tuple(parent)), "allowlist"),
    (dispatch_looks_in_the_roots_tools, "allowlist"), (a_child_charges_only_itself, "charging"),
    (NOBODY_IS_CHARGED, "charging"),
    ((Usage, "billed", property(lambda self: self.input + self.cache_write)), "charging"),
    ((Agent, "tree_usage", property(lambda self: self.usage)), "charging"), (results_are_not_written, "store"),
    (nothing_is_written, "store"), (times_are_rounded, "store"),
    ((journal, "_usage", lambda usage: (0, 0, 0, 0, 0, None)), "store"), (a_stop_stops_nothing, "cancel"),
])  # fmt: skip
def test_a_mutant_is_caught(monkeypatch: Patch, mutant: Any, check: str) -> None:
    if callable(mutant):
        mutant(monkeypatch)
    else:
        monkeypatch.setattr(*mutant)
    checks = selftest.run()
    assert check in failed(checks), checks


def test_a_failed_check_makes_the_command_fail(console: Console, monkeypatch: Patch) -> None:
    monkeypatch.setattr(*NOBODY_IS_CHARGED)
    ran = console("doctor", "--selftest")
    assert ran.code == 1
    assert "✗ charging   the budget of a was charged 0 tokens instead of 2007" in ran.out
    assert "1 problem found" in ran.out


def test_an_engine_that_hangs_is_a_failed_check(monkeypatch: Patch) -> None:
    async def never(self: SubagentTree, parent: str, nodes: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(SubagentTree, "wait", never)
    monkeypatch.setattr(selftest, "CHECK_TIMEOUT_S", 0.5)
    checks = selftest.run()
    assert checks[0] == selftest.SelftestCheck("tree", False, "not finished after 0 s")


def test_an_engine_that_raises_is_a_failed_check(monkeypatch: Patch) -> None:
    monkeypatch.setattr(SubagentTree, "run", lambda *_: 1 / 0)
    checks = selftest.run()
    assert failed(checks) == ["tree", "cancel"]
    assert checks[0].text == "ZeroDivisionError: division by zero"
