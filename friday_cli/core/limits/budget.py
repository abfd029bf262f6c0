"""Budgets of tokens and money, arranged as a tree, and the clock of active time.

Usage is charged from the leaf to the root. Limits are checked from the root to the leaf, so that an error names the
outermost limit. Before a request its estimated input and largest output are reserved on every level; parallel
reservations never exceed the rest of a budget.
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
"""Tokens reserved for the wrap-up turn, at most; and at most a tenth of a budget."""
OUTPUT_FLOOR = 256
"""Least output tokens that a request must be able to pay for."""
TICK_S, LATE_S = 1.0, 2.0
"""Seconds between two ticks of a clock, and the delay from which on a tick means that the process was suspended."""


class LimitReached(Exception):
    """A limit was reached. `whose` is the path of the agent that has the limit."""

    def __init__(self, limit: LimitName, whose: str) -> None:
        super().__init__(f"the {limit} limit of {whose} has no room left for a request")
        self.limit: LimitName = limit
        self.whose = whose


class Pool(msgspec.Struct, eq=False):
    """One quantity of one budget. `limit` None means no limit. `kept` is reserved for wrap-ups at or below this level."""

    limit: float | None
    spent: float = 0
    reserved: float = 0
    kept: float = 0

    @property
    def left(self) -> float:
        """The amount that requests may still use. Reservations of running requests are not subtracted."""
        return float("inf") if self.limit is None else self.limit - self.spent - self.kept

    @property
    def free(self) -> float:
        """`left` without the reservations of running requests."""
        return self.left - self.reserved


class Reservation(msgspec.Struct, eq=False):
    """The amounts reserved for a request, of `output` tokens at most. Return it with `Budget.settle`."""

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
        """A budget below this one, at most the rest of it. Raises LimitReached when too little is left for a request."""
        self.check()
        left_tokens, left_cost = self.left("tokens"), self.left("cost")
        if left_tokens < 2 * OUTPUT_FLOOR:
            raise LimitReached("tokens", min(reversed(list(self.up())), key=lambda node: node.tokens.left).path)
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
        """The amount that may still be spent, by the limits of all levels; infinite without a limit."""
        return max(0.0, min((node.tokens if what == "tokens" else node.cost).left for node in self.up()))

    def room(self, price: Callable[[Usage], float | None]) -> float:
        """Tokens of new input that the budget can pay for, without the wrap-up reserve; infinite without a limit."""
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
        """Reserve `prompt` tokens of new input and up to `want` tokens of output on every level. With a limit, at most
        half of the free amount is reserved, so that parallel agents can work too. Waits while only the reservations of
        other requests are too large. Raises LimitReached when too little is left."""
        base = price(Usage(input=prompt)) or 0.0
        per_token = ((price(Usage(input=prompt, output=1000)) or base) - base) / 1000
        least_tokens, least_cost = prompt + floor, base + per_token * floor
        while True:
            mine_tokens, mine_cost = self._kept if self._opened else (0.0, 0.0)  # only this agent may use it
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
        """Return a reservation and charge the real usage, on every level."""
        self._reserve(-reservation.tokens, -reservation.cost)
        self.charge(tokens, cost)

    def charge(self, tokens: int, cost: float | None) -> None:
        """Charge usage here and above. An unknown cost counts as 0."""
        for node in self.up():
            node.tokens.spent += max(0, tokens)
            node.cost.spent += max(0.0, cost or 0.0)
        self._freed.set()

    def keep_reserve(self) -> None:
        """Reserve a tenth of the limit, as far as it is left, for the wrap-up of the run that begins."""
        if self._kept == (0.0, 0.0):
            tokens, cost = self.tokens.limit or 0.0, self.cost.limit or 0.0
            self._keep(min(WRAP_UP_TOKENS, tokens // 10, self.left("tokens")), min(cost / 10, self.left("cost")))

    def open_reserve(self) -> None:
        """Let this agent, and no other, use its wrap-up reserve."""
        self._opened = True
        self._freed.set()

    def close_reserve(self) -> None:
        """The run ended: release its wrap-up reserve."""
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


class Clock:
    """Active seconds of one run. `start` and `stop` are counted: the clock runs while more starts than stops were
    called. A running clock ticks. A tick that is more than `LATE_S` late means that the process was suspended or the
    machine slept; the seconds since it was due do not count."""

    def __init__(self) -> None:
        self._starts = 0
        self._since = 0.0
        self._before = 0.0
        self._followers: list[Clock] = []
        self._alarm: tuple[float, Callable[[], None]] | None = None
        self._tick: asyncio.TimerHandle | None = None

    @property
    def running(self) -> bool:
        return self._starts > 0

    @property
    def elapsed(self) -> float:
        """Active seconds so far."""
        return self._before + (_now() - self._since - self._suspended_s if self.running else 0.0)

    @property
    def _suspended_s(self) -> float:
        """Seconds since the tick was due, when they are too many for a busy event loop; else 0."""
        late = _now() - self._tick.when() if self._tick is not None else 0.0
        return late if late > LATE_S else 0.0

    def start(self) -> None:
        """Count one more start."""
        self._starts += 1
        if self._starts == 1:
            self._since = _now()
            self._arm()
            for follower in self._followers:
                follower.start()

    def stop(self) -> None:
        """Count one more stop."""
        self._starts -= 1
        if self._starts == 0:
            self._before += _now() - self._since - self._suspended_s
            self._disarm()
            for follower in self._followers:
                follower.stop()

    @contextmanager
    def following(self, other: Clock) -> Iterator[None]:
        """Inside the context this clock also runs whenever `other` does."""
        other._followers.append(self)
        if other.running:
            self.start()
        try:
            yield
        finally:
            other._followers.remove(self)
            if other.running:
                self.stop()

    def alarm(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call `callback` once, after `seconds` active seconds of this run."""
        self._alarm = (seconds, callback)
        if self.running:
            self._before -= self._suspended_s
            self._disarm()
            self._arm()

    def silence(self) -> None:
        """Cancel the alarm."""
        self._alarm = None

    def _arm(self) -> None:
        left = self._alarm[0] - self.elapsed if self._alarm is not None else TICK_S
        self._tick = asyncio.get_running_loop().call_later(max(0.0, min(left, TICK_S)), self._on_tick)

    def _disarm(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None

    def _on_tick(self) -> None:
        self._before -= self._suspended_s
        self._tick = None
        if self._alarm is not None and self._alarm[0] - self.elapsed < 1e-6:
            _, callback = self._alarm
            self._alarm = None
            callback()
        if self.running:
            self._arm()


def _now() -> float:
    return asyncio.get_running_loop().time()
