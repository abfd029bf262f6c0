"""The engine for tests: the real core with a journal in memory, a function as the model, and no file system."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from friday_cli.agents.isolation import WorktreeIsolation
from friday_cli.agents.output_schema import checker
from friday_cli.agents.spawn_limits import SpawnLimiter
from friday_cli.agents.tool_sources import SessionDelegation
from friday_cli.agents.worktree_changes import WorktreeChanges
from friday_cli.command_safety import network_targets
from friday_cli.config.settings import DelegationSettings
from friday_cli.core.agent.agent import Agent, Conversation, Policy, Services, Supervision
from friday_cli.core.agent.inbox import Inbox
from friday_cli.core.agent.supervision import strictest
from friday_cli.core.eventlog.log import Journal, Log, MemoryJournal
from friday_cli.core.eventlog.replay import AgentRecord, replay
from friday_cli.core.limits.budget import Budget
from friday_cli.core.limits.slots import RunSlot
from friday_cli.core.permissions.approvals import ApprovalQueue
from friday_cli.core.permissions.decision import Mode
from friday_cli.core.permissions.rule import Allowlist, Rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.permissions.taint import TaintTracker
from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.core.protocol.events import AgentFinished, AgentStarted, Envelope, Event, ToolSpec
from friday_cli.core.protocol.forecast import Forecast
from friday_cli.core.protocol.messages import Message, Text, Thinking, ToolCall, Usage, closed, user
from friday_cli.core.protocol.provider import CallChunk, Chunk, ReplyDone, Request, Stop, TextChunk, ThinkingChunk
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.protocol.tool import FinalReport, Output, Tool, ToolContext
from friday_cli.core.protocol.tool_info import Effect, ToolInfo
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.subagents import resume
from friday_cli.core.subagents.driver import Driver, ModelDriver
from friday_cli.core.subagents.node import AgentRun, AgentSummary, KnownAgents, SpawnEstimate, SubagentTask
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.tools.delegate import DelegateSettings, delegate_tools
from friday_cli.tools.worktree import worktree_tools
from tests.strict import strict

E = TypeVar("E", bound=Event)
SMALL = Usage(input=10, output=5)
"""Default usage of a reply."""


# ---- a model ------------------------------------------------------------------


@dataclass(frozen=True)
class Say:
    """One reply of a `Model`, after `delay_s` seconds. With `fail` the text is sent first, then this is raised."""

    text: str = ""
    calls: Sequence[ToolCall] = ()
    stop: Stop | None = None
    usage: Usage = SMALL
    thinking: str = ""
    delay_s: float = 0.0
    fail: Exception | None = None
    note: str = ""
    wrap_up: str | None = None
    """The text in place of this reply when the request forbids tools; None: the same reply."""


Play = Callable[[Request, int], Say]
_ids = itertools.count(1)


def call(name: str, call_id: str = "", **arguments: Any) -> ToolCall:
    """A tool call with an id of its own."""
    return ToolCall(call_id or f"c{next(_ids)}", name, arguments)


def delegate(profile: str, task: str = "look", **more: Any) -> ToolCall:
    return call("delegate_task", profile=profile, task=task, **more)


def batch(*tasks: Mapping[str, Any]) -> ToolCall:
    return call("delegate_tasks", tasks=[{"task": "look", **t} for t in tasks])


class Model:
    """A provider whose replies are a function of the request and of how many its agent has sent (from 0).

    A mapping is a script: agent path (or "*") -> replies in order, "done" after the last. `window`, `max_output` in tokens,
    `price` in US dollars per token.
    """

    name = "fake"
    badge = ""

    rate_limit_key = "fake"

    def __init__(
        self,
        play: Play | Mapping[str, Sequence[Say]],
        *,
        model: str = "m",
        window: int = 200_000,
        max_output: int = 32_000,
        price: float | None = None,
    ) -> None:
        self.model, self.window, self.max_output = model, window, max_output
        self.requests: list[Request] = []
        self.open: set[str] = set()
        self.at_once = self.most_at_once = 0
        self._play = play if callable(play) else script(play)
        self._price = price
        self._asked: dict[str, int] = {}

    def cost(self, usage: Usage) -> float | None:
        return None if self._price is None else self._price * usage.billed

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        count = self._asked.get(request.agent, 0)
        self._asked[request.agent] = count + 1
        say = self._play(request, count)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.open.add(request.agent)
        try:
            if say.wrap_up is not None and request.text_only:
                say = Say(say.wrap_up, usage=say.usage, delay_s=say.delay_s)
            if say.delay_s:
                await asyncio.sleep(say.delay_s)
            async for chunk in pieces(say):
                yield chunk
        finally:
            self.at_once -= 1
            self.open.discard(request.agent)


async def pieces(say: Say) -> AsyncIterator[Chunk]:
    if say.thinking:
        yield ThinkingChunk(say.thinking)
    half = len(say.text) // 2
    for piece in (say.text[:half], say.text[half:]):
        if piece:
            yield TextChunk(piece)
    for index, called in enumerate(say.calls):
        yield CallChunk(index, called.name, len(str(called.arguments)))
    if say.fail is not None:
        raise say.fail
    parts: list[Any] = [Thinking(say.thinking, "fake")] if say.thinking else []
    parts += [Text(say.text)] if say.text else []
    stop: Stop = say.stop or ("tool_use" if say.calls else "end_turn")
    yield ReplyDone(Message("assistant", (*parts, *say.calls)), say.usage, stop, say.note)


def script(turns: Mapping[str, Sequence[Say]]) -> Play:
    def play(request: Request, count: int) -> Say:
        mine = turns.get(request.agent, turns.get("*", ()))
        return mine[count] if count < len(mine) else Say("done")

    return play


# ---- tools ----------------------------------------------------------------------


class Arguments(msgspec.Struct, frozen=True):
    """Arguments of the tools; each tool reads what it needs."""

    text: str = ""
    seconds: float = 0.0
    fail: bool = False


IDLE = {row.name for row in TOOLS if not row.verifies}
Work = Callable[[ToolContext, Arguments], Awaitable[Output | str]]


def make(name: str, work: Work | None = None, *, effect: Effect = "read") -> Tool:
    """A tool that does `work`; by default it sleeps for `seconds`, raises with `fail`, and returns `text`."""

    async def run(ctx: ToolContext, args: Arguments) -> Output:
        out = await (work or _plain)(ctx, args)
        return Output(out) if isinstance(out, str) else out

    return Tool(
        run,
        ToolInfo(name, effect, verifies=name not in IDLE),
        args=Arguments,
        description=f"The tool {name}.",
        subjects=lambda args, workspace: (args.text,) if args.text else (),
        title=lambda args: args.text,
    )


async def _plain(ctx: ToolContext, args: Arguments) -> str:
    if args.seconds:
        await asyncio.sleep(args.seconds)
    if args.fail:
        raise ToolError(f"no {args.text}")
    return f"did {args.text}"


async def _result(ctx: ToolContext, args: Arguments) -> Output:
    return Output("Noted.", ends=FinalReport(args.text, not args.fail))


def task_result() -> Tool:
    """Ends the run with `text`, as an error with `fail`."""
    return make("task_result", _result, effect="own")


# ---- a workspace without a machine ------------------------------------------------------


class Nowhere:
    """A workspace without files; `released` are the agents whose processes were ended."""

    root = Path("/ws")
    roots: tuple[Path, ...] = (Path("/ws"),)
    away: tuple[Path, ...] = ()

    def __init__(self) -> None:
        self.released: list[str] = []

    def resolve(self, path: str, *, write: bool = False) -> Path:
        return self.root / path

    def label(self, path: str | Path) -> str:
        return str(path)

    async def release(self, agent: str) -> tuple[str, ...]:
        self.released.append(agent)
        return ()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"The workspace of the bench has no {name}.")


# ---- profiles ---------------------------------------------------------------------


@dataclass
class Profile:
    """The profile of sub-agents. `tools` None means the parent's; `offers` are the profiles it may delegate to."""

    tools: Sequence[str] | None = None
    offers: Sequence[str] = ()
    tokens: int = 50_000
    cost: float | None = None
    turns: int = 20
    time_s: float = 300.0
    mode: Mode | None = None
    rules: Sequence[Rule] = ()
    accept: Callable[[str], str] = lambda text: ""
    model: Model | None = None
    supervision: Supervision | None = None
    loose: bool = False
    """Gives it all tools of the parent, also those that it may not use: only the rules refuse them."""


