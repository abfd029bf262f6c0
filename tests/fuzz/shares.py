"""A random tree of agents that share one budget, on a virtual clock; says what was unfair or wrong in it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

import pytest

from friday_cli.core.agent.agent import Policy
from friday_cli.core.agent.next_request import prompt_tokens
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.events import StatusChanged
from friday_cli.core.protocol.messages import Message, Text, ToolCall, Usage
from friday_cli.core.protocol.provider import Chunk, ReplyDone, Request
from tests.engine_fixture import Bench, Model, Profile, batch, call, make
from tests.virtual import run

WORK_S = 20.0
"""More than any agent of a tree works, and less than it may wait for others."""


HORIZON_S = 100_000.0
"""A tree that is not over by then waits for itself."""


Player = Callable[[int], tuple[list[str], Counter[str]]]
"""Plays the tree of a seed: what was wrong with it, and what it reached."""


def check_trees(play: Player, trees: int, least: Mapping[str, int]) -> None:
    """Play the trees of the first seeds. Fail for one with a fault, and if all together reached less than `least`."""
    reached: Counter[str] = Counter()
    for seed in range(trees):
        faults, happened = play(seed)
        if faults:
            pytest.fail(f"seed {seed}\n" + "\n".join(faults[:10]), pytrace=False)
        reached += happened
    missed = {name: (reached[name], number) for name, number in least.items() if reached[name] < number}
    assert not missed, f"reached too little (number, least): {missed}"


@dataclass
class PlannedAgent:
    """What an agent will do: replies of so many tokens, each after so many seconds, and sub-agents after the first."""

    replies: list[int]
    seconds: list[float]
    children: list[PlannedAgent] = field(default_factory=list)

    @property
    def agents(self) -> int:
        return 1 + sum(child.agents for child in self.children)


def part(rng: random.Random, depth: int = 0) -> PlannedAgent:
    turns = 2 if depth == 0 else rng.randint(1, 3)
    size = rng.choice([100, 1000, 4000, 4000, 9000])
    replies = [rng.randint(size // 3, size) for _ in range(turns)]
    below = rng.randint(2, 4) if depth == 0 else rng.choice([0, 0, 0, 2]) if depth == 1 and turns > 1 else 0
    children = [part(rng, depth + 1) for _ in range(below)]
    return PlannedAgent(replies, [rng.choice([0.5, 2.0, WORK_S / 4]) for _ in replies], children)


class TreeModel(Model):
    """A model that plays a tree of `Part`s, and what it found wrong."""

    def __init__(self, rng: random.Random, *, max_output: int = 32_000, price: float | None = None) -> None:
        super().__init__({}, max_output=max_output, price=price)
        self.top = part(rng)
        self.faults: list[str] = []
        self.tasks: dict[str, PlannedAgent] = {}

    def part_of(self, path: str) -> PlannedAgent:
        """What the agent at `path` does. Its parent must have been asked for before."""
        parent, _, number = path.rpartition(".")
        self.tasks[path] = self.tasks[parent].children[int(number) - 1] if parent else self.top
        return self.tasks[path]

    def calls_of(self, mine: PlannedAgent, path: str, turn: int) -> tuple[ToolCall, ...]:
        """The calls of a turn: all sub-agents in the first, then a tool until the last."""
        if turn + 1 >= len(mine.replies):
            return ()
        if turn == 0 and mine.children:
            names = ["lead" if child.children else "worker" for child in mine.children]
            return (batch(*[{"profile": name, "task": f"{path} {n}"} for n, name in enumerate(names)]),)
        return (call("look", text=f"{path} {turn}"),)


class TruncatingModel(TreeModel):
    """A model with replies of given sizes. It cuts what is longer than the request allows, as a service does."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng, max_output=rng.choice([8000, 32_000]), price=rng.choice([None, 1e-6]))
        self.bench: Bench
        self.largest = 0

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        path, agent = request.agent, self.bench.agents[request.agent]
        mine = self.part_of(path)
        turn = self._asked[path] = self._asked.get(path, -1) + 1
        wraps_up = request.text_only
        whole = 200 if wraps_up or turn >= len(mine.replies) else mine.replies[turn]
        fresh = max(0, prompt_tokens(agent) - agent.conversation.sent)
        if not wraps_up:
            margin = self.bench.services.input_counts.margin(agent.conversation.provider.rate_limit_key, self.model)
            self._look(request, whole, round(margin * fresh))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if not wraps_up:
            self.open.add(path)
        try:
            await asyncio.sleep(1.0 if wraps_up or turn >= len(mine.seconds) else mine.seconds[turn])
        finally:
            self.at_once -= 1
            self.open.discard(path)
        output = min(whole, request.max_output)
        usage = Usage(input=fresh + agent.conversation.sent, output=output, cached=False)
        self.largest = max(self.largest, fresh + output)
        calls = self.calls_of(mine, path, turn) if not wraps_up and output == whole else ()
        stop = "max_tokens" if output < whole else "tool_use" if calls else "end_turn"
        yield ReplyDone(Message("assistant", (Text(f"{path} {turn}"), *calls)), usage, stop)

    def _look(self, request: Request, whole: int, fresh: int) -> None:
        """A request must not be cut short for the sake of what others may not even use."""
        budget = self.bench.agents[request.agent].budget
        cap, usual = request.max_output, min(budget.usual, self.max_output)
        for node in budget.levels:
            left = node.tokens.left - fresh
            others = [path for path in self.open if is_under(path, node.path)]
            if cap < whole <= min(left, self.max_output) and all(n.tokens.left - fresh >= whole for n in budget.levels):
                self.faults.append(f"{request.agent} may say {cap} of {whole} tokens, and {node.path} has {left}")
            if cap < usual and left < usual and others:
                self.faults.append(
                    f"{request.agent} may say {cap} tokens while {others} have reserved some of {node.path}"
                )


