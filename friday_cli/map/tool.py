"""Runs the calls of `map_tasks`: a batch whose agents are children of the main agent that calls, with its rights and its budget."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.permissions.matching import allowing_rule
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.core.protocol.errors import FridayError, ToolError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.tool_info import MAP_TASKS
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.core.text.known_keys import mask_keys_in
from friday_cli.core.text.sanitize import escape_json, sanitize_line
from friday_cli.core.text.untrusted import wrap_untrusted
from friday_cli.session.item_agents import ItemAgents
from friday_cli.system.paths import text_of
from friday_cli.tools.batch import MapArguments, map_tool

from . import report
from .caps import dollars
from .engine import EmbeddedEngine
from .job import MapJob
from .run import MapRun, Prepared, prepare
from .scheduler import Progress
from .sources import LONGEST
from .store import BatchRow, Counts, MapStore

if TYPE_CHECKING:
    from friday_cli.agents.agent_factory import AgentFactory
    from friday_cli.core.agent.agent import Agent

MOST = 500
"""Items of one call: each is an agent of the session, which its frontends keep."""
FIRST_CHARS = 8_000
"""Characters of the results that the model reads at once."""
RESULT_CHARS = 600
"""Characters of one of them."""
LINES = 5
"""Lines about items of one state that are not done."""
EVERY_S = 1.0
"""Seconds between two lines of progress."""


class BatchTool:
    """Runs the calls of `map_tasks` of the main agent of `tree`."""

    def __init__(
        self,
        tree: SubagentTree,
        factory: AgentFactory,
        session: str,
        folder: Path,
        *,
        env: Mapping[str, str],
    ) -> None:
        self._tree, self._factory, self._session = tree, factory, session
        self._folder, self._env = folder, env

    def tool(self) -> Tool:
        """The tool."""
        return map_tool(self._run)

    async def _run(self, ctx: ToolContext, args: MapArguments) -> Output:
        agent = self._tree.node(ctx.agent).agent
        bad: list[str] = []
        try:
            job = await self._job(ctx, args, agent, bad)
            prepared = await asyncio.to_thread(prepare, job, self._env)
            names = await asyncio.to_thread(lambda: [item.where for item in prepared.items])
            self._check(agent, args, len(names))
            if args.glob and (hidden := ctx.withheld(names)):
                raise ToolError(f"{args.glob} matches {pluralize(len(hidden), 'file')} that a rule keeps from you.")
            return await self._batch(ctx, agent, prepared, bad)
        except FridayError as error:
            raise ToolError(re.sub(r"--([a-z-]+)", lambda found: found[1].replace("-", "_"), str(error))) from None

    async def _job(self, ctx: ToolContext, args: MapArguments, agent: Agent, bad: list[str]) -> MapJob:
        """The batch that a call describes; `bad` gets a line for each unusable line of a file. Raises ToolError."""
        if sum(map(bool, (args.items, args.glob, args.file))) != 1:
            raise ToolError("Give the items by one of items, glob and file.")
        if args.glob and re.search(r"(?<!\{)\{content\}", args.task):
            raise ToolError("Files have the fields path and name: the sub-agents read them with their own rights.")
        items = args.glob or escape_json(json.dumps(args.items or await self._lines(ctx, args.file, bad)))
        model = {} if agent.model.startswith("scripted/") else {"model": agent.model}
        return MapJob(
            text_of(self._folder),
            args.profile,
            "glob" if args.glob else "list",
            items,
            args.task,
            args.max_cost,
            schema=args.schema,
            item_cost=args.per_item_cost,
            sample=0,
            options=model,
        )

    async def _lines(self, ctx: ToolContext, name: str, bad: list[str]) -> list[object]:
        """The values of a file of JSON lines. Raises ToolError."""
        path = ctx.workspace.resolve(name)
        values: list[object] = []
        text = (await ctx.workspace.read(path, limit=LONGEST)).decode("utf-8-sig", "replace")
        for number, line in enumerate(text.split("\n"), 1):
            try:
                values += [json.loads(line)] if line.strip() else []
            except (ValueError, RecursionError) as error:
                bad.append(sanitize_line(f"{name}:{number}: is not JSON: {error}; it is skipped", 200))
        if not values:
            raise ToolError(bad[0] if bad else f"{name} has no lines.")
        return values

    def _check(self, agent: Agent, args: MapArguments, count: int) -> None:
        """Raises ToolError for a batch that may not start."""
        if count > MOST:
            raise ToolError(
                f"{count:,} items are more than {MOST}, the most of one call. The user can run `friday map`."
            )
        if args.max_cost > (left := agent.budget.left("cost")):
            raise ToolError(
                f"max_cost {dollars(args.max_cost)} is more than the {dollars(left)} that this session has left."
            )
        found = agent.rules.decide_cost(args.max_cost)
        if found.decision == "deny":
            raise ToolError(f"Not started: max_cost {dollars(args.max_cost)}: {found.reason}.")

    async def _batch(self, ctx: ToolContext, agent: Agent, prepared: Prepared, bad: list[str]) -> Output:
        factory, job = self._factory, prepared.job
        items = ItemAgents(self._session, self._tree, factory, call=ctx.call_id)
        store = MapStore(job.folder, self._env)
        frontend = _CallFrontend(self._tree, agent, ctx, job)
        run = MapRun(prepared, store, frontend, self._env)
        try:
            async with agent.slot.waiting("waiting_child", resume=False):
                batch, counts = await _unless_stopped(run, frontend, EmbeddedEngine(items, above=agent.budget))
            return await _output(ctx, store, batch, counts, bad)
        finally:
            await store.close()


async def _unless_stopped(run: MapRun, frontend: _CallFrontend, engine: EmbeddedEngine) -> tuple[BatchRow, Counts]:
    """Run a batch. If the call is stopped its agents are stopped, and what is done is returned."""
    running = asyncio.create_task(run.run_with(engine))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        run.interrupt("it was stopped")
        frontend.withdraw()
        while not running.done():
            await engine.items.stop()
            await asyncio.wait([running], timeout=0.05)  # one may have been about to start
        return running.result()


class _CallFrontend:
    """Implements `MapFrontend` for a call of the tool."""

    def __init__(self, tree: SubagentTree, agent: Agent, ctx: ToolContext, job: MapJob) -> None:
        self._services, self._agent, self._ctx, self._job = tree.services, agent, ctx, job
        self._last = 0.0
        self._asking: asyncio.Task[ApprovalAnswer] | None = None

    def withdraw(self) -> None:
        """End the open question: the call is stopped."""
        if self._asking is not None:
            self._asking.cancel()

    def note(self, text: str) -> None:
        self._ctx.emit(f"{sanitize_line(text, 300)}\n")

    def can_confirm(self, about: str) -> None:
        if not self._allowed and not self._services.approvals.interactive:
            hint = f"The user can allow it with the rule {MAP_TASKS}."
            raise ToolError(f"Not started: no person can be asked here. {about}.", hint=hint)

    async def confirm(self, question: str) -> bool:
        agent, ctx = self._agent, self._ctx
        if self._allowed:
            self.note(question)
            return True
        call = RuleInput(MAP_TASKS, "spawn", (f"{self._job.profile}: {question}",))
        async with agent.slot.waiting("waiting_user"):
            question_open = self._services.approvals.permission(
                ctx.agent, ctx.call_id, call, reason="one answer for all items"
            )
            self._asking = asyncio.create_task(question_open)
            await asyncio.wait([self._asking])
        if self._asking.cancelled():
            raise ToolError(f"The call was stopped before {question} began.")
        answer = self._asking.result()
        if answer.decision == "deny":
            raise ToolError(f"The user declined {question}. {answer.reason}".strip())
        return True

    @property
    def _allowed(self) -> bool:
        """Whether it runs without a question: in mode yolo, or by a rule that names the tool, unless a rule about costs asks."""
        rules, call = self._agent.rules, RuleInput(MAP_TASKS, "spawn", (self._job.profile,))
        if rules.decide_cost(self._job.cost).decision != "allow":
            return False
        named = [rule for rule in rules.rules if rule.tool == MAP_TASKS]
        return rules.effective_mode == "yolo" or allowing_rule(named, call) is not None

    def progress(self, progress: Progress, left: int) -> None:
        now = asyncio.get_running_loop().time()
        if progress.ended >= left or now - self._last >= EVERY_S:
            self._last = now
            self.note(report.progress_text(progress, left))


async def _output(ctx: ToolContext, store: MapStore, batch: BatchRow, counts: Counts, bad: list[str]) -> Output:
    """What the model reads of an ended batch, and the table of its items for people."""
    job = batch.job
    rows: list[tuple[str, ...]] = []
    lines, first, size = list[str](), list[str](), 0
    problems = list(bad[:LINES])
    async for place in report.places(store, batch.id):
        state = report.state_of(place)
        row, told = place.row, report.receipt_line(place)
        lines.append(escape_json(json.dumps(mask_keys_in(report.as_data(place, job)), ensure_ascii=False)))
        rows.append((place.where, state, told.removeprefix(f"{place.where}: ")))
        if state == "done" and row is not None and size < FIRST_CHARS:
            text = row.result if len(row.result) <= RESULT_CHARS else f"{row.result[:RESULT_CHARS]} […]"
            first.append(f"{place.where}: {text}")
            size += len(first[-1])
        elif state in ("failed", "skipped") and len(problems) < 2 * LINES:
            problems.append(f"{state}  {told}")
    kept = await ctx.workspace.keep_output("\n".join(lines).encode("utf-8", "replace"))
    stopped = [f"stopped: {batch.reason}"] if batch.reason else []
    head = "\n".join((report.summary(batch, counts), *stopped))
    more = f"The first {pluralize(len(first), 'result')}:\n" if len(first) < counts.done else ""
    text = wrap_untrusted("\n".join((*problems, more + "\n".join(first))).strip(), source=MAP_TASKS)
    end = f"All items as JSON lines: {kept} (fields item, state, result, error). `friday map status {batch.id}` has a receipt for each."
    display = TableDisplay(("item", "state", "what the harness saw"), tuple(rows))
    return Output(f"{head}\n{text}\n{end}", display, error=not counts.done)
