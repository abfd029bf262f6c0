"""What an agent may still spend: tokens and money as a tree, active time as a clock.

Every limit is charged from the leaf to the root and checked from the root to the leaf, so that the outermost limit
is the one that is named. Before a request its estimated input and largest output are reserved on every level;
parallel reservations never exceed what is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec

from ..protocol.messages import Usage

LimitName = Literal["iterations", "tokens", "cost", "time"]

WRAP_UP_TOKENS = 4000
"""At most so many tokens, and at most a tenth of a budget, are kept for the wrap-up turn."""
OUTPUT_FLOOR = 256
"""A request that could not be answered with this many tokens is not made."""
BEAT_S, LATE_S = 1.0, 2.0
"""How often a clock beats, and how late a beat means that the process was stopped and not only busy."""


class LimitReached(Exception):
    """A limit was hit: `limit` is which one, `whose` the path of the agent it belongs to."""

    def __init__(self, limit: LimitName, whose: str) -> None:
        super().__init__(f"the {limit} limit of {whose} has no room left for a request")
        self.limit: LimitName = limit
        self.whose = whose


class Pool(msgspec.Struct, eq=False):
    """One quantity of one agent: `limit` None means none. `kept` is set aside for wrap-ups at or below this level."""

    limit: float | None
    spent: float = 0
    reserved: float = 0
    kept: float = 0

    @property
    def left(self) -> float:
        """What ordinary requests may still use, running ones counted as not yet spent."""
        return float("inf") if self.limit is None else self.limit - self.spent - self.kept

    @property
    def free(self) -> float:
        return self.left - self.reserved


class Reservation(msgspec.Struct, eq=False):
    """What a request may use: `output` tokens at most. Give it back with `Budget.settle`."""

    tokens: float
    cost: float
    output: int


class Budget:
    """Tokens and US dollars of one agent and all below it."""

    def __init__(
        self, path: str, *, tokens: int | None = None, cost: float | None = None, parent: Budget | None = None
    ) -> None:
        self.path = path
        self.parent = parent
        self.tokens = Pool(tokens)
        self.cost = Pool(cost)
        self._freed: asyncio.Event = parent._freed if parent else asyncio.Event()
        self._kept = (0.0, 0.0)
        self._opened = False
        self.keep_reserve()

    def child(self, path: str, *, tokens: int | None, cost: float | None) -> Budget:
        """A budget below this one, clamped to what is left here. Raises LimitReached when nothing useful is."""
        self.check()
        left_tokens, left_cost = self.left("tokens"), self.left("cost")
        if left_tokens < 2 * OUTPUT_FLOOR:
            raise LimitReached("tokens", self._narrowest("tokens"))
        if left_tokens != float("inf"):
            tokens = int(min(left_tokens, tokens if tokens is not None else left_tokens))
        if left_cost != float("inf"):
            cost = min(left_cost, cost if cost is not None else left_cost)
        return Budget(path, tokens=tokens, cost=cost, parent=self)

    def up(self) -> Iterator[Budget]:
        """This budget and those above it, the root last."""
        node: Budget | None = self
        while node is not None:
            yield node
            node = node.parent

    def left(self, what: Literal["tokens", "cost"]) -> float:
        """What may still be spent here, by every level's limit; infinite without one."""
        return max(0.0, min(node._pool(what).left for node in self.up()))

    def room(self, price: Callable[[Usage], float | None]) -> float:
        """Tokens of new input that can be paid for without what is kept for wrap-ups; infinite without a limit."""
        tokens, cost = self.left("tokens"), self.left("cost")
        if cost == float("inf") or not (each := (price(Usage(input=1000)) or 0.0) / 1000):
            return tokens
        return min(tokens, cost / each)

    def check(self) -> None:
        """Raises LimitReached for the outermost budget that is used up."""
        for node in reversed(list(self.up())):
            if node.tokens.left <= 0:
                raise LimitReached("tokens", node.path)
            if node.cost.left <= 0:
                raise LimitReached("cost", node.path)

    async def reserve(
        self, prompt: int, want: int, *, price: Callable[[Usage], float | None], floor: int = OUTPUT_FLOOR
    ) -> Reservation:
        """Set aside `prompt` tokens of new input and up to `want` tokens of output on every level.

        Where a limit stands at most half of what is free is taken, so that parallel agents all find something.
        Waits while only the requests of others stand in the way; raises LimitReached where too little is left.
        """
        base = price(Usage(input=prompt)) or 0.0
        per_token = ((price(Usage(input=prompt, output=1000)) or base) - base) / 1000
        least_tokens, least_cost = prompt + floor, base + per_token * floor
        while True:
            mine_tokens, mine_cost = self._kept if self._opened else (0.0, 0.0)  # others may not use it
            for node in reversed(list(self.up())):
                if node.tokens.left + mine_tokens < least_tokens:
                    raise LimitReached("tokens", node.path)
                if node.cost.left + mine_cost < least_cost:
                    raise LimitReached("cost", node.path)
            tokens = min(node.tokens.free for node in self.up()) + mine_tokens
            cost = min(node.cost.free for node in self.up()) + mine_cost
            if tokens >= least_tokens and cost >= least_cost:
                break
            self._freed.clear()
            await self._freed.wait()
        output = want
        if tokens != float("inf"):
            output = min(output, max(floor, int(tokens - prompt) // 2))
        if cost != float("inf") and per_token > 0:
            output = min(output, max(floor, int((cost - base) / per_token) // 2))
        taken = Reservation(prompt + output, base + per_token * output, output)
        self._reserve(taken.tokens, taken.cost)
        return taken

    def settle(self, reservation: Reservation, tokens: int, cost: float | None) -> None:
        """Give back a reservation and charge what was really used, on every level."""
        self._reserve(-reservation.tokens, -reservation.cost)
        self.charge(tokens, cost)

    def charge(self, tokens: int, cost: float | None) -> None:
        """Count what was used here and above. An unknown cost cannot be counted."""
        for node in self.up():
            node.tokens.spent += max(0, tokens)
            node.cost.spent += max(0.0, cost or 0.0)
        self._freed.set()

    def keep_reserve(self) -> None:
        """Set aside, for the wrap-up of the run that begins, a tenth of the limit as far as it is left."""
        if self._kept == (0.0, 0.0):
            tokens, cost = self.tokens.limit or 0.0, self.cost.limit or 0.0
            self._keep(min(WRAP_UP_TOKENS, tokens // 10, self.left("tokens")), min(cost / 10, self.left("cost")))

    def open_reserve(self) -> None:
        """Let this agent, and nobody else, use what was kept for its wrap-up."""
        self._opened = True
        self._freed.set()

    def close_reserve(self) -> None:
        """The run is over: what was kept for its wrap-up is anybody's."""
        tokens, cost = self._kept
        self._opened = False
        self._keep(-tokens, -cost)
        self._freed.set()

    def _keep(self, tokens: float, cost: float) -> None:
        self._kept = (self._kept[0] + tokens, self._kept[1] + cost)
        for node in self.up():
            node.tokens.kept += tokens
            node.cost.kept += cost

    def _reserve(self, tokens: float, cost: float) -> None:
        for node in self.up():
            node.tokens.reserved += tokens
            node.cost.reserved += cost
        self._freed.set()

    def _pool(self, what: Literal["tokens", "cost"]) -> Pool:
        return self.tokens if what == "tokens" else self.cost

    def _narrowest(self, what: Literal["tokens", "cost"]) -> str:
        return min(reversed(list(self.up())), key=lambda node: node._pool(what).left).path


class Clock:
    """Active seconds of one run. It runs while there is a reason to; a clock that waits for others follows theirs.

    While it runs it beats. A beat that comes much too late was held up with the whole process (stopped, or the machine
    slept): what went by since it was due is nobody's activity and does not count.
    """

    def __init__(self) -> None:
        self._reasons = 0
        self._since = 0.0
        self._before = 0.0
        self._followers: list[Clock] = []
        self._alarm: tuple[float, Callable[[], None]] | None = None
        self._beat: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        return self._reasons > 0

    @property
    def elapsed(self) -> float:
        """Active seconds so far."""
        return self._before + (_now() - self._since - self._lost if self.running else 0.0)

    @property
    def _lost(self) -> float:
        """Seconds since the next beat was due, where they are too many to be a busy loop's."""
        late = _now() - self._beat.when() if self._beat is not None else 0.0
        return late if late > LATE_S else 0.0

    def start(self) -> None:
        """One more reason to run."""
        self._reasons += 1
        if self._reasons == 1:
            self._since = _now()
            self._arm()
            for follower in self._followers:
                follower.start()

    def stop(self) -> None:
        """One reason less; without any it stands."""
        self._reasons -= 1
        if self._reasons == 0:
            self._before += _now() - self._since - self._lost
            self._disarm()
            for follower in self._followers:
                follower.stop()

    @contextmanager
    def following(self, other: Clock) -> Iterator[None]:
        """While inside, this clock also runs whenever `other` does."""
        other._followers.append(self)
        if other.running:
            self.start()
        try:
            yield
        finally:
            other._followers.remove(self)
            if other.running:
                self.stop()

    def alarm(self, seconds: float, ring: Callable[[], None]) -> None:
        """Call `ring` once when `seconds` active seconds are over."""
        self._alarm = (seconds, ring)
        if self.running:
            self._before -= self._lost
            self._disarm()
            self._arm()

    def silence(self) -> None:
        """No alarm any more."""
        self._alarm = None

    def _arm(self) -> None:
        left = self._alarm[0] - self.elapsed if self._alarm is not None else BEAT_S
        self._beat = asyncio.get_running_loop().call_later(max(0.0, min(left, BEAT_S)), self._on_beat)

    def _disarm(self) -> None:
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def _on_beat(self) -> None:
        self._before -= self._lost
        self._beat = None
        if self._alarm is not None and self._alarm[0] - self.elapsed < 1e-6:
            _, ring = self._alarm
            self._alarm = None
            ring()
        if self.running:
            self._arm()


def _now() -> float:
    return asyncio.get_running_loop().time()
