"""The people of a scene: they prompt, answer, send, detach, continue and stop, at random moments."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.agent_path import is_under, parent_of
from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.core.protocol.events import Envelope, PermissionAsked, QuestionAsked
from friday_cli.core.protocol.limits import Limits
from friday_cli.core.subagents.node import Phase, SubagentTask
from friday_cli.session.session import Session
from tests.engine_fixture import Bench
from tests.fuzz.random_actions import Journal, RandomModel


class RandomUser:
    """Everybody who is no agent."""

    if TYPE_CHECKING:
        rng: random.Random
        bench: Bench
        session: Session
        journal: Journal
        model: RandomModel
        broken: list[str]
        reached: Counter[str]
        working: Counter[str]
        read: list[Envelope]
        tasks: list[asyncio.Task[Any]]
        stops: list[tuple[str, str, list[tuple[str, int]]]]
        resumed: list[tuple[str, str]]
        given: set[str]

    def spawn(self, work: Any) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def person(self) -> None:
        """Answers what is asked: soon, late, twice, wrongly, or never."""
        async for envelope in self.bench.log.events():
            event = envelope.event
            if isinstance(event, (PermissionAsked, QuestionAsked)) and self.rng.random() < 0.9:
                self.spawn(self._answer(event))

    async def _answer(self, event: PermissionAsked | QuestionAsked) -> None:
        rng, approvals = self.rng, self.bench.approvals
        await asyncio.sleep(rng.choice([0.0, 1.0, 40.0]) * rng.random())
        scope: Any = rng.choice(["once", "session"])
        decision: Any = rng.choice(["allow", "allow", "deny"])
        words = rng.choice(event.choices) if isinstance(event, QuestionAsked) and event.choices else "this"
        answer: ApprovalAnswer | str = ApprovalAnswer(decision, scope) if isinstance(event, PermissionAsked) else words
        if rng.random() < 0.1 and await approvals.answer(
            event.id, "hm" if isinstance(answer, ApprovalAnswer) else ApprovalAnswer("allow")
        ):
            self.broken.append("an answer of the wrong kind was taken")
        taken = await approvals.answer(event.id, answer)
        again = await approvals.answer(event.id, answer)
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
        for _ in range(rng.choice([0, 0, 1, 2, 4, 6])):
            await asyncio.sleep(rng.choice([1.0, 10.0, 30.0, 100.0]) * rng.random())
            living, dice = [n.path for n in tree.running("a")], rng.random()
            ended = [k.path for k in tree.below("a") if k.path not in living]
            if dice < 0.25 and ended:
                self.spawn(self.go_on(rng.choice(ended)))
            elif living and dice < 0.45:
                await self._say(rng.choice(living))
            elif living and dice < 0.6:
                self.reached["detached"] += await self.session.detach(rng.choice(living))
            elif living and dice > 0.96:
                self.cancel_from_outside()
            elif living:
                self._stops(rng.choice(living))

    def _stops(self, path: str) -> None:
        self.reached["stopped with somebody behind it"] += any(
            is_under(n.path, path) for n in self.bench.tree.in_background()
        )
        levels: list[Any] = [self.rng.choice(["cancel", "abort"])]
        if self.rng.random() < 0.3:
            levels.append(self.rng.choice(["cancel", "abort"]))
            self.reached["two stops at once"] += 1
        for level in levels:
            self.spawn(self.stop(path, level))

    async def _say(self, path: str) -> None:
        try:
            await self.session.send(path, f"do it faster {self.rng.random()}")
            self.reached["steered"] += 1
        except UsageError:
            self.reached["steered too late"] += 1

    async def go_on(self, path: str) -> None:
        """Continue an ended agent, perhaps stopping it in the same moment or twice at once."""
        rng = self.rng
        text = f"carry on {rng.random()}"
        more = rng.choice([None, None, 700, 5000])
        known = self.bench.tree.known(path)
        assert known
        tasks = [
            asyncio.create_task(
                self.bench.tree.resumer.resume(path, SubagentTask(known.profile, text, limits=Limits(more)), by=None)
            )
        ]
        if rng.random() < 0.2:
            other = asyncio.create_task(
                self.bench.tree.resumer.resume(path, SubagentTask(known.profile, text + "!"), by=None)
            )
            tasks.append(other)
            self.resumed.append((path, text + "!"))
        self.resumed.append((path, text))
        self.given |= {text} if more else set()
        if rng.random() < 0.4:
            await asyncio.sleep(rng.choice([0.0, 0.0, 0.05, 0.2]))
            self._stops(rng.choice([path, parent_of(path), "a"]))
            self.reached["stopped while continued"] += 1
        for task in tasks:
            try:
                node = await task
                self.reached["continued by a person"] += 1
                assert node.task
                await asyncio.wait([node.task])
            except ToolError:
                self.reached["not continued"] += 1

    def cancel_from_outside(self) -> None:
        """What the end of an event loop does to the root."""
        root = self.bench.tree.runs.get("a")
        if root is not None and root.task is not None and root.phase > Phase.STARTED and not root.task.cancelling():
            self.reached["cancelled from outside"] += 1
            self.stops.append(("a", "abort", []))
            root.task.cancel()

    async def stop(self, path: str, level: Any) -> None:
        """Stop a subtree; when that returns nothing of it may be left."""
        tree = self.bench.tree
        nodes = tree.running(path)
        runs = {p: n for p, n in tree.runs.items() if is_under(p, path)}
        self.stops.append((path, level, [(n.path, n.agent.run) for n in nodes]))
        at = asyncio.get_running_loop().time()
        await tree.stop(path, level=level, why="aborted" if level == "abort" else "cancelled")
        self.reached[f"stopped: {level}"] += 1
        if took := [n.path for n in nodes if not n.ended]:
            self.broken.append(f"{took} live after {level} of {path}")
        if any(runs.get(p) is not n for p, n in tree.runs.items() if is_under(p, path)):
            return  # a new run has begun meanwhile
        for left in (self.model.open, self.working):
            if under := [p for p in left if is_under(p, path)]:
                self.broken.append(f"{under} work after {level} of {path}")
        if level == "abort" and asyncio.get_running_loop().time() - at > 2.0 + 20 * self.journal.latency:
            self.broken.append(f"abort of {path} took {asyncio.get_running_loop().time() - at:.1f} s")
