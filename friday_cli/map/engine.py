"""Runs the work of one item: the embedded engine, with agents of a session in this process."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from friday_cli.agents.caller import Caller
from friday_cli.agents.check_command import run_check
from friday_cli.agents.output_schema import unfenced
from friday_cli.core.agent.agent import Agent
from friday_cli.core.limits.budget import Budget
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.limits import BudgetOwner, Limits
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.protocol.tool_info import MAP_CALLER, OF_ITEM
from friday_cli.core.subagents.node import SubagentTask
from friday_cli.session.item_agents import ItemAgents, ItemEnd
from friday_cli.session.open_context import Options

from .caps import Cap
from .job import as_row

NAME = MAP_CALLER
"""The caller of a batch's sessions."""
RESULT_CHARS = 100_000
"""Characters of a result that are kept."""
ERROR_CHARS = 500
"""Characters of what an agent without a result said that are kept as the reason."""
NO_FAULT = frozenset(("quota", "auth", "config", "not_found", "rate", "overloaded", "network"))
"""Failures of a service that say nothing about the item: it waits, and no more items start."""


class ItemTask(msgspec.Struct, frozen=True):
    """The work on an item, as data that another process could do as well. `cap`: what it may spend; where the batch
    has less left, it may start with `least`. `fields`: of the item, for the check. `self_contained`: the task includes all input. `rounds`: its requests go by
    batches of the service, so many at most; 0: at once."""

    key: str
    profile: str
    task: str
    cap: Cap
    least: Cap
    fields: Mapping[str, Any] = {}
    schema: dict[str, Any] | None = None
    check: str = ""
    isolation: bool = False
    self_contained: bool = True
    rounds: int = 0


class ItemResult(msgspec.Struct, frozen=True):
    """The end of the work on an item. `stop`: no other work can be done now. `changed`: files were changed."""

    state: Literal["done", "failed", "waiting"]
    result: str = ""
    error: str = ""
    agent: str = ""
    cost: float = 0.0
    tokens: int = 0
    active_s: float = 0.0
    receipt: str = ""
    branch: str = ""
    stop: bool = False
    changed: bool = False


class ItemWorker(Protocol):
    """Does the work of items. `session`: where a store finds what it did."""

    session: str

    async def run(self, work: ItemTask) -> ItemResult:
        """Do the work of an item. Raises only CancelledError."""


class Engine(ItemWorker, Protocol):
    """Does the work of items with sub-agents. `items` knows the profiles and models here."""

    items: ItemAgents

    async def budget(self, name: str, cap: Cap) -> Budget:
        """The budget of the batch, which may still spend `cap`. Called once, before `run`."""

    async def stop(self) -> None:
        """Stop the work that runs; it ends as "waiting"."""

    async def close(self) -> None:
        """Stop all work, and release what the engine holds."""


class EmbeddedEngine:
    """Implements `Engine` with sub-agents of a session. `open` makes a session for them, whose main agent runs until `running`
    is done. In a session that exists `above` is the budget that also pays for them."""

    def __init__(
        self, items: ItemAgents, running: asyncio.Future[None] | None = None, *, above: Budget | None = None
    ) -> None:
        self.session = items.id
        self.items, self._running, self._above = items, running, above
        self.budgets: dict[str, Budget] = {}
        """Those of the items that run, by their keys."""

    @classmethod
    async def open(cls, options: Options, title: str, env: Mapping[str, str]) -> EmbeddedEngine:
        """Open a session for a batch. Raises FridayError."""
        running: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        caller = Caller(NAME, Budget(NAME), work=running)
        return cls(await ItemAgents.open(replace(options, caller=caller), title, env), running)

    async def budget(self, name: str, cap: Cap) -> Budget:
        return cap.budget(name)

    async def run(self, work: ItemTask) -> ItemResult:
        budget = self.budgets[work.key] = work.cap.budget(BudgetOwner.ITEM, self._above)
        budget.needs_log = True
        batch = self.items.call or NAME
        checked: list[str] = []

        async def check(agent: Agent, outcome: RunResult) -> str:
            return await self._check(work, agent, outcome, checked)

        task = SubagentTask(
            work.profile,
            work.task,
            limits=Limits(cost=work.cap.cost, turns=work.rounds or None),
            call_id=f"{batch}{OF_ITEM}{work.key[:32]}",
            batch=batch,
            schema=work.schema,
            budget=budget,
            self_contained=work.self_contained,
            verify=check if work.check else None,
            forget=True,
        )
        try:
            end = await self.items.run(task, isolated=work.isolation)
        except ToolError as error:
            if self._above is not None:  # a limit of the session, not of the item
                return ItemResult("waiting", error=str(error), stop=True)
            return ItemResult("failed", error=str(error), cost=budget.cost.spent, tokens=int(budget.tokens.spent))
        finally:
            del self.budgets[work.key]
        done = _done(end, f"{self.session}:{end.path}", budget.cost.spent, work.schema is not None)
        rows = (f"{how} ({times} times)" if times > 1 else how for how, times in Counter(checked).items())
        return replace(done, receipt="; ".join((done.receipt, *rows)))

    async def _check(self, work: ItemTask, agent: Agent, outcome: RunResult, checked: list[str]) -> str:
        """Run the check command where the agent worked. Returns what it found wrong; how it ended is added to `checked`."""
        if outcome.status != "completed" or outcome.stop_reason != "done":
            return ""
        workspace = agent.workspace
        paths = {}
        for name, text in (("FRIDAY_RESULT", outcome.text), ("FRIDAY_ITEM", as_row(work.fields))):
            paths[name] = await workspace.keep_output(text.encode("utf-8", "replace"))
        given = "".join(f"export {name}={shlex.quote(path)}\n" for name, path in paths.items())
        try:
            ended = await run_check(agent, work.check, before=given)
        finally:
            for path in paths.values():
                os.unlink(path)
        checked.append(f"check {ended.how}")
        if ended.passed:
            return ""
        return f"The check `{work.check}` {ended.how}." + (f" Its output:\n{ended.output}" if ended.output else "")

    async def stop(self) -> None:
        await self.items.stop()

    async def close(self) -> None:
        if self._running is not None and not self._running.done():
            self._running.set_result(None)
        await self.items.close()


def _done(end: ItemEnd, agent: str, cost: float, as_json: bool) -> ItemResult:
    outcome = end.outcome
    text, error = outcome.text[:RESULT_CHARS], outcome.error or outcome.summary(end.path)
    if text and not outcome.error:
        error = f"{error}: {text[:ERROR_CHARS].strip()}"
    known = ItemResult(
        "failed",
        text,
        error,
        agent=agent,
        cost=cost,
        tokens=end.usage.billed,
        active_s=end.active_s,
        receipt="; ".join(end.receipt.facts()),
        branch=end.branch,
        changed=bool(end.receipt.files),
    )
    if outcome.status == "completed" and outcome.stop_reason == "done":
        if len(outcome.text) > RESULT_CHARS:
            return replace(known, error=f"its result is longer than {RESULT_CHARS:,} characters")
        return replace(known, state="done", result=unfenced(text).strip() if as_json else text, error="")
    others = outcome.limit_of not in ("", BudgetOwner.ITEM) and not is_under(outcome.limit_of, end.path)
    if outcome.error_kind in NO_FAULT or others:
        return replace(known, state="waiting", stop=True)
    if outcome.status in ("cancelled", "interrupted"):
        return replace(known, state="waiting", error=outcome.error or "it was stopped while it ran")
    return known
