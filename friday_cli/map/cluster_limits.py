"""The limits of a batch that several machines work on: one budget and one rate limit for each service, held by one actor.

`ClusterLimits` is the state, `ClusterRateLimiter` what a worker uses in place of its own rate limiter. Neither knows Ray: the
worker is given two functions that call a method of the state, by name.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from friday_cli.core.limits.budget import DUST, Amounts, Budget, Reservation
from friday_cli.core.limits.rate_limit import RateLimiter
from friday_cli.core.protocol.errors import ErrorKind, ProviderError
from friday_cli.session.shared_rate_limit import FileSharedRateLimit

from .caps import Cap


class Used(msgspec.Struct, frozen=True):
    """What a try of an item has used, and what it holds for the requests that it has not settled. Costs in US dollars."""

    tokens: int = 0
    cost: float = 0.0
    held_tokens: int = 0
    held_cost: float = 0.0


class Slot(msgspec.Struct, frozen=True):
    """The state of a rate limit. `number`: of the admitted request, 0 for none; `refused`: kind, message and hint of the reason."""

    served: tuple[int, float] = (0, 0.0)
    wait_s: float = 0.0
    outage_s: float | None = None
    number: int = 0
    refused: tuple[ErrorKind, str, str] | None = None


class _Try(msgspec.Struct, eq=False):
    """A try of an item: its budget below that of the batch, and its requests: admitted ones and those that wait."""

    budget: Budget
    held: Reservation = msgspec.field(default_factory=lambda: Reservation(Amounts()))
    admitted: set[tuple[str, int]] = msgspec.field(default_factory=set)
    waiting: set[asyncio.Task[Any]] = msgspec.field(default_factory=set)


class ClusterLimits:
    """The budget of a batch, of which `cap` is left, and its rate limits by their keys. It holds what each try has
    used, so that this is known of a worker that died. Friday's processes with the folders of `env` share the rate limits; None:
    no other process does."""

    def __init__(self, cap: Cap, env: Mapping[str, str] | None) -> None:
        self._env = env
        self._rng = random.Random()
        self._limiters: dict[str, RateLimiter] = {}
        self._budget = cap.budget("the batch")
        self._tries: dict[str, _Try] = {}

    def begin(self, name: str, cap: Cap) -> None:
        """A try may begin that may use `cap`."""
        self._tries[name] = _Try(cap.budget(name, self._budget))

    def end(self, name: str, known: tuple[int, float] | None) -> tuple[int, float]:
        """A try ended with `known` tokens and US dollars; None: its worker died, and what it held is charged too. Returns what is
        charged."""
        found = self._tries[name]
        tokens, cost = known or _spent(found.budget)
        if known is None:
            tokens, cost = tokens + int(found.held.amounts.tokens), cost + found.held.amounts.cost
        self.use(name, Used(tokens, cost))
        del self._tries[name]
        for waiting in found.waiting:
            waiting.cancel()
        for key, number in found.admitted:
            self._limiter(key).release(number)
        return _spent(found.budget)

    def use(self, name: str, used: Used) -> None:
        """Record what a try has used so far."""
        found = self._tries.get(name)
        if found is None:
            return
        budget = found.budget
        budget.hold(found.held, -1)
        found.held = Reservation(Amounts(float(used.held_tokens), used.held_cost))
        budget.charge(used.tokens - int(budget.tokens.spent), used.cost - budget.cost.spent)
        budget.hold(found.held, 1)

    async def acquire(self, key: str, name: str, used: Used, in_front: bool) -> Slot:
        """Wait for a slot of the rate limit `key` for a request of a try; the budget is charged first."""
        found = self._tries.get(name)
        if found is None:
            return Slot(refused=("config", "The item was stopped.", ""))
        self.use(name, used)
        free = self._budget.free
        if min(free.tokens, free.cost) < -DUST:
            return Slot(refused=("quota", "The cap of the batch is used up.", ""))
        limiter, task = self._limiter(key), asyncio.current_task()
        assert task is not None
        found.waiting.add(task)
        try:
            number = limiter.try_acquire(in_front=in_front) or await limiter.acquire(in_front=in_front)
        except ProviderError as error:
            return msgspec.structs.replace(self.state(key), refused=(error.kind, error.message, error.hint))
        finally:
            found.waiting.discard(task)
        found.admitted.add((key, number))
        return msgspec.structs.replace(self.state(key), number=number)

    def release(self, key: str, name: str, number: int, succeeded: bool, used: Used) -> Slot:
        """Return the slot of a request, unless its try has ended."""
        found = self._tries.get(name)
        if found is not None and (key, number) in found.admitted:
            found.admitted.discard((key, number))
            self.use(name, used)
            if succeeded:
                self._limiter(key).answered(number)
            self._limiter(key).release(number, succeeded=succeeded, agent=name)
        return self.state(key)

    def back_off(self, key: str, attempt: int, retry_after: float | None, crowded: bool) -> tuple[float, Slot]:
        """See `RateLimiter.back_off`: all machines wait."""
        wait = self._limiter(key).back_off(attempt, retry_after=retry_after, crowded=crowded)
        return wait, self.state(key)

    def disconnected(self, key: str, number: int) -> Slot:
        """See `RateLimiter.disconnected`."""
        self._limiter(key).disconnected(number)
        return self.state(key)

    def failed(self, key: str, number: int, status: int, agent: str) -> tuple[bool, Slot]:
        """See `RateLimiter.failed`."""
        outage = self._limiter(key).failed(number, status, agent)
        return outage, self.state(key)

    def answered(self, key: str, number: int) -> Slot:
        """See `RateLimiter.answered`."""
        self._limiter(key).answered(number)
        return self.state(key)

    def give_up(self, key: str, error: tuple[ErrorKind, str, str]) -> Slot:
        """See `RateLimiter.give_up`."""
        self._limiter(key).give_up(_error(error))
        return self.state(key)

    def state(self, key: str) -> Slot:
        """The state of a rate limit."""
        limiter = self._limiter(key)
        return Slot(limiter.served, limiter.wait_s, limiter.outage_s)

    def _limiter(self, key: str) -> RateLimiter:
        if key not in self._limiters:
            shared = None if self._env is None else FileSharedRateLimit(key, self._env)
            self._limiters[key] = RateLimiter(self._rng, shared)
        return self._limiters[key]


class ClusterRateLimiter:
    """Has the methods of `RateLimiter`, for the requests of one worker; each asks the state of the cluster. `ask` awaits a method
    of `ClusterLimits`, `tell` calls one and returns its result. `current` returns the try that is running and what it has used."""

    def __init__(
        self,
        key: str,
        *,
        ask: Callable[..., Awaitable[Any]],
        tell: Callable[..., Any],
        current: Callable[[], tuple[str, Used]],
    ) -> None:
        self._key, self._ask, self._tell, self._current = key, ask, tell, current
        self._slot = Slot()

    @property
    def served(self) -> tuple[int, float]:
        return self._slot.served

    @property
    def wait_s(self) -> float:
        return self._slot.wait_s

    @property
    def outage_s(self) -> float | None:
        return self._slot.outage_s

    def try_acquire(self, *, in_front: bool = False) -> int:
        """Never: only `acquire` can ask the cluster without blocking."""
        return 0

    async def acquire(self, *, in_front: bool = False) -> int:
        """Wait for a slot of the cluster. Raises ProviderError if no slot will become free."""
        self._slot = await self._ask("acquire", self._key, *self._current(), in_front)
        if self._slot.refused is not None:
            raise _error(self._slot.refused)
        return self._slot.number

    def release(self, number: int, *, succeeded: bool = False, agent: str = "") -> None:
        name, used = self._current()
        self._slot = self._tell("release", self._key, name, number, succeeded, used)

    def back_off(self, attempt: int, *, retry_after: float | None = None, crowded: bool) -> float:
        wait, self._slot = self._tell("back_off", self._key, attempt, retry_after, crowded)
        return float(wait)

    def disconnected(self, number: int) -> None:
        self._slot = self._tell("disconnected", self._key, number)

    def failed(self, number: int, status: int, agent: str) -> bool:
        outage, self._slot = self._tell("failed", self._key, number, status, self._current()[0])
        return bool(outage)

    def answered(self, number: int) -> None:
        if self._slot.outage_s is not None:  # otherwise `release` reports it
            self._slot = self._tell("answered", self._key, number)

    def give_up(self, error: ProviderError) -> None:
        self._slot = self._tell("give_up", self._key, (error.kind, error.message, error.hint))

    def new_run(self) -> None:
        """Nothing: the outage is the cluster's."""


def _spent(budget: Budget) -> tuple[int, float]:
    return int(budget.tokens.spent), budget.cost.spent


def _error(refused: tuple[ErrorKind, str, str]) -> ProviderError:
    kind, message, hint = refused
    return ProviderError(kind, message, hint=hint)
