"""Budgets of tokens and money, arranged as a tree.

Usage is charged from the leaf to the root. Limits are checked from the root to the leaf, so that an error names the
outermost limit. Before a request its estimated input and a usual reply are reserved on every level, in order of
arrival; parallel reservations never exceed the rest of a budget. A request that finds too little waits while something
that other agents hold may come free.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Literal

import msgspec

from ..protocol.format import limit_name
from ..protocol.messages import Usage
from ..protocol.run_result import Status
from .input_counts import Price, dearest
from .pool import INFINITE, Pool, Quantity

LimitName = Literal["iterations", "tokens", "cost", "time"]
Waiting = Callable[[Status, Quantity | None], AbstractAsyncContextManager[None]]
"""The context in which an agent waits, with its status and what it waits for."""

WRAP_UP_TOKENS = 4000
"""Tokens reserved for the wrap-up turn, at most; and at most a tenth of a budget."""
OUTPUT_FLOOR = 256
"""Least output tokens that a request must be able to pay for."""
OTHERS = 4
"""Agents that usually run beside one, for whose replies it leaves money."""
USUAL_REPLY = 4000
"""Output tokens reserved for a reply of an agent that had none yet."""
DUST = 1e-9
"""Smaller amounts are rounding errors."""


class Amounts(msgspec.Struct, frozen=True):
    """Tokens and US dollars."""

    tokens: float = 0.0
    cost: float = 0.0

    def of(self, what: Quantity) -> float:
        """One of both."""
        return self.tokens if what == "tokens" else self.cost

    def __add__(self, more: Amounts) -> Amounts:
        return Amounts(self.tokens + more.tokens, self.cost + more.cost)

    def capped(self, most: Amounts) -> Amounts:
        """At most so much of each."""
        return Amounts(min(self.tokens, most.tokens), min(self.cost, most.cost))


LEAST = Amounts(1.0, DUST)
"""Less of one of both pays for no request."""


class LimitReached(Exception):
    """A limit was reached. `whose` is the path of the agent that has the limit."""

    def __init__(self, limit: LimitName, whose: str) -> None:
        super().__init__(f"the {limit_name(limit)} limit of {whose} has no room left for a request")
        self.limit: LimitName = limit
        self.whose = whose


class Reservation(msgspec.Struct, eq=False):
    """The amounts reserved for a request, of which `drawn` comes from the agent's holdback; with a `usual` reply less is used. The
    reply may have `output` tokens, which can be more tokens than are reserved. Return it with `Budget.settle`."""

    amounts: Amounts
    drawn: Amounts = Amounts()
    usual: Amounts = Amounts()
    output: int = 0


class Budget:
    """Tokens and US dollars of one agent and all below it. `usual` is the output tokens of a usual reply of the agent."""

    def __init__(
        self, path: str, *, tokens: int | None = None, cost: float | None = None, parent: Budget | None = None
    ) -> None:
        self.path = path
        self.parent = parent
        self._above: tuple[Budget, ...] = () if parent is None else parent.levels
        self.tokens = Pool("tokens", tokens)
        self.cost = Pool("cost", cost)
        self.pools = (self.tokens, self.cost)
        self.usual = USUAL_REPLY
        self.holdback = Amounts()
        """What it keeps back for its own wrap-up."""
        self.holdback_open = False
        self.needs_log: bool = parent is not None and parent.needs_log
        """No request that it pays for is sent before its start is stored: what is spent must outlive the process."""
        self._has_holdback = True  # of a run; an agent without one has no wrap-up
        self._queue: _Queue = parent._queue if parent else _Queue()

    def child(self, path: str, *, tokens: int | None, cost: float | None) -> Budget:
        """A budget below this one, at most the rest of it. Raises LimitReached when too little is left for a request."""
        self.check()
        left_tokens, left_cost = self.left("tokens"), self.left("cost")
        if left_tokens < 2 * OUTPUT_FLOOR:
            raise LimitReached("tokens", self.tightest("tokens").path)
        if left_cost <= 0:
            raise LimitReached("cost", self.tightest("cost").path)
        if left_tokens != INFINITE:
            tokens = int(min(left_tokens, tokens if tokens is not None else left_tokens))
        if left_cost != INFINITE:
            cost = min(left_cost, cost if cost is not None else left_cost)
        return Budget(path, tokens=tokens, cost=cost, parent=self)

    @property
    def levels(self) -> tuple[Budget, ...]:
        """This budget and those above it, the root last."""
        return (self, *self._above)

    def pool(self, what: Quantity) -> Pool:
        """One of its pools."""
        return self.tokens if what == "tokens" else self.cost

    def left(self, what: Quantity) -> float:
        """The amount that may still be spent, by the limits of all levels; infinite without a limit."""
        return max(0.0, min(node.pool(what).left for node in self.levels))

    def tightest(self, what: Quantity) -> Budget:
        """The budget, of this one and those above it, with the least left; the outermost of several."""
        return min(reversed(self.levels), key=lambda node: node.pool(what).left)

    def usable(self) -> Amounts:
        """Tokens and US dollars that a run that begins now may spend before its wrap-up."""
        kept = self._holdback_wanted()
        return Amounts(self.left("tokens") - kept.tokens, self.left("cost") - kept.cost)

    def _holdback_wanted(self) -> Amounts:
        """The holdback of a run: a tenth of the limit."""
        return Amounts(min(WRAP_UP_TOKENS, (self.tokens.limit or 0.0) // 10), (self.cost.limit or 0.0) / 10)

    def room(self, price: Price, again: int) -> float:
        """Tokens of new input that the budget can pay for beside `again` from the cache; infinite without a limit.

        Its holdback is not used, but at least what a wrap-up can still read: else the results that it waited for would be lost.
        """
        tokens = max(self.left("tokens"), self._readable("tokens", 2 * OUTPUT_FLOOR))
        cost = self.left("cost")
        if cost == INFINITE or not (each := (price(dearest(1000, 0, price)) or 0.0) / 1000):
            return tokens
        cost -= price(Usage(cache_read=again)) or 0.0
        cost = max(cost, self._readable("cost", price(Usage(output=2 * OUTPUT_FLOOR)) or 0.0))
        return min(tokens, cost / each)

    def _readable(self, what: Quantity, answer: float) -> float:
        """Tokens or US dollars of input that a wrap-up can pay for: half of its holdback. If nothing comes free, it is less
        where the holdback is so small that a short `answer` needs more than the other half."""
        reachable, holdback = self._reachable(what), self.holdback.of(what)
        return min(holdback / 2, max(reachable, min(reachable, 0.0) + holdback - answer))

    def _reachable(self, what: Quantity) -> float:
        """Tokens or US dollars that are left or may come free."""
        pools = [(node, node.pool(what)) for node in self.levels]
        return min(pool.left + self._queue.may_come_free(self, node, pool) for node, pool in pools)

    def check(self, least: Amounts = LEAST) -> None:
        """Raises LimitReached for the outermost budget that cannot pay `least`, even with all that may come free."""
        own = self.own_holdback
        for node in reversed(self.levels):
            for pool in node.pools:
                if pool.limit is None:
                    continue
                left, need = pool.left + own.of(pool.name), least.of(pool.name)
                if left < need and left + self._queue.may_come_free(self, node, pool) < need:
                    raise LimitReached(pool.name, node.path)

    @property
    def own_holdback(self) -> Amounts:
        """The tokens and US dollars that a request may use of the holdback of this agent."""
        return self.holdback if self.holdback_open else Amounts()

    async def reserve(
        self, sent: Usage, want: int, *, price: Price, waiting: Waiting = lambda status, detail: nullcontext()
    ) -> Reservation:
        """Reserve the most that the input `sent` may count and a usual reply, which is at most `want` tokens, on every level.

        Waits inside `waiting` while too little is free and something that others hold may come free. Raises LimitReached
        when too little is left.
        """
        prompt, base = sent.billed, price(sent) or 0.0
        each = ((price(msgspec.structs.replace(sent, output=1000)) or base) - base) / 1000
        floor, usual = min(want, OUTPUT_FLOOR), min(want, self.usual)
        least = Amounts(prompt + floor, base + each * floor)
        claim = _Claim(self, least, Amounts(prompt + usual, base + each * usual))
        try:
            self._queue.add(claim)
            if not claim.reservation.done():
                async with waiting("waiting_budget", claim.short):
                    await claim.reservation
            reservation = claim.reservation.result()
        except BaseException:
            self._queue.remove(claim)
            raise
        if not self._has_holdback:
            self.keep_holdback()
        tokens, cost = self._most("tokens", reservation), self._most("cost", reservation)
        output = min(want, tokens - prompt, (cost - base) / each if each > 0 else want)
        reservation.output = max(floor, int(output))
        paid = self.own_holdback.cost + reservation.amounts.cost
        more = Amounts(0.0, max(0.0, base + each * reservation.output - paid))
        self.hold(Reservation(more), 1)
        reservation.amounts += more
        return reservation

    def _most(self, what: Quantity, reservation: Reservation) -> float:
        """Tokens or US dollars that a request may use. Its reply may have more tokens than are reserved, so that one that fits the
        limits is not cut; but a wrap-up leaves to others what they have reserved, and nobody uses money of others."""
        if what == "cost":
            spare = self._spare(reservation)
        elif self.holdback_open:
            spare = self.free.tokens
        else:
            return min(node.tokens.left for node in self.levels)
        return spare + self.own_holdback.of(what) + reservation.amounts.of(what)

    def _spare(self, held: Reservation) -> float:
        """US dollars that are free, without usual replies of others that use the same limit; the first of them leaves at most half."""
        alone = all(self not in budget._above for budget in self._queue.running)
        spare = INFINITE
        for node in self.levels:
            free, first = node.cost.free, node.cost.reserved <= held.amounts.cost + DUST
            if node is not self or not alone:
                free = min(free, max(free - OTHERS * held.usual.cost, free / 2 if first else 0.0))
            spare = min(spare, free)
        return spare

    @property
    def free(self) -> Amounts:
        """What is left and not reserved; negative when too much was spent."""
        levels = self.levels
        return Amounts(min(node.tokens.free for node in levels), min(node.cost.free for node in levels))

    def settle(self, reservation: Reservation, tokens: int, cost: float | None, *, output: int = 0) -> None:
        """Return a reservation and charge the real usage, on every level. `output` is the tokens of a whole reply, from
        which the usual one is learned: a longer one counts at once, shorter ones step by step, and one that was cut twice: else a
        long one would be cut again and again while others work."""
        self.hold(reservation, -1)
        if self.holdback_open:
            drawn = reservation.drawn
            self.change_holdback(max(0.0, drawn.tokens - tokens), max(0.0, drawn.cost - (cost or 0.0)))
        if output:
            output *= 2 if output >= reservation.output else 1
            self.usual = max(output, self.usual - (self.usual - output) // 4)
        self.charge(tokens, cost)

    def charge(self, tokens: int, cost: float | None) -> None:
        """Charge usage here and above. An unknown cost counts as 0."""
        for node in self.levels:
            node.tokens.spent += max(0, tokens)
            node.cost.spent += max(0.0, cost or 0.0)
        self._queue.serve()

    def begin_run(self) -> None:
        """A run begins. Its holdback is kept from its first request on: before, it has no result to return."""
        self._queue.running.add(self)
        self._has_holdback = False

    def keep_holdback(self) -> None:
        """Keep back a tenth of the limit, as far as it is free, for the wrap-up of the run."""
        wanted, free = self._holdback_wanted(), self.free
        self._has_holdback = True
        self.change_holdback(max(0.0, min(wanted.tokens, free.tokens)), max(0.0, min(wanted.cost, free.cost)))

    def open_holdback(self) -> None:
        """Let this agent, and no other, use its holdback."""
        self.holdback_open = True

    def release_holdback(self) -> None:
        """The run ended: release its holdback."""
        self.holdback_open = False
        self._queue.running.discard(self)
        self.change_holdback(-self.holdback.tokens, -self.holdback.cost)
        self._queue.serve()

    def change_holdback(self, tokens: float, cost: float) -> None:
        """Add to the holdback of this agent, or subtract from it."""
        self.holdback += Amounts(tokens, cost)
        for node in self.levels:
            node.tokens.holdback += tokens
            node.cost.holdback += cost

    def hold(self, reservation: Reservation, sign: Literal[1, -1]) -> None:
        """Add a reservation on every level, or subtract it."""
        for node in self.levels:
            node.tokens.reserved += sign * reservation.amounts.tokens
            node.cost.reserved += sign * reservation.amounts.cost


class _Claim(msgspec.Struct, eq=False):
    """A request without a reservation, and what it needs for the smallest useful and for a usual reply. `short` is the
    quantity that it waits for."""

    budget: Budget
    least: Amounts
    usual: Amounts
    reservation: asyncio.Future[Reservation] = msgspec.field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    short: Quantity | None = None


class _Queue:
    """The requests of a tree of budgets that wait, in order of arrival, and the budgets of the agents that have a run."""

    def __init__(self) -> None:
        self.waiting: list[_Claim] = []
        self.running: set[Budget] = set()

    def add(self, claim: _Claim) -> None:
        """Serve a request now or later. A wrap-up comes before all others: it uses what is kept for it."""
        self.waiting.insert(0 if claim.budget.holdback_open else len(self.waiting), claim)
        self.serve()

    def remove(self, claim: _Claim) -> None:
        """A request is not sent: stop waiting, and return what is reserved for it."""
        if claim in self.waiting:
            self.waiting.remove(claim)
            self.serve()
        elif claim.reservation.exception() is None:
            claim.budget.settle(claim.reservation.result(), 0, 0.0)

    def serve(self) -> None:
        """Reserve for the requests that fit, in order of arrival. Then decide on those that never will, because nothing
        that they lack can come free: they get what is left, or LimitReached when that is too little."""
        for final in (False, True) if self.waiting else ():
            claimed: dict[Pool, float] = defaultdict(float)
            for claim in [c for c in self.waiting if not c.reservation.done()]:
                try:
                    claim.short = self._short(claim, claimed, final=final)
                except LimitReached as limit:
                    self.waiting.remove(claim)
                    claim.reservation.set_exception(limit)
                else:
                    if not claim.short:
                        self.waiting.remove(claim)
                        claim.reservation.set_result(self._reserve(claim))
                    elif self._payable(claim):  # else it waits for the end of an agent, and others need not wait for it
                        for node in claim.budget.levels:
                            for pool in node.pools:
                                claimed[pool] += claim.usual.of(pool.name)

    def may_come_free(self, budget: Budget, node: Budget, pool: Pool) -> float:
        """What the other agents below `node` keep for their wrap-ups, if one of them does not wait here. A wrap-up does not
        count on it, and an agent waits for `budget` when it is above it."""
        waiting = {above for claim in self.waiting for above in claim.budget.levels}
        asking = set(budget.levels)
        others = [b for b in self.running if b not in asking and node in b.levels]
        if budget.holdback_open or all(b in waiting for b in others):
            return 0.0
        return sum(b.holdback.of(pool.name) for b in others)

    def _short(self, claim: _Claim, claimed: dict[Pool, float], *, final: bool) -> Quantity | None:
        """What a request must wait for, None when it can be sent. `claimed` is what those before it wait for."""
        budget = claim.budget
        short: Quantity | None = None
        if final:
            budget.check(claim.least)
        needed, own = claim.least if budget.holdback_open else claim.usual, budget.own_holdback
        for node in budget.levels:
            for pool in node.pools:
                held = pool.reserved + claimed[pool]
                if pool.left + own.of(pool.name) - held < needed.of(pool.name) and (
                    not final or held > DUST or self.may_come_free(budget, node, pool) > DUST
                ):
                    short = pool.name
        return short

    def _payable(self, claim: _Claim) -> bool:
        own = claim.budget.own_holdback
        return all(
            pool.left + own.of(pool.name) >= claim.least.of(pool.name)
            for node in claim.budget.levels
            for pool in node.pools
        )

    def _reserve(self, claim: _Claim) -> Reservation:
        budget, own = claim.budget, claim.budget.own_holdback
        free, least, usual = budget.free, claim.least, claim.usual
        available = free + own
        tokens, cost = max(least.tokens, available.tokens), max(least.cost, available.cost)
        amounts = usual.capped(Amounts(tokens, cost))
        drawn = own.capped(amounts)
        reservation = Reservation(amounts, drawn, amounts)
        budget.change_holdback(-drawn.tokens, -drawn.cost)
        budget.hold(reservation, 1)
        return reservation
