"""Agents whose requests begin alike share what a service caches of it: the first one is sent ahead, and the others wait until
its reply begins, because the service can read the prefix from its cache only then. Without this, children that start
together all write the same prefix to the cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import msgspec

from ..protocol.messages import Usage

MOST_WAIT_S = 2.0
"""Seconds that a request waits for the reply to another to begin, at most. Where the last one took longer, none waits."""
KEPT_S = 240.0
"""Seconds after which a service may have dropped a prefix: it is kept for five minutes after its last use."""


class _Prefix(msgspec.Struct, eq=False):
    """`settled` is set when the reply to the request that was sent ahead began, or when that ended without one. `used`:
    when a reply to a request with it last began (loop time); None for not yet."""

    settled: asyncio.Event
    used: float | None = None


class SharedPrefixes:
    """The prefixes that the agents of a session sent. Which services have a cache is learned from their usages."""

    def __init__(self) -> None:
        self._caching: set[str] = set()
        self._begins_s: dict[str, float] = {}  # from a request to the first chunk of its reply
        self._prefixes: dict[Hashable, _Prefix] = {}

    def add_usage(self, service: str, usage: Usage) -> None:
        """Record whether `service` used a cache for a request."""
        if usage.cached and (usage.cache_read or usage.cache_write):
            self._caching.add(service)

    def add_begin(self, service: str, after_s: float) -> None:
        """Record after how many seconds `service` began a reply."""
        self._begins_s[service] = after_s

    @asynccontextmanager
    async def first_request(
        self, service: str, prefix: Hashable, waiting: Callable[[], AbstractAsyncContextManager[None]]
    ) -> AsyncIterator[Callable[[], None]]:
        """Send an agent's first request inside. Before, wait in `waiting()` while another with the same `prefix` is sent
        ahead, `MOST_WAIT_S` seconds at most. The function in it must be called when the reply begins."""
        now = asyncio.get_running_loop().time
        deadline = now() + MOST_WAIT_S
        known = self._prefixes.get(prefix)
        if service in self._caching and self._begins_s.get(service, 0.0) <= MOST_WAIT_S:
            while known is not None and known.used is None and now() < deadline:
                async with waiting():
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(deadline):
                            await known.settled.wait()
                known = self._prefixes.get(prefix)
        if known is None or (known.used is not None and now() - known.used > KEPT_S):
            known = self._prefixes[prefix] = _Prefix(asyncio.Event())
            ahead = True
        else:
            ahead = False
        mine = known

        def begins() -> None:
            mine.used = now()
            mine.settled.set()

        try:
            yield begins
        finally:
            if ahead and mine.used is None:  # the next one is sent ahead
                if self._prefixes.get(prefix) is mine:
                    del self._prefixes[prefix]
                mine.settled.set()
