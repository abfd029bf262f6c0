"""What requests of a deferred batch may cost: they hold it under the cap of the batch, and under the person's caps over all sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from friday_cli.core.limits.ledger import require_price
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.format import pluralize
from friday_cli.llm.providers.batched import BatchedProvider
from friday_cli.store.ledger import SessionLedger
from friday_cli.store.spending import BatchHold

from .caps import Cap
from .job import MapJob
from .request_queue import AskedRequest, RequestQueue
from .requests import RequestStore

EXPIRES_S = 86_400.0
"""Seconds after which a service answers no request of a batch any more."""
CAP_POLL_S = 2.0
"""Seconds between two looks whether the person's caps have room."""
Part = list[tuple[AskedRequest, Cap]]
"""Requests, and what each may cost."""


class DeferredCaps:
    """The caps that the requests of a job meet before they are sent. `queue` has the requests; `note` shows a line to the person."""

    def __init__(
        self,
        job: MapJob,
        requests: RequestStore,
        queue: RequestQueue,
        ledger: SessionLedger,
        note: Callable[[str], None],
    ) -> None:
        self._job, self._requests, self._queue, self._note = job, requests, queue, note
        self.ledger = ledger
        self._full_until = 0.0

    @property
    def full(self) -> bool:
        """Whether the person's caps had no room for what waits, a moment ago."""
        return asyncio.get_running_loop().time() < self._full_until

    async def fitting(self, pending: Iterable[AskedRequest]) -> dict[BatchedProvider, Part]:
        """Those of the requests that fit the cap of the batch, by provider."""
        free = await self._requests.free(self._job.id, self._job.cap)
        chosen: dict[BatchedProvider, Part] = {}
        for asked in pending:
            request = asked.request
            most = Cap(request.provider.cost(request.most), request.most.billed)
            if most.fits(free.room):
                free = free.left(most.cost or 0.0, most.tokens or 0)
                chosen.setdefault(request.provider, []).append((asked, most))
        return chosen

    async def hold(self, provider: BatchedProvider, batch: str, part: Part) -> Part:
        """Those of `part` that the person's caps have room for. What they may cost is held from now on by `batch`, its local name; the
        others wait for room, or fail where that is not waited for. Raises StoreError."""
        ledger, payer = self.ledger, (provider.name, provider.rate_limit_key)
        names = [asked.request.name for asked, _ in part]
        if "cost" in ledger.caps_of(*payer):
            try:
                require_price(provider)
            except ProviderError as error:
                self._queue.fail(names, error)
                return []
        hold = BatchHold(batch, self._job.id, *payer, time.time() + EXPIRES_S)
        count, full = await ledger.hold_batch(hold, [most.amounts for _, most in part])
        if full is None:
            self._full_until = 0.0
        elif ledger.on_cap == "wrap_up" or not self._job.wait:
            text = f"There is no room for another batched request: {full}."
            self._queue.fail(names[count:], ProviderError("quota", text, hint="`friday budget set` raises it."))
        else:
            if not self._full_until:
                waiting = pluralize(len(part) - count, "request")
                self._note(f"waiting with {waiting}: {full}. `friday budget set` raises it.")
            self._full_until = asyncio.get_running_loop().time() + CAP_POLL_S
        return part[:count]