def play(seed: int) -> tuple[list[str], Counter[str]]:
    """What was wrong with the tree of a seed, and what it reached."""
    reached: Counter[str] = Counter()
    return run(_play(random.Random(seed), reached)), reached


async def _play(rng: random.Random, reached: Counter[str]) -> list[str]:
    model = TruncatingModel(rng)
    need = sum(_need(p) for p in _all(model.top))
    limit = int(need * rng.choice([0.2, 0.4, 0.6, 1.0])) + rng.choice([1000, 8000, 40_000])
    profiles = {
        "lead": Profile(offers=("worker",), tokens=200_000, time_s=0),
        "worker": Profile(tokens=200_000, time_s=WORK_S),
    }
    places = rng.choice([2, 5, 5, 10])
    bench = Bench(
        model, [make("look")], profiles, Profile(tokens=limit, time_s=0, turns=99), Policy(max_concurrent=places)
    )
    model.bench = bench
    try:
        async with asyncio.timeout(HORIZON_S):
            await bench.prompt()
    except TimeoutError:
        await bench.tree.close()
        return ["a deadlock"]
    ends = {path: bench.finished(path) for path in bench.agents}
    for end in ends.values():
        reached[f"{end.status}, {end.stop_reason}"] += 1
    waited = {
        e.agent for e in bench.envelopes if isinstance(e.event, StatusChanged) and e.event.status == "waiting_budget"
    }
    reached["waited for tokens"] += len(waited)
    faults = model.faults
    faults += [f"{path} timed out" for path, end in ends.items() if end.status == "timeout"]
    for path, agent in bench.agents.items():
        pool = agent.budget.tokens
        if pool.spent - (pool.limit or 0) > model.most_at_once * model.largest:
            faults.append(f"{path} spent {pool.spent} of {pool.limit}")
        if abs(pool.reserved) + abs(pool.holdback) > 1e-6:
            faults.append(f"{path}: {pool} at the end")
    fits = need + 4000 * model.top.agents <= limit
    reached["all fits"] += fits
    if fits and {end.stop_reason for end in ends.values()} != {"done"}:
        faults.append(f"{need} tokens are needed of {limit}, but {dict(reached)}")
    return faults


def _all(top: PlannedAgent) -> list[PlannedAgent]:
    return [top, *(p for child in top.children for p in _all(child))]


def _need(one: PlannedAgent) -> int:
    """Tokens that an agent needs at most: its replies, which it reads again, its prompt, and the reports of its children."""
    return sum(one.replies) + sum(one.replies[:-1]) + 600 + 200 * len(one.replies) + 400 * len(one.children)
