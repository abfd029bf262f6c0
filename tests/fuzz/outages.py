"""A random tree of agents whose network is away now and then, on a virtual clock; says what was lost or paid twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator

from friday_cli.core.agent.agent import Policy
from friday_cli.core.limits.rate_limit import OUTAGE_MOST_S
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import AttemptFailed, TurnFinished
from friday_cli.core.protocol.messages import Message, Text, Usage
from friday_cli.core.protocol.provider import Chunk, ReplyDone, Request, TextChunk, UsageChunk
from tests.engine_fixture import Bench, Profile, make
from tests.fuzz.shares import TreeModel
from tests.virtual import run

LIMIT_S = 60.0
"""Active seconds of an agent: more than it works, less than the network is away."""
HORIZON_S = 100_000.0
INPUT, PIECES = 100, 4


class Wire(TreeModel):
    """A service behind a network that is away in `outages` (start, end). A refused connection takes up to two seconds."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.rng = rng
        self.outages: list[tuple[float, float]] = []
        at = 0.0
        for _ in range(rng.randint(1, 4)):
            begins = at + rng.choice([0.0, rng.uniform(0, 3), rng.uniform(0, 20)]) + (OUTAGE_MOST_S if at else 0.0)
            at = begins + rng.uniform(1, 120)
            self.outages.append((begins, at))
        self.turns: Counter[str] = Counter()
        self.paid = 0
        self.cut = 0
        self.trying = 0
        self.tries: Counter[float] = Counter()
        """Requests that began while the network was away, by the outage."""

    def outage(self, begins: float, ends: float) -> tuple[float, float] | None:
        """The first outage between two times."""
        return next((o for o in self.outages if o[0] <= ends and begins < o[1]), None)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        path, clock = request.agent, asyncio.get_running_loop().time
        mine = self.part_of(path)
        turn = self.turns[path]
        if away := self.outage(clock(), clock()):
            self.tries[away[0]] += 1
            self.trying += 1
            if self.trying > 1:
                self.faults.append(f"{self.trying} requests at once while the network is away")
            await asyncio.sleep(self.rng.choice([0.0, 0.1, 2.0]))
            self.trying -= 1
            raise ProviderError("network", "Cannot reach the service.")
        yield UsageChunk(Usage(input=INPUT))
        whole = mine.replies[turn] if turn < len(mine.replies) else 200
        pause = (mine.seconds[turn] if turn < len(mine.seconds) else 1.0) / PIECES
        for piece in range(PIECES):
            if away := self.outage(clock(), clock() + pause):
                await asyncio.sleep(max(0.0, away[0] - clock()))
                self.cut += 1
                usage = Usage(input=INPUT, output=piece * (whole // PIECES))
                self.paid += usage.billed
                raise ProviderError("network", "The connection was lost.", usage=usage)
            await asyncio.sleep(pause)
            yield TextChunk("word " * (whole // PIECES // 2))
        self.turns[path] += 1
        self.paid += INPUT + whole
        calls = self.calls_of(mine, path, turn)
        parts = (Text(f"{path} {turn}"), *calls)
        yield ReplyDone(
            Message("assistant", parts), Usage(input=INPUT, output=whole), "tool_use" if calls else "end_turn"
        )


def play(seed: int) -> tuple[list[str], Counter[str]]:
    """What was wrong with the tree of a seed, and what it reached."""
    reached: Counter[str] = Counter()
    return run(_play(random.Random(seed), reached)), reached


async def _play(rng: random.Random, reached: Counter[str]) -> list[str]:
    model = Wire(rng)
    profiles = {
        "lead": Profile(offers=("worker",), tokens=900_000, time_s=LIMIT_S),
        "worker": Profile(tokens=900_000, time_s=LIMIT_S),
    }
    bench = Bench(
        model,
        [make("look")],
        profiles,
        Profile(tokens=0, time_s=5 * LIMIT_S, turns=99),
        Policy(max_concurrent=rng.choice([2, 5, 10])),
        seed=rng.randrange(1000),
    )
    try:
        async with asyncio.timeout(HORIZON_S):
            await bench.prompt()
    except TimeoutError:
        await bench.tree.close()
        return ["a deadlock"]
    faults = model.faults
    for path in bench.agents:
        end = bench.finished(path)
        if (end.status, end.stop_reason) != ("completed", "done"):
            faults.append(f"{path}: {end.status}, {end.stop_reason}: {end.error}")
    turns = len(bench.of(TurnFinished))
    if sum(model.turns.values()) != turns:
        faults.append(f"{sum(model.turns.values())} whole replies for {turns} turns")
    if (charged := bench.finished().tree_usage.billed) != model.paid:
        faults.append(f"{charged} tokens charged, {model.paid} used")
    for begins, ends in model.outages:
        most = 5 + (ends - begins) / 7.5
        if model.tries[begins] > most:
            faults.append(f"{model.tries[begins]} tries in an outage of {ends - begins:.0f} s")
    reached["refused"] += sum(model.tries.values())
    reached["cut"] += model.cut
    reached["told"] += len(bench.of(AttemptFailed))
    reached["agents"] += len(bench.agents)
    return faults
