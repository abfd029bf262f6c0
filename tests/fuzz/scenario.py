"""Random scenes for the engine: one seed is one session with its models, tools, people, troubles and journal."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from friday_cli.agents.isolation import WorktreeIsolation
from friday_cli.agents.resumed_agent import resumed_root
from friday_cli.agents.shared_resources import SharedResources
from friday_cli.agents.worktree_changes import WorktreeChanges
from friday_cli.core.agent.agent import Agent, Policy
from friday_cli.core.agent.next_request import prompt_tokens
from friday_cli.core.agent.supervision import SYSTEM
from friday_cli.core.eventlog.notices import PromptNotes
from friday_cli.core.eventlog.replay import AgentRecord, replay
from friday_cli.core.permissions.decision import MODES
from friday_cli.core.permissions.rule import Rule, parse_rule
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.messages import Message, Usage, without_refused
from friday_cli.core.protocol.provider import Request, estimate_request
from friday_cli.core.protocol.tool import ToolContext
from friday_cli.core.subagents.node import AgentRun, ChildNumbers
from friday_cli.session.parts import SessionParts, SessionStorage
from friday_cli.session.permissions import SessionPermissions
from friday_cli.session.resume import log_resumed
from friday_cli.session.session import Session
from friday_cli.tools.delegate.report import agent_summary
from friday_cli.workspace.checkpoints.write_hook import WriteHook
from friday_cli.workspace.sandbox.detect import SandboxChoice
from tests.engine_fixture import Arguments, Bench, Profile, make, take_up, task_result
from tests.fuzz.random_actions import Journal, Machine, RandomModel, aside
from tests.fuzz.random_user import RandomUser
from tests.fuzz.workspace_fixture import FakeWorktrees, inside
from tests.strict import strict

HORIZON_S = 50_000.0
"""A run that is not over by then waits for itself."""


class Scene(RandomUser):
    """One random session. `broken` collects what must not be; `reached` counts what happened.

    With `before`, the session goes on from the events `kept` of a scene of the same seed, whose process died.
    """

    def __init__(self, seed: int, *, kept: Sequence[Envelope] = (), before: Scene | None = None) -> None:
        rng = self.rng = random.Random(seed)
        self.seed = seed
        self.since = len(kept)
        self.died_at = 0
        self.broken: list[str] = []
        self.reached: Counter[str] = Counter()
        self.working: Counter[str] = Counter()
        self.placed: Counter[str] = Counter()
        self.changing: Counter[str] = Counter()
        self.cleaning = 0
        self.honest = rng.random() < 0.6
        self.caches = rng.random() < 0.5
        self.price = rng.choice([None, 1e-6])
        self.trouble_rate = rng.choice([0.0, 0.0, 0.04, 0.1, 0.5])
        self.places = rng.choice([1, 1, 2, 3, 5])
        self.tasks: list[asyncio.Task[Any]] = []
        self.stops: list[tuple[str, str, list[tuple[str, int]]]] = (
            [(p, level, []) for p, level, _ in before.stops] if before else []
        )
        self.prompts: list[str] = list(before.prompts) if before else []
        self.resumed: list[tuple[str, str]] = list(before.resumed) if before else []
        self.given: set[str] = set(before.given) if before else set()
        self.gone: dict[str, Agent] = before.gone | before.bench.agents if before else {}
        self.prefixes: dict[str, tuple[int, tuple[Message, ...]]] = {}
        self.misjudged: dict[str, float] = defaultdict(float, before.misjudged if before else {})
        self.largest: dict[str, float] = dict(before.largest) if before else {}
        self.in_flight: dict[str, float] = {}
        self.cut: list[tuple[str, str]] = []
        self.journal = Journal(rng, kept)
        self.read: list[Envelope] = []
        apart = random.Random(f"{seed}:apart").random() < 0.35
        self.copies = FakeWorktrees(self, replay(self.journal.envelopes)) if apart else None
        window = rng.choice([200_000, 200_000, 2600])
        self.model = RandomModel(self, model="first", window=window)
        self.spare = RandomModel(self, model="spare", window=window) if rng.random() < 0.3 else None
        self.bench = self._bench()
        self.session = self._session()
        if before:
            self.rng.seed(f"{seed}:{len(kept)}")

    def _bench(self) -> Bench:
        rng = self.rng
        policy = Policy(
            max_concurrent=self.places, max_depth=rng.choice([1, 2, 3, 3, 3, 3]), max_agents=rng.choice([4, 12, 20])
        )
        deep = Profile(
            offers=("one", "two"),
            tokens=rng.choice([1200, 8000, 50_000, 50_000]),
            turns=rng.randint(2, 5),
            time_s=rng.choice([0.0, 3.0, 30.0, 300.0]),
        )
        flat = Profile(
            tools=rng.sample(["look", "change", "shell", "boom", "ask"], 3), rules=self._rules(), turns=3, loose=True
        )
        watched = Profile(
            tools=["look", "change", "delegate_task"],
            offers=("one",),
            turns=4,
            time_s=rng.choice([0.0, 60.0]),
            supervision=rng.choice(["supervised", "supervised", "supervised-human"]),
        )
        root_tokens = rng.choice([0, 0, 4000, 20_000, 100_000])
        me = Profile(tokens=root_tokens, turns=rng.randint(2, 6), time_s=rng.choice([0.0, 0.0, 15.0]))
        if self.price is not None and rng.random() < 0.3:
            me.cost = rng.choice([0.003, 0.05])
        bench = Bench(
            self.model,
            self._tools(),
            {"one": deep, "two": flat, "three": watched},
            me,
            policy,
            rng.choice(MODES),
            self._rules(),
            rng.random() < 0.9,
            self.journal,
            self.spare,
            self.seed,
            last=self.since,
            place=self._place if self.copies else None,
            on_approval={
                "on_rule_granted": lambda rule, scope: self.opened.permissions.grant(rule, scope),
                "on_mode_chosen": lambda mode: self.opened.permissions.set_mode(mode),
            },
        )
        bench.workspace = bench.services.workspace = bench.root.workspace = Machine(self)
        bench.root.conversation.specs += (make("hidden", self._hidden).spec,)
        return bench

    def _place(self, bench: Bench) -> WorktreeIsolation:
        """The real rules of worktrees, over copies of nothing."""
        copies = self.copies
        assert copies is not None
        bench.services.workspace = bench.workspace = Machine(self)
        return WorktreeIsolation(Path("/"), lambda folder: copies, bench.services)

    def _session(self) -> Session:
        """The real session over the bench; what it needs of disk and settings is nothing here."""
        bench = self.bench
        rules, notes = bench.root.rules, PromptNotes()
        nothing: Any = _Nothing()
        names: Any = SimpleNamespace(names=lambda: tuple(bench.profiles))
        chosen: Any = SimpleNamespace(chosen=tuple(bench.profiles))
        storage = SessionStorage(
            id="fuzz",
            store=nothing,
            ownership=nothing,
            log=bench.log,
            ledger=nothing,
            since=0,
            taint=nothing,
            telemetry=None,
        )
        shared = SharedResources(
            services=bench.services,
            isolation=bench.apart or nothing,
            providers=nothing,
            settings=nothing,
            profiles=names,
            skills=nothing,
            estimates=nothing,
        )
        self.opened = SessionParts(
            storage=storage,
            shared=shared,
            workspace=nothing,
            sandbox=SandboxChoice("none"),
            tree=bench.tree,
            factory=nothing,
            rules=rules,
            permissions=SessionPermissions(rules, bench.log, notes),
            notes=notes,
            problems=[],
            sub_agents=chosen,
            changes=WorktreeChanges(bench.tree, bench.apart, bench.services) if bench.apart else nothing,
            caller=None,
        )
        return Session(self.opened)

    async def reopen(self) -> None:
        """Take up what the log knows, as opening a session does."""
        records: dict[str, AgentRecord] = replay(self.journal.envelopes)
        self.bench.tree._summaries.update((p, agent_summary(r)) for p, r in records.items() if p != "a")
        self.bench.tree._numbers = ChildNumbers(self.bench.tree._summaries)
        opened = self.opened
        root = self.bench.root
        used = take_up(root, records, resumed_root(root.conversation, records["a"]))
        root.budget.charge((used.usage + used.below).billed, (used.usage + used.below).cost_usd)
        opened.rules.rules += [parse_rule(added.rule, added.decision) for added in records["a"].rules]
        mode = opened.rules.effective_mode
        opened.notes.add(*await log_resumed(root, mode, records, opened.storage.log))
        if self.bench.apart is not None:
            await self.bench.apart.restore(records)

    def agent(self, path: str) -> Agent:
        """The newest of that path, of this process or of the one that died."""
        return self.bench.agents.get(path) or self.gone[path]

    def _rules(self) -> list[Rule]:
        rng = self.rng
        decisions: list[Any] = ["allow", "allow", "ask", "deny"]
        return [Rule(name, "", rng.choice(decisions)) for name in ("look", "change", "shell") if rng.random() < 0.4]

    # ---- tools -------------------------------------------------------------------

    def _tools(self) -> list[Any]:
        return [
            make("look", self._look),
            make("change", self._change, effect="write"),
            make("shell", self._look, effect="run"),
            make("boom", self._boom),
            make("ask", self._ask, effect="own"),
            make("own_cancel", self._own_cancel),
            task_result(),
        ]

    async def _look(self, ctx: ToolContext, args: Arguments) -> str:
        self.dispatched(ctx)
        try:
            with self.works(ctx.agent):
                ctx.emit("so ")
                await asyncio.sleep(args.seconds)
                ctx.emit("far")
        finally:
            with self.cleans_up():
                await asyncio.sleep(0.01)
        if args.fail:
            raise ToolError("not found")
        return f"saw {args.text}"

    async def _change(self, ctx: ToolContext, args: Arguments) -> str:
        self.dispatched(ctx)
        self.changing[ctx.agent] += 1
        if self.changing[ctx.agent] > 1:
            self.broken.append(f"{ctx.agent} runs two changes at once")
        try:
            with self.works(ctx.agent):
                await asyncio.sleep(args.seconds * 4)
        except asyncio.CancelledError:
            self.reached["stopped in a change"] += 1
            raise
        finally:
            self.changing[ctx.agent] -= 1
            with self.cleans_up():
                await asyncio.sleep(0.01)
        return "changed"

    async def _boom(self, ctx: ToolContext, args: Arguments) -> str:
        self.dispatched(ctx)
        await asyncio.sleep(args.seconds / 10)
        raise self.rng.choice(
            [RuntimeError("boom"), ToolError("no"), ValueError(), TimeoutError("late"), OSError(28, "full")]
        )

    async def _ask(self, ctx: ToolContext, args: Arguments) -> str:
        self.dispatched(ctx)
        return await ctx.ask("which one?", ["this", "that"])

    async def _own_cancel(self, ctx: ToolContext, args: Arguments) -> str:
        """A tool whose own helper task was cancelled: the tool fails, and the agent is not stopped."""
        self.dispatched(ctx)
        self.reached["a tool's own cancellation"] += 1
        helper = asyncio.ensure_future(asyncio.sleep(5))
        asyncio.get_running_loop().call_later(args.seconds / 10, helper.cancel)
        await helper
        return "never"

    async def _hidden(self, ctx: ToolContext, args: Arguments) -> str:
        self.broken.append(f"{ctx.agent} ran a tool that it does not have")
        return "!"

    # ---- what is watched while it happens ---------------------------------------------

    @contextmanager
    def works(self, path: str, *, needs_place: bool = True) -> Any:
        """Something of an agent's runs. A request to the model needs no place."""
        self.working[path] += 1
        self.placed[path] += needs_place
        children = [p for p, count in self.placed.items() if p != "a" and count]
        if len(children) > self.places:
            self.broken.append(f"{children} work at once in {self.places} places")
        try:
            yield
        finally:
            self.working[path] -= 1
            self.placed[path] -= needs_place
            if not self.working[path]:
                del self.working[path]

    @contextmanager
    def cleans_up(self) -> Any:
        """A clean-up after a cancellation must not be broken off by another one."""
        task = asyncio.current_task()
        stopping = task is not None and task.cancelling() > 0
        self.cleaning += 1
        try:
            yield
        except asyncio.CancelledError:
            if stopping:
                self.broken.append("a clean-up was broken off by a second cancellation")
            raise
        finally:
            self.cleaning -= 1

    def dispatched(self, ctx: ToolContext) -> None:
        node = self.bench.node(ctx.agent)
        if node.ended:
            self.broken.append(f"{ctx.agent} runs a tool after its end")
        self.broken += inside(self, ctx.agent)

    def served(self, request: Request) -> None:
        """Look at a request as a strict server does: whole, and its prefix as it was."""
        self.broken += [f"request of {request.agent}: {fault}" for fault in strict(request.messages)]
        if self.bench.node(request.agent).ended:
            self.broken.append(f"{request.agent} sends a request after its end")
        self._booked(request)
        if self.journal.broken:
            return
        if aside(request):
            return
        prefixes = self.journal.prefixes[request.agent]
        newest = prefixes[-1]
        if (newest.model, newest.system, newest.tools) != (
            self.agent(request.agent).model,
            request.system,
            request.tools,
        ):
            self.broken.append(f"{request.agent}: model, system or tools are not those of its prefix")
        number, before = self.prefixes.get(request.agent, (0, ()))
        self.prefixes[request.agent] = (len(prefixes), request.messages)
        refused = tuple(without_refused(before))  # a turn that the model refused is left out of what follows
        if number == len(prefixes) and request.messages[: len(before)] not in (before, refused):
            self.broken.append(f"{request.agent}: its history was changed within a prefix")

    def _booked(self, request: Request) -> None:
        """What is spent and what is reserved for the requests in flight stays within every limit above them."""
        agent = self.bench.agents[request.agent]
        prompt = prompt_tokens(agent)
        fresh = (
            estimate_request(request)
            if request.system == SYSTEM
            else prompt
            if agent.conversation.cache_missed
            else max(0, prompt - agent.conversation.sent)
        )
        usual = fresh + min(request.max_output, agent.budget.usual)  # where less is free, less is reserved
        self.in_flight[agent.path] = min(usual, agent.budget.tokens.reserved)
        for node in agent.budget.levels:
            booked = node.tokens.spent + sum(n for p, n in self.in_flight.items() if is_under(p, node.path))
            excess = sum(n for p, n in self.misjudged.items() if is_under(p, node.path))
            if node.tokens.limit is not None and booked > node.tokens.limit + excess + 1:
                self.broken.append(f"{node.path} has {node.tokens.limit} tokens, and {booked} are booked")

    def spent(self, request: Request, usage: Usage) -> None:
        """Note by how much the reservation of a request was too small: that much may be overspent."""
        agent, reserved = self.bench.agents[request.agent], self.in_flight[request.agent]
        sent = 0 if request.system == SYSTEM else agent.conversation.sent
        counted = usage.billed if usage.cached else max(0, usage.input - sent) + usage.output
        self.misjudged[agent.path] += max(0, counted - reserved)
        self.largest[agent.path] = max(self.largest.get(agent.path, 0), counted)

    async def sampler(self) -> None:
        """Looks at the agents from time to time."""
        rounds = idle = told = 0
        while True:
            await asyncio.sleep(0.3 + self.rng.random() * 2 if rounds < 200 else 500.0)
            rounds += 1
            living = self.bench.tree.running("a")
            for node in living:
                await self._sample(node)
            queued = [n.path for n in living if n.agent.slot.status == "queued" and not n.ending]
            before, told = told, len(self.journal.envelopes)  # what is still being written down is work, too
            idle = idle + 1 if queued and told == before and not [p for p in self.working if p != "a"] else 0
            if idle > 5:
                self.broken.append(f"{queued} are queued, and nobody works")
                idle = 0

    async def _sample(self, node: AgentRun) -> None:
        presence, tree = node.agent.slot, self.bench.tree
        for _ in range(4):
            if (
                node.soft
                or node.why
                or node.ending
                or (node.task is not None and node.task.cancelling())
                or presence.status != "waiting_user"
                or node.path in self.bench.approvals.pending.values()
            ):
                break
            await asyncio.sleep(0.05 + 2 * self.journal.latency)
        else:
            self.broken.append(f"{node.path} waits for a person, but no question of it stands open")
        if presence._held and 0 < presence._parallel <= len(presence._waits):
            self.broken.append(f"{node.path} holds a place while all that it does waits")
        waits = presence.status in ("waiting_user", "waiting_rate", "waiting_budget", "queued")
        if waits and presence.clock.running and len(tree.running(node.path)) == 1:
            self.broken.append(f"{node.path} is {presence.status} and its clock runs")

    # ---- the whole ---------------------------------------------------------------------

    async def play(self) -> None:
        """Run the session to its end."""
        rng = self.rng
        watchers = [asyncio.create_task(w()) for w in (self.person, self.slow_reader, self.sampler)]
        for number in range(rng.choice([1, 1, 1, 2, 3])):
            self.reached["another run"] += number > 0
            self.spawn(self.troubles())
            await (self.conversation if rng.random() < 0.6 else self.patience)(f"go {self.since}-{number}")
        await self.quiet()
        while left := [task for task in self.tasks if not task.done()]:
            await asyncio.wait(left, timeout=60.0)
            await self.quiet()
        self._asleep()
        await self.session.close()
        await watchers[1]
        for watcher in watchers:
            watcher.cancel()
        await asyncio.wait(watchers)
        for task in (*self.tasks, *watchers):
            if not task.cancelled() and (error := task.exception()):
                raise error

    async def conversation(self, text: str) -> None:
        """What `friday ask` does: a prompt, and all that it leads to."""
        if not self.idle():
            await self.patience(text)
            return
        self.prompts.append(text)
        task = asyncio.create_task(self.session.prompt(text))
        await asyncio.wait([task], timeout=HORIZON_S)
        await self.quiet()
        await task

    async def patience(self, text: str) -> None:
        """What a person at a screen does: a prompt, and perhaps the next one while children still work behind it."""
        self.prompts.append(text)
        try:
            if self.idle():
                self.session.start(text)
            else:
                await self.session.send("a", text)
        except UsageError:
            self.reached["sent too late"] += 1
        if self.rng.random() < 0.3:
            await self.quiet()
        else:
            await asyncio.sleep(self.rng.random() * 30)

    def idle(self) -> bool:
        node = self.bench.tree._nodes.get("a")
        return node is None or node.ended

    async def quiet(self) -> None:
        """Returns when no agent works; an agent that waits for a person who does not answer is stopped."""
        tree = self.bench.tree
        until = asyncio.get_running_loop().time() + HORIZON_S
        while living := [n.task for n in (*tree.running("a"), *tree.in_background()) if n.task]:
            left = until - asyncio.get_running_loop().time()
            if left > 0:
                await asyncio.wait(living, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                continue
            if not self.bench.approvals.pending:
                self.broken.append("nothing happens any more: a deadlock")
            self.reached["ended with open questions"] += 1
            await self.stop("a", "abort")

    def _asleep(self) -> None:
        """Nobody works: then the root has nothing to answer, unless it was stopped."""
        node = self.bench.tree._nodes.get("a")
        if node is not None and node.outcome.status != "cancelled" and self.bench.root.inbox.needs_turn:
            self.broken.append("news lie in the inbox of an idle root, and nobody wakes it")


class _Nothing:
    """A part of an opened session that has nothing to do here."""

    in_memory = False
    write_hook = WriteHook(lambda path: None)

    async def sync(self) -> None: ...

    async def close(self) -> None: ...

    def release(self) -> None: ...
