"""Sends the requests of a batch's agents through the batch interface of the service, for half the price, and collects the replies.

The order is: what they may cost is held for all sessions, the rows of the requests, the request to the service, the id of the service. A process that was
killed between the last two looks in the service's list for its batch before it sends anything again. Replies are stored, then counted in the sums of all sessions,
then read by agents; a process that was killed before they were counted is followed by one that begins with that.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.messages import NO_USAGE, Usage
from friday_cli.core.protocol.provider import ReplyDone, Request
from friday_cli.llm.providers.batched import BatchedProvider, WaitingRequest
from friday_cli.llm.transport.batches import Batches, BatchResult, RemoteBatch
from friday_cli.session.item_agents import ItemAgents

from .deferred_caps import DeferredCaps, Part
from .job import MapJob
from .request_queue import AskedRequest, RequestQueue
from .requests import Collected, RequestStore, SentBatch
from .store import MapStore

log = logging.getLogger(__name__)

TICK_S = 0.1
CLOSE_S = 5.0
"""Seconds for what is being done with a service when the work ends."""
POLL_S = (1.0, 60.0)
"""Seconds between two looks at a batch: at first, and at most."""
CUT = 5
"""Times that results are read which end too early."""
CLOCKS_S = 120.0
"""Seconds that the clock of the service may be off."""
PAGE = 200
"""Results that are stored at once."""


class _InFlight(msgspec.Struct, eq=False):
    """A batch at the service. `look_at` is loop time, `every_s` the seconds to the look after that."""

    sent: SentBatch
    look_at: float = 0.0
    every_s: float = POLL_S[0]
    cut: int = 0


class DeferredRequests:
    """The requests of one batch, of agents among `items`. `running` returns how many items run: when all of them wait, the requests are
    sent."""

    def __init__(
        self, job: MapJob, store: MapStore, items: ItemAgents, running: Callable[[], int], note: Callable[[str], None]
    ) -> None:
        self._job, self._requests, self._running, self._note = job, RequestStore(store), running, note
        self._items = items
        self._batches = store
        self._waiting = RequestQueue()
        self._flying: dict[str, _InFlight] = {}
        self._services: dict[str, BatchedProvider] = {}
        self._work: asyncio.Task[None] | None = None
        self._closing = False
        self._caps = DeferredCaps(job, self._requests, self._waiting, items.ledger, note)
        self.sent = self._waiting.sent
        """Set while everything that waits is at the service."""

    @property
    def at_service(self) -> int:
        """Requests that wait at the service, as far as this process knows."""
        return sum(flight.sent.count for flight in self._flying.values())

    async def open(self, provider: BatchedProvider) -> None:
        """Find what earlier processes left at the service, and count what they collected. Raises StoreError."""
        self._services[provider.name] = provider
        left = await self._requests.open_batches(self._job.id)
        await self._caps.ledger.keep_batches(self._job.id, [sent.local for sent in left])
        for sent in left:
            if sent.provider == provider.name:
                self._flying[sent.local] = _InFlight(sent)
                await self._count(sent)
        if self._flying:
            count = pluralize(self.at_service, "request")
            self._note(f"{count} of this batch were already sent to the service: they are collected, not sent again")

    async def reply(self, request: WaitingRequest) -> dict[str, object]:
        """The reply to a request: a stored one, or that of the next batch. Raises ProviderError."""
        self._services.setdefault(request.provider.name, request.provider)
        asked = AskedRequest(request, asyncio.get_running_loop().create_future())
        self._waiting.asked.setdefault(request.name, []).append(asked)  # first, so that no reply is missed
        try:
            known = await self._requests.find(request.name)
            if known is not None and known.state == "done":
                return dict(msgspec.json.decode(known.reply))
            at_service = known is not None and known.state == "sent" and known.sent in self._flying
            if not at_service and not asked.reply.done() and self._waiting.asked[request.name][0] is asked:
                self._waiting.wait(asked)
            self._work = self._work or asyncio.create_task(self._run(), name="deferred requests")
            return await asyncio.shield(asked.reply)
        finally:
            self._waiting.asked[request.name].remove(asked)
            if not self._waiting.asked[request.name]:
                del self._waiting.asked[request.name]
                self._waiting.pending.pop(request.name, None)

    async def close(self) -> None:
        """End the work here; what is at the service stays there."""
        if self._work is not None:
            self._closing = True
            await asyncio.wait([self._work], timeout=CLOSE_S)  # it may be deleting files
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def cancel(self) -> int:
        """Cancel the batches at the service. Returns how many there were. Raises ProviderError."""
        flying = [flight.sent for flight in self._flying.values() if flight.sent.remote]
        for sent in flying:
            await self._service(sent).cancel(sent.remote)
        return len(flying)

    def _service(self, sent: SentBatch) -> Batches:
        return self._services[sent.provider].service

    async def _run(self) -> None:
        try:
            while not self._closing:
                now = asyncio.get_running_loop().time()
                if self._waiting.due(self._running()) and not self._caps.full:
                    await self._flush()
                for flight in [f for f in self._flying.values() if f.look_at <= now]:
                    await self._look(flight)
                if not self._waiting.pending and 0 < self._running() <= self._waiting.agents:
                    self.sent.set()
                await asyncio.sleep(TICK_S)
        except ProviderError as error:
            self._waiting.fail(list(self._waiting.asked), error)
        except Exception as error:  # a defect or a full disk must not let the agents wait for ever
            log.exception("deferred requests")
            self._waiting.fail(
                list(self._waiting.asked), ProviderError("config", f"The deferred requests stopped: {error}")
            )

    async def _flush(self) -> None:
        """Send what waits and fits the cap; the rest waits for what is at the service."""
        if (await self._batches.batch(self._job.id)).state == "cancelled":
            self._waiting.fail(list(self._waiting.pending), ProviderError("config", "The batch was cancelled."))
            return
        chosen = await self._caps.fitting(list(self._waiting.pending.values()))
        if not chosen:
            if not self._flying:
                text = f"the cap of {self._job.cap.text()} has no room for another batched request"
                self._waiting.fail(list(self._waiting.pending), ProviderError("quota", text))
            return
        for provider, group in chosen.items():
            service = provider.service
            part: Part = []
            size = 0
            for asked, held in group:
                length = len(msgspec.json.encode(asked.request.body))
                if part and (len(part) == service.most_requests or size + length > service.most_bytes):
                    await self._send(provider, part)
                    part, size = [], 0
                part.append((asked, held))
                size += length
            await self._send(provider, part)

    async def _send(self, provider: BatchedProvider, part: Part) -> None:
        local = f"friday-{secrets.token_hex(8)}"
        if not (part := await self._caps.hold(provider, local, part)):
            return
        rows, bodies = [], []
        for asked, held in part:
            custom = f"{asked.request.name[:32]}_{secrets.token_hex(3)}"
            rows.append((asked.request.name, custom, held))
            bodies.append((custom, asked.request.body))
            asked.tries += 1
            self._waiting.pending.pop(asked.request.name, None)
        sent = SentBatch(local, self._job.id, provider.name, created=time.time(), count=len(part))
        await self._requests.write(sent, rows)
        flight = self._flying[local] = _InFlight(sent)
        try:
            remote = await provider.service.create(local, bodies, lambda file: self._requests.update(local, files=file))
        except ProviderError as error:
            if error.transient or error.status >= 500:
                return  # it may have arrived: the service's list says it
            await self._lost(flight)
            self._waiting.fail([asked.request.name for asked, _ in part], error)
            return
        await self._begun(flight, remote)
        self._note(f"sent {pluralize(len(part), 'request')} in batch {remote.id}")

    async def _begun(self, flight: _InFlight, remote: RemoteBatch) -> None:
        flight.sent = msgspec.structs.replace(flight.sent, remote=remote.id, expires=remote.expires)
        await self._requests.update(flight.sent.local, remote=remote.id, expires=remote.expires)

    async def _look(self, flight: _InFlight) -> None:
        """Look at a batch once, and collect it when it has ended."""
        service, sent = self._service(flight.sent), flight.sent
        now = asyncio.get_running_loop().time()
        flight.look_at, flight.every_s = now + flight.every_s, min(POLL_S[1], flight.every_s * 1.3)
        try:
            if not sent.remote:
                await self._find(service, flight)
                return
            remote = await service.get(sent.remote)
            if remote.ended:
                await self._collect(service, flight, remote)
        except ProviderError as error:
            if error.kind == "not_found":
                await self._lost(flight)
            elif not error.transient:
                raise
            log.info("batch %s of the service: %s", sent.remote, error)

    async def _find(self, service: Batches, flight: _InFlight) -> None:
        """Find the batch of a process that did not live to store its id: by its tag, or by its time and count."""
        sent = flight.sent
        listed = await service.recent()
        known = await self._requests.known([row.id for row in listed])
        for row in listed:
            near = not row.tag and row.total == sent.count and row.created >= sent.created - CLOCKS_S
            if row.id not in known and (row.tag == sent.local or near):
                await self._begun(flight, row)
                return
        await self._lost(flight)

    async def _lost(self, flight: _InFlight) -> None:
        """A batch is not at the service: its requests are sent again."""
        names = await self._requests.names(flight.sent.local)
        await self._close(flight.sent)
        if flight.sent.files:
            await self._service(flight.sent).remove_files((flight.sent.files,))
        self._flying.pop(flight.sent.local, None)
        for name in names.values():
            if name in self._waiting.asked:
                self._waiting.wait(self._waiting.asked[name][0])

    async def _collect(self, service: Batches, flight: _InFlight, remote: RemoteBatch) -> None:
        sent = flight.sent
        names = await self._requests.names(sent.local)
        if remote.failure:
            await self._lost(flight)
            self._waiting.fail(
                list(names.values()), ProviderError("invalid", f"The service refused the batch: {remote.failure}")
            )
            return
        page: list[BatchResult] = []
        seen = mine = 0
        async for result in service.results(remote):
            seen += 1
            mine += result.custom_id in names
            page.append(result)
            if len(page) == PAGE:
                await self._store(sent, page, names)
                page = []
        await self._store(sent, page, names)
        if seen and not mine and names and not flight.cut:
            flight.sent = msgspec.structs.replace(sent, remote="")  # another batch of the same time and size
            return
        left = await self._requests.names(sent.local)
        flight.cut += 1
        if left and flight.cut < CUT:
            return  # the results were cut off: they are read again
        self._flying.pop(sent.local)
        await self._close(sent)
        for name in left.values():
            self._waiting.again(name, "it was not answered")
        await service.remove_files(remote.files)

    async def _store(self, sent: SentBatch, page: list[BatchResult], names: dict[str, str]) -> None:
        provider = self._services[sent.provider]
        mine = [result for result in page if result.custom_id in names]
        await self._requests.collect(sent.local, [_collected(provider, result) for result in mine])
        await self._count(sent)
        for result in mine:
            name = names[result.custom_id]
            for asked in self._waiting.asked.get(name, ()):
                if not asked.reply.done() and result.outcome == "done":
                    asked.reply.set_result(result.document)
            if result.outcome == "invalid":
                self._waiting.fail([name], ProviderError("invalid", f"The service refused the request: {result.error}"))
            elif result.outcome == "again":
                self._waiting.again(name, result.error)

    async def _close(self, sent: SentBatch) -> None:
        """Nothing of a batch is to be paid any more that is not counted."""
        await self._caps.ledger.end_batch(sent.local)
        await self._requests.close(sent.local)

    async def _count(self, sent: SentBatch) -> None:
        """Count the stored replies of a batch in the sums of all sessions. Raises StoreError."""
        if (usage := await self._requests.used(sent.local)) != NO_USAGE:
            await self._items.collected(self._services[sent.provider], self._job.profile, sent.local, usage)


def _collected(provider: BatchedProvider, result: BatchResult) -> Collected:
    if result.outcome != "done":
        return Collected(result.custom_id, "open", error=result.error)
    request = Request(agent="", system="", tools=(), messages=(), max_output=0)
    usage = Usage()
    try:
        for chunk in provider.chunks(request, result.document):
            usage = chunk.usage if isinstance(chunk, ReplyDone) else usage
    except ProviderError as error:  # the agent that reads it gets the same error
        usage = error.usage or usage
    reply = msgspec.json.encode(result.document).decode()
    return Collected(result.custom_id, "done", reply, usage=usage)
