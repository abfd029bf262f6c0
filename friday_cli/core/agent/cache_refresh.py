"""Keeps a conversation in the cache of its service while its agent waits: for sub-agents, long commands or a person. A service forgets after minutes, and writing 150,000 tokens again costs 25 times as much as using them once more.

Shortly before the time is over the last request is sent again without asking for a reply. All refreshes of a wait together
cost at most what they save, so a wait costs at most twice what it would have cost if its length had been known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import msgspec

from ..limits import ledger
from ..limits.budget import LimitReached
from ..protocol.errors import ProviderError
from ..protocol.events import CacheRefreshed
from ..protocol.messages import Usage
from ..protocol.provider import refreshes_cache
from .agent import Agent, Services
from .prefix_check import LEAST, LastRequest

log = logging.getLogger(__name__)

EARLY = 0.8
"""The part of the time for which a service keeps a prefix after which it is used again."""
MOST_S = 3600.0
"""Longest wait in seconds in which a cache is kept."""
REQUEST_S = 30.0
"""Most seconds of one refresh."""


@asynccontextmanager
async def cache_kept(agent: Agent, services: Services) -> AsyncIterator[None]:
    """Wait inside: meanwhile the cache of the last request of `agent` is kept, if that can be paid and is worth it."""
    keeper = keeper_of(agent, services, MOST_S)
    try:
        yield
    finally:
        if keeper is not None:
            await keeper.stop()


def keeper_of(agent: Agent, services: Services, most_s: float) -> CacheKeeper | None:
    """Keeps the cache of the last request of `agent` from now on, for `most_s` seconds at most; None if there is nothing to keep."""
    provider, last = agent.conversation.provider, agent.conversation.last_request
    kept_s = provider.cache_kept_s if refreshes_cache(provider) else 0.0
    if not (kept_s and most_s) or last is None or last.cached < LEAST or last.model != agent.model:
        return None
    return CacheKeeper(agent, services, last, kept_s, most_s)


class CacheKeeper:
    """Refreshes the cache of the request `last` again and again until it is stopped, or another request is sent."""

    def __init__(self, agent: Agent, services: Services, last: LastRequest, kept_s: float, most_s: float) -> None:
        self._agent, self._services, self._last = agent, services, last
        self._provider = agent.conversation.provider
        self._kept_s = kept_s
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        self._ends = self._began + most_s
        self._task: asyncio.Task[None] | None = None
        self._timer = loop.call_at(last.at + EARLY * kept_s, self._begin)  # most waits are short, and need no task

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._refresh())

    def cancel(self) -> None:
        """End it soon."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """End it. Nothing of it runs when this returns."""
        self.cancel()
        if self._task is None:
            return
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error

    async def _refresh(self) -> None:
        agent, now = self._agent, asyncio.get_running_loop().time
        read, written = (self._provider.cost(usage) for usage in self._usages)
        saved = 0.0 if read is None or written is None else written - read
        used_at = self._last.at
        while read and saved >= read and now() < min(self._ends, used_at + self._kept_s):
            for_person = (
                agent.slot.status == "waiting_user" and now() - self._began >= self._services.policy.keep_warm_s
            )
            unstored = self._services.log.failure is not None
            if for_person or unstored or agent.conversation.last_request is not self._last:
                return
            used_at = now()
            try:
                async with asyncio.timeout(REQUEST_S):
                    as_expected = await self._send(self._usages[0], read)
            except (ProviderError, LimitReached, TimeoutError):
                log.debug("the cache of %s was not refreshed", agent.path, exc_info=True)
                return
            if not as_expected:
                return
            saved -= read
            self._last = agent.conversation.last_request = msgspec.structs.replace(self._last, at=used_at)
            await asyncio.sleep(EARLY * self._kept_s)

    @property
    def _usages(self) -> tuple[Usage, Usage]:
        """What is read from the cache, and what would have to be written to it again."""
        return Usage(cache_read=self._last.cached), Usage(cache_write=self._last.cached)

    async def _send(self, expected: Usage, cost: float) -> bool:
        """Send a request for no reply; False if the service had dropped its cache. Raises ProviderError, and LimitReached
        if the budget cannot pay it."""
        agent, services, provider = self._agent, self._services, self._provider
        assert refreshes_cache(provider)
        if agent.budget.free.cost < cost:
            raise LimitReached("cost", agent.budget.tightest("cost").path)
        usage = Usage(cost_usd=0.0)
        reservation = await agent.budget.reserve(Usage(), 0, price=lambda usage: cost)
        held, limiter, number = None, services.rate_limiter(provider.rate_limit_key), 0
        try:
            if services.ledger is not None:
                paid = ledger.PaidRequest(agent.path, provider, expected)
                held = await ledger.hold(
                    services.ledger, paid, reservation, waiting=lambda reason, *, cap: nullcontext()
                )
            number = limiter.try_acquire(in_front=False) or await limiter.acquire(in_front=False)
            await ledger.begin(services.ledger, held)
            usage = await self._logged(Usage(cache_read=expected.cache_read, cost_usd=cost))
            charged = await provider.refresh_cache(self._last.request)
            more = (charged.cost_usd or 0.0) - cost
            if more > 0:
                usage += await self._logged(Usage(charged.input, 0, charged.cache_write, charged.output, cost_usd=more))
        finally:
            if number:
                limiter.release(number, succeeded=usage.context > 0)
            if services.ledger is not None and held is not None:
                services.ledger.end(held, agent.path)
            agent.budget.settle(reservation, usage.billed, usage.cost_usd)
            agent.account(usage)
        return charged.cache_read >= expected.cache_read // 2

    async def _logged(self, usage: Usage) -> Usage:
        await self._services.log.emit(self._agent.path, CacheRefreshed(usage))
        return usage
