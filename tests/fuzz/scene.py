"""Random scenes for the engine: one seed is one session with its models, tools, people, troubles and journal."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from contextlib import contextmanager
from typing import Any

from friday_cli.core.agent import Policy
from friday_cli.core.compaction import PROMPT
from friday_cli.core.delegation import Node
from friday_cli.core.errors import ToolError
from friday_cli.core.events import Envelope, PermissionAsked, Prefix, QuestionAsked, is_under
from friday_cli.core.messages import Message, Usage
from friday_cli.core.model import prompt_tokens
from friday_cli.core.permission import MODES, Answer, Rule
from friday_cli.core.presence import Presence
from friday_cli.core.provider import Request
from friday_cli.core.tool import ToolContext
from tests.engine import Arguments, Bench, Profile, make, task_result
from tests.strict import strict

from .whims import Journal, Machine, Whim

HORIZON_S = 50_000.0
"""A run that is not over by then waits for itself."""


class Scene:
    """One random session. `broken` collects what must not be; `reached` counts what happened."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.seed = seed
        self.broken: list[str] = []
        self.reached: Counter[str] = Counter()
        self.working: Counter[str] = Counter()
        self.hurried: set[str] = set()
        self.changing: Counter[str] = Counter()
        self.cleaning = 0
        self.honest = rng.random() < 0.6
        self.caches = rng.random() < 0.5
        self.price = rng.choice([None, 1e-6])
        self.trouble_rate = rng.choice([0.0, 0.0, 0.04, 0.1, 0.5])
        self.places = rng.choice([1, 1, 2, 3, 5])
        self.tasks: list[asyncio.Task[Any]] = []
        self.stops: list[tuple[str, str, list[Node]]] = []
        self.prefixes: dict[str, tuple[int, tuple[Message, ...]]] = {}
        self.misjudged: dict[str, float] = defaultdict(float)
        self.largest: dict[str, float] = {}
        self.in_flight: dict[str, float] = {}
        self.cut: list[tuple[str, str]] = []
        self.journal = Journal(rng)
        self.read: list[Envelope] = []
        window = rng.choice([200_000, 200_000, 2600])
        self.model = Whim(self, model="first", window=window)
        self.spare = Whim(self, model="spare", window=window) if rng.random() < 0.3 else None
        self.bench = self._bench()

    def _bench(self) -> Bench:
        rng = self.rng
        policy = Policy(
            max_concurrent=self.places, max_depth=rng.choice([1, 2, 3, 3, 3, 3]), max_agents=rng.choice([4, 12, 20])
        )
        deep = Profile(
            offers=("one", "two"), tokens=rng.choice([1200, 8000, 50_000, 50_000]), turns=rng.randint(2, 5),
            time_s=rng.choice([0.0, 3.0, 30.0, 300.0]),
        )  # fmt: skip
        flat = Profile(
            tools=rng.sample(["look", "change", "shell", "boom", "ask"], 3), rules=self._rules(), turns=3, loose=True
        )
        root_tokens = rng.choice([0, 0, 4000, 20_000, 100_000])
        me = Profile(tokens=root_tokens, turns=rng.randint(2, 6), time_s=rng.choice([0.0, 0.0, 15.0]))
        if self.price is not None and rng.random() < 0.3:
            me.cost = rng.choice([0.003, 0.05])
        bench = Bench(
            self.model, self._tools(), {"one": deep, "two": flat}, me, policy, rng.choice(MODES), self._rules(),
            rng.random() < 0.9, self.journal, self.spare, self.seed,
        )  # fmt: skip
        bench.workspace = bench.world.workspace = Machine(self)
        bench.root.specs += (make("hidden", self._hidden).spec,)
        return bench

    def _rules(self) -> list[Rule]:
        rng = self.rng
        decisions: list[Any] = ["allow", "allow", "ask", "deny"]
        return [Rule(name, "", rng.choice(decisions)) for name in ("look", "change", "shell") if rng.random() < 0.4]

    # ---- tools -------------------------------------------------------------------

    def _tools(self) -> list[Any]:
        return [
            make("look", self._look), make("change", self._change, effect="write"), make("shell", self._look, effect="run"),
            make("boom", self._boom), make("ask", self._ask, effect="own"), make("own_cancel", self._own_cancel),
            task_result(),
        ]  # fmt: skip

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
        """A tool whose own helper was cancelled: that is its failure, nobody stopped the agent."""
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
    def works(self, path: str, *, hurried: bool = False) -> Any:
        """Something of an agent's runs. Who wraps up need not wait for a place."""
        self.working[path] += 1
        if hurried:
            self.hurried.add(path)
        children = [p for p in self.working if p != "a" and p not in self.hurried]
        if len(children) > self.places:
            self.broken.append(f"{children} work at once in {self.places} places")
        try:
            yield
        finally:
            self.working[path] -= 1
            self.hurried.discard(path)
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

    def served(self, request: Request) -> None:
        """Look at a request as a strict server does: whole, and its prefix as it was."""
        self.broken += [f"request of {request.agent}: {fault}" for fault in strict(request.messages)]
        if self.bench.node(request.agent).ended:
            self.broken.append(f"{request.agent} sends a request after its end")
        self._booked(request)
        if self.journal.broken:
            return
        prefixes = [e.event for e in self.journal.envelopes if e.agent == request.agent and isinstance(e.event, Prefix)]
        newest = prefixes[-1]
        if (newest.system, newest.tools) != (request.system, request.tools):
            self.broken.append(f"{request.agent}: system or tools are not those of its prefix")
        if request.messages[-1].text.endswith(PROMPT):
            return  # what asks for a summary is no part of the history
        number, before = self.prefixes.get(request.agent, (0, ()))
        self.prefixes[request.agent] = (len(prefixes), request.messages)
        if number == len(prefixes) and request.messages[: len(before)] != before:
            self.broken.append(f"{request.agent}: its history was changed within a prefix")

    def _booked(self, request: Request) -> None:
        """What is spent and what the requests in flight may spend stays within every limit above them."""
        agent = self.bench.agents[request.agent]
        prompt = prompt_tokens(agent)
        self.in_flight[agent.path] = (prompt if agent.cold else max(0, prompt - agent.sent)) + request.max_output
        for node in agent.budget.up():
            booked = node.tokens.spent + sum(n for p, n in self.in_flight.items() if is_under(p, node.path))
            excess = sum(n for p, n in self.misjudged.items() if is_under(p, node.path))
            if node.tokens.limit is not None and booked > node.tokens.limit + excess + 1:
                self.broken.append(f"{node.path} has {node.tokens.limit} tokens, and {booked} are booked")

    def spent(self, request: Request, usage: Usage) -> None:
        """Note by how much the reservation of a request was too small: that much may be overspent."""
        agent, reserved = self.bench.agents[request.agent], self.in_flight[request.agent]
        counted = usage.billed if usage.cached else max(0, usage.input - agent.sent) + usage.output
        self.misjudged[agent.path] += max(0, counted - reserved)
        self.largest[agent.path] = max(self.largest.get(agent.path, 0), counted)

    # ---- people and troubles ------------------------------------------------------------

    def spawn(self, work: Any) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def person(self) -> None:
        """Answers what is asked: soon, late, twice, wrongly, or never."""
        async for envelope in self.bench.log.events():
            event = envelope.event
            if isinstance(event, (PermissionAsked, QuestionAsked)) and self.rng.random() < 0.9:
                self.spawn(self._answer(event))

    async def _answer(self, event: PermissionAsked | QuestionAsked) -> None:
        rng, desk = self.rng, self.bench.desk
        await asyncio.sleep(rng.choice([0.0, 1.0, 40.0]) * rng.random())
        scope: Any = rng.choice(["once", "session"])
        decision: Any = rng.choice(["allow", "allow", "deny"])
        answer: Answer | str = Answer(decision, scope) if isinstance(event, PermissionAsked) else "this"
        if rng.random() < 0.1 and await desk.answer(event.id, "hm" if isinstance(answer, Answer) else Answer("allow")):
            self.broken.append("an answer of the wrong kind was taken")
        taken = await desk.answer(event.id, answer)
        again = await desk.answer(event.id, answer)
        if again:
            self.broken.append("a question was answered twice")
        self.reached["answered" if taken else "answered too late"] += 1

    async def slow_reader(self) -> None:
        """Reads all that is published, sometimes slowly; what it is shown must be kept already."""
        pause = self.rng.choice([0.0, 0.0, 0.05])
        async for envelope in self.bench.log.events():
            if envelope.seq is not None:
                self.read.append(envelope)
                if not self.journal.broken and envelope.seq > len(self.journal.envelopes):
                    self.broken.append(f"event {envelope.seq} was shown before it was kept")
            if pause and self.rng.random() < 0.3:
                await asyncio.sleep(pause)

    async def troubles(self) -> None:
        rng, tree = self.rng, self.bench.tree
        for _ in range(rng.choice([0, 0, 1, 2, 4])):
            await asyncio.sleep(rng.choice([1.0, 10.0, 30.0, 100.0]) * rng.random())
            living = tree.living("a")
            if not living:
                continue
            path = rng.choice(living).path
            dice = rng.random()
            if dice < 0.3:
                if self.bench.node(path).ending:
                    continue
                await self.bench.agents[path].inbox.put(f"do it faster {rng.random()}", "person")
                self.reached["steered"] += 1
                continue
            if dice > 0.95:
                self.cancel_from_outside()
                continue
            levels: list[Any] = [rng.choice(["cancel", "abort"])]
            if rng.random() < 0.3:
                levels.append(rng.choice(["cancel", "abort"]))
                self.reached["two stops at once"] += 1
            for level in levels:
                self.spawn(self.stop(path, level))

    def cancel_from_outside(self) -> None:
        """What the end of an event loop does to the root."""
        root = self.bench.node("a")
        if root.task is not None and root.begun and not root.task.cancelling():
            self.reached["cancelled from outside"] += 1
            self.stops.append(("a", "abort", []))
            root.task.cancel()

    async def stop(self, path: str, level: Any) -> None:
        """Stop a subtree; when that returns nothing of it may be left."""
        tree = self.bench.tree
        nodes = tree.living(path)
        self.stops.append((path, level, nodes))
        at = asyncio.get_running_loop().time()
        await tree.stop(path, level=level, why="aborted" if level == "abort" else "cancelled")
        self.reached[f"stopped: {level}"] += 1
        if took := [n.path for n in nodes if not n.ended]:
            self.broken.append(f"{took} live after {level} of {path}")
        if any(self.bench.node(n.path) is not n for n in nodes):
            return  # a new run has begun meanwhile
        for left in (self.model.open, self.working):
            if under := [p for p in left if is_under(p, path)]:
                self.broken.append(f"{under} work after {level} of {path}")
        if level == "abort" and asyncio.get_running_loop().time() - at > 2.0 + 20 * self.journal.latency:
            self.broken.append(f"abort of {path} took {asyncio.get_running_loop().time() - at:.1f} s")

    async def sampler(self) -> None:
        """Looks at the agents from time to time."""
        rounds = idle = 0
        while True:
            await asyncio.sleep(0.3 + self.rng.random() * 2 if rounds < 200 else 500.0)
            rounds += 1
            living = self.bench.tree.living("a")
            for node in living:
                await self._sample(node)
            queued = [n.path for n in living if n.agent.presence.status == "queued" and not n.ending]
            idle = idle + 1 if queued and not [p for p in self.working if p != "a"] else 0
            if idle > 5:
                self.broken.append(f"{queued} are queued, and nobody works")
                idle = 0

    async def _sample(self, node: Node) -> None:
        presence, tree = node.agent.presence, self.bench.tree
        for _ in range(4):
            if (
                node.soft
                or node.why
                or node.ending
                or presence.status != "waiting_user"
                or node.path in self.bench.desk.pending.values()
            ):
                break
            await asyncio.sleep(0.05 + 2 * self.journal.latency)
        else:
            self.broken.append(f"{node.path} waits for a person, but no question of it stands open")
        waits = presence.status in ("waiting_user", "waiting_rate", "queued")
        if waits and presence.clock.running and len(tree.living(node.path)) == 1:
            self.broken.append(f"{node.path} is {presence.status} and its clock runs")

    # ---- the whole ---------------------------------------------------------------------

    async def play(self) -> None:
        """Run the session to its end."""
        bench, rng = self.bench, self.rng
        watchers = [asyncio.create_task(w()) for w in (self.person, self.slow_reader, self.sampler)]
        for number in range(rng.choice([1, 1, 1, 2, 3])):
            if number:
                bench.root.presence = Presence("a", log=bench.log, slots=None)  # as a session does for each run
                self.reached["another run"] += 1
            node = bench.begin(f"go {number}")
            self.spawn(self.troubles())
            assert node.task
            await asyncio.wait([node.task], timeout=HORIZON_S)
            if not node.ended:
                if not bench.desk.pending:
                    self.broken.append("nothing happens any more: a deadlock")
                self.reached["ended with open questions"] += 1
                await self.stop("a", "abort")
        await asyncio.wait([*self.tasks]) if self.tasks else None
        await bench.tree.stop("a")
        await bench.log.close()
        await watchers[1]
        for watcher in watchers:
            watcher.cancel()
        await asyncio.wait(watchers)
        for task in (*self.tasks, *watchers):
            if not task.cancelled() and (error := task.exception()):
                raise error