class _Tree(SubagentTree):
    """A tree that remembers the newest run of every agent."""

    runs: dict[str, AgentRun]
    bench: Bench

    def run(self, agent: Agent, spec: SubagentTask, message: Message | None = None) -> AgentRun:
        node = super().run(agent, spec, message)
        self.runs[agent.path] = node
        self.bench.agents[agent.path] = agent
        return node


@dataclass
class Bench:
    """A session in memory. Open it inside a running loop; `root` is the agent `a`."""

    model: Model
    tools: Sequence[Tool] = ()
    profiles: Mapping[str, Profile] = field(default_factory=lambda: {"worker": Profile()})
    me: Profile = field(default_factory=lambda: Profile(time_s=0.0, tokens=0))
    """The root's limits: tokens 0 means none; it may delegate to every profile."""
    policy: Policy = field(default_factory=Policy)
    mode: Mode = "yolo"
    rules: Sequence[Rule] = ()
    attended: bool = True
    journal: Journal | None = None
    fallback: Model | None = None
    seed: int = 0
    batch_most: int = 10
    last: int = 0
    """The number of the newest event that the journal holds already."""
    place: Callable[[Bench], WorktreeIsolation] | None = None
    """Creates the worktrees of sub-agents; without it there are none."""
    on_approval: Mapping[str, Any] = field(default_factory=dict)
    """What the queue of approvals calls, as its arguments."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.kept = self.journal or MemoryJournal()
        taint = TaintTracker(network_targets)
        self.log = Log(self.kept, last=self.last, now=asyncio.get_running_loop().time, watch=taint.apply)
        self.approvals = ApprovalQueue(self.log, interactive=self.attended, **self.on_approval)
        self.workspace = Nowhere()
        self.services = Services(self.log, self.approvals, self.workspace, self.policy, self.rng, taint)
        self.agents: dict[str, Agent] = {}
        self.apart = self.place(self) if self.place else None
        self.tree = _Tree(self.services, self, self.build_root, known=KnownAgents())
        self.tree.bench, self.tree.runs = self, {}
        self.root = self.tree.root

    # ---- making agents ---------------------------------------------------------

    def build_root(self, tree: SubagentTree) -> Agent:
        budget = Budget("a", tokens=self.me.tokens or None, cost=self.me.cost)
        rules = Rules(mode=self.mode, rules=self.rules)
        table = {t.name: t for t in self.tools}
        root = self._agent(
            tree, "a", "root", self.me, budget=budget, rules=rules, table=table, offers=tuple(self.profiles)
        )
        root.supervision = self.me.supervision or "unsupervised"
        self.agents["a"] = root
        return root

    def driver(self, agent: Agent) -> Driver:
        return ModelDriver(agent, self.services)

    async def before_run(self, tree: SubagentTree, agent: Agent) -> None:
        """Nothing to prepare."""

    def build(self, tree: SubagentTree, parent: Agent, spec: SubagentTask, path: str) -> tuple[Agent, Message]:
        profile = self.profiles.get(spec.profile)
        if profile is None:
            raise ToolError(f"There is no profile {spec.profile!r}.")
        try:
            accept = checker(spec.schema) if spec.schema is not None else profile.accept
        except UsageError as error:
            raise ToolError(str(error)) from None
        tokens = min(spec.limits.tokens or profile.tokens, profile.tokens)
        budget = parent.budget.child(
            path, tokens=tokens, cost=profile.cost if spec.limits.cost is None else spec.limits.cost
        )
        allowed = None if profile.tools is None else frozenset(profile.tools)
        rules = parent.rules.child(Allowlist(allowed), mode=profile.mode, rules=profile.rules)
        given = {name: t for name, t in parent.conversation.tools.items() if name not in TOOLS.granted_by("sub_agents")}
        table = {name: t for name, t in given.items() if profile.loose or rules.may(name)}
        deepest = min(parent.max_depth, spec.max_depth or parent.max_depth)
        offers = profile.offers if depth_of(path) < deepest else ()
        agent = self._agent(
            tree,
            path,
            spec.profile,
            profile,
            budget=budget,
            rules=rules,
            table=table,
            offers=offers,
            parent=parent,
            workspace=spec.workspace,
        )
        agent.max_turns = min(spec.limits.turns or profile.turns, profile.turns)
        agent.time_s = min(spec.limits.time_s or profile.time_s, profile.time_s)
        agent.max_depth = deepest
        agent.accept = accept
        agent.supervision = strictest(parent.supervision, profile.supervision)
        if spec.fork:
            return agent, self._forked(agent, parent, spec.task)
        text = spec.task if not spec.context else f"[Context from parent agent]\n{spec.context}\n\n{spec.task}"
        return agent, user(text, source="parent")

    async def restore(self, tree: SubagentTree, parent: Agent, path: str, spec: SubagentTask) -> Agent:
        records = replay(await self.log.history())
        tokens, cost = resume.budget_left(records, path, more=spec.limits.tokens)
        again = msgspec.structs.replace(
            spec,
            profile=records[path].profile,
            limits=msgspec.structs.replace(spec.limits, tokens=tokens, cost=cost),
            fork=False,
            max_depth=records[path].newest_start.max_depth,
        )
        place = await self.apart.workspace_for_resume(parent, path) if self.apart else None
        try:
            agent, _ = self.build(tree, parent, msgspec.structs.replace(again, workspace=place), path)
        except BaseException:
            if self.apart and place is not None:
                await self.apart.cancel(place)
            raise
        agent.conversation.tools = {
            name: t for name, t in agent.conversation.tools.items() if name in records[path].newest_start.tools
        }
        if resume.is_new_prefix(agent.conversation, records[path]):
            agent.start_events.append(resume.prefix_of(agent.conversation))
        earlier = take_up(agent, records, resume.resumed(agent.conversation, records[path]))
        resume.with_earlier(agent.budget, earlier)
        self.agents.setdefault(path, agent)
        return agent

    async def run_ended(self, tree: SubagentTree, path: str) -> None:
        if self.apart is not None:
            await self.apart.run_ended(tree, path)

    def _forked(self, agent: Agent, parent: Agent, task: str) -> Message:
        agent.conversation.provider, agent.conversation.cache_key = (
            parent.conversation.provider,
            parent.conversation.cache_key,
        )
        agent.conversation.system, agent.conversation.specs = parent.conversation.system, parent.conversation.specs
        agent.conversation.history = closed(parent.conversation.history, why="Continued elsewhere.")
        agent.conversation.context, agent.conversation.sent, agent.conversation.cache_missed = (
            parent.conversation.context,
            parent.conversation.sent,
            parent.conversation.cache_missed,
        )
        listed = {spec.name for spec in parent.conversation.specs}
        agent.conversation.tools = {name: t for name, t in agent.conversation.tools.items() if name in listed}
        return user(f"You are a fork. {task}", source="parent")

    def _agent(
        self,
        tree: SubagentTree,
        path: str,
        name: str,
        profile: Profile,
        *,
        budget: Budget,
        rules: Rules,
        table: dict[str, Tool],
        offers: Sequence[str],
        parent: Agent | None = None,
        workspace: Any = None,
    ) -> Agent:
        if offers:
            made = {t.name: t for t in self._delegation(tree)}
            if rules.allowlist.tools is not None:
                rules.allow_only(rules.allowlist.tools | made.keys())
            table = {**table, **made}
        specs: tuple[ToolSpec, ...] = tuple(t.spec for t in table.values())
        agent = Agent(
            path=path,
            profile=name,
            conversation=Conversation(
                profile.model or self.model, f"You are {name}.", specs, table, name, fallback=self.fallback
            ),
            rules=rules,
            budget=budget,
            slot=RunSlot(path, log=self.log, slots=tree.slots if parent else None),
            inbox=Inbox(path, self.log),
            max_turns=profile.turns,
            time_s=profile.time_s,
            max_depth=self.policy.max_depth,
            workspace=parent.workspace if parent else self.workspace,
            accept=profile.accept,
            parent=parent,
            subagent_notes=lambda: "\n".join(tree.notes(path)),
        )
        if parent and self.apart:
            agent.workspace = workspace or parent.workspace
            agent.start_events += self.apart.assign(agent.workspace, agent.path)
        return agent

    def _delegation(self, tree: SubagentTree) -> list[Tool]:
        settings = DelegateSettings(max_batch=self.batch_most)
        if self.apart is None:
            return delegate_tools(tree, _DelegationHost(), settings)
        changes = WorktreeChanges(tree, self.apart, self.services)
        limiter = SpawnLimiter(self.services, DelegationSettings(ask_above=1_000_000), lambda estimate: 0.0)
        host = SessionDelegation(tree, self.apart, changes, limiter, DelegationSettings(), forecast=_unknown)
        return [*delegate_tools(tree, host, settings), *worktree_tools(changes)]

    # ---- driving ---------------------------------------------------------------

    def begin(self, text: str = "go") -> AgentRun:
        """Begin a run of the root."""
        return self.tree.run(self.root, SubagentTask("root", text), user(text))

    async def prompt(self, text: str = "go") -> RunResult:
        """A whole run of the root."""
        node = self.begin(text)
        assert node.task is not None
        await asyncio.wait([node.task])
        return node.outcome

    def node(self, path: str) -> AgentRun:
        """The newest run of an agent, also one that has ended."""
        return self.tree.runs[path]

    def outcome(self, path: str) -> RunResult:
        """How the newest run of an agent ended."""
        return self.tree.runs[path].outcome

    # ---- looking ---------------------------------------------------------------

    @property
    def envelopes(self) -> list[Envelope]:
        """All events in the journal."""
        assert isinstance(self.kept, MemoryJournal)
        return self.kept.envelopes

    def of(self, event: type[E], path: str | None = None) -> list[E]:
        """Events of a kind, of one agent or of all."""
        return [e.event for e in self.envelopes if isinstance(e.event, event) and path in (None, e.agent)]

    def started(self) -> list[str]:
        return [e.agent for e in self.envelopes if isinstance(e.event, AgentStarted)]

    def finished(self, path: str = "a") -> AgentFinished:
        """The one end of an agent."""
        (end,) = self.of(AgentFinished, path)
        return end

    def ended(self, path: str = "a") -> tuple[str, str, str, bool]:
        """The end of an agent: status, reason, result and whether that is partial. Memory and log must agree."""
        outcome, event = self.outcome(path), self.finished(path)
        assert event.result_of_run == outcome
        assert strict(self.agents[path].conversation.history) == []
        return outcome.status, outcome.stop_reason, outcome.text, outcome.partial

    def results(self, path: str = "a") -> list[str]:
        """The results of an agent's calls, as "status: text"."""
        return [f"{r.status}: {r.text}" for m in self.agents[path].conversation.history for r in m.results]

    def requests(self, path: str = "a") -> list[Request]:
        return [r for r in self.model.requests if r.agent == path]


def take_up(agent: Agent, records: Mapping[str, AgentRecord], conversation: Conversation) -> resume.EarlierRuns:
    """Let an agent that is made continue as its log has it."""
    earlier, agent.conversation = resume.earlier_runs(records, agent.path), conversation
    agent.usage, agent.below, agent.run = earlier.usage, earlier.below, earlier.run
    agent.receipt_builder = earlier.receipt_builder
    agent.inbox.rewind(earlier.unread)
    return earlier


async def ran(*given: Any, **more: Any) -> Bench:
    """A bench whose root has had a whole run; it takes what `Bench` takes."""
    bench = Bench(*given, **more)
    await bench.prompt()
    return bench


async def _unknown(estimate: SpawnEstimate, size: int) -> Forecast:
    """No earlier delegations are known."""
    return Forecast(estimate.profile, "")


class _DelegationHost:
    """Allows every sub-agent, forecasts nothing and creates no workspaces."""

    async def with_forecasts(self, path: str, specs: Sequence[SubagentTask]) -> list[SubagentTask]:
        return list(specs)

    @asynccontextmanager
    async def allow_spawn(
        self, path: str, call_id: str, specs: Sequence[SubagentTask], *, again: bool = False
    ) -> AsyncIterator[None]:
        yield

    async def create_workspace(self, path: str) -> Workspace:
        raise AssertionError("This bench has no worktrees.")

    async def cancel_workspace(self, workspace: Workspace) -> None: ...

    async def summarize(self, path: str, known: AgentSummary) -> str | None:
        return None

    def worktree_report(self, path: str) -> str:
        return ""

    def pending_note(self, path: str) -> str:
        return ""


async def until(condition: Callable[[], bool], *, most_s: float = 10_000.0) -> None:
    """Wait until `condition` holds. It is checked after a virtual millisecond, then at growing intervals."""
    pause = 0.001
    async with asyncio.timeout(most_s):
        while not condition():
            await asyncio.sleep(pause)
            pause = min(0.1, pause * 1.01)


async def others() -> list[str]:
    """The names of all other tasks, after everything that is ready has run."""
    for _ in range(20):
        await asyncio.sleep(0)
    return [t.get_name() for t in asyncio.all_tasks() if t is not asyncio.current_task()]
