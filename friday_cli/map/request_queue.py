"""The requests of a deferred batch's agents until they are answered: those that are to be sent next, and those that are at the service."""

from __future__ import annotations

import asyncio

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.llm.providers.batched import WaitingRequest

FLUSH_S = 20.0
"""Seconds after which requests are sent although some items that run do not wait."""
QUIET_S = 0.5
"""Seconds without a new request after which they are sent when all items wait."""
TRIES = 3
"""Times that a request is sent which the service did not serve."""


class AskedRequest(msgspec.Struct, eq=False):
    """A request that an agent waits for. `tries`: how often it was sent."""

    request: WaitingRequest
    reply: asyncio.Future[dict[str, object]]
    tries: int = 0


class RequestQueue:
    """The requests that agents wait for; those in `pending` are part of the next batch. `sent` is set while there are none of them."""

    def __init__(self) -> None:
        self.asked: dict[str, list[AskedRequest]] = {}
        self.pending: dict[str, AskedRequest] = {}
        self.sent = asyncio.Event()
        self._first = self._newest = 0.0

    @property
    def agents(self) -> int:
        """How many agents wait."""
        return sum(not asked.reply.done() for waiting in self.asked.values() for asked in waiting)

    def wait(self, asked: AskedRequest) -> None:
        """Let a request be part of the next batch."""
        now = asyncio.get_running_loop().time()
        self._first = self._first if self.pending else now
        self._newest = now
        self.pending[asked.request.name] = asked
        self.sent.clear()

    def due(self, running: int) -> bool:
        """Whether the pending requests are sent now, while `running` items run."""
        now = asyncio.get_running_loop().time()
        whole = self.agents >= running and now - self._newest >= QUIET_S
        return bool(self.pending) and (whole or now - self._first >= FLUSH_S)

    def again(self, name: str, why: str) -> None:
        """Let a request be part of the next batch, unless it was sent often enough."""
        if not (waiting := self.asked.get(name)):
            return
        first = waiting[0]
        if first.tries >= TRIES:
            text = f"The service failed to answer the request in a batch {TRIES} times ({why})."
            self.fail([name], ProviderError("config", text))
        else:
            self.wait(first)

    def fail(self, names: list[str], error: ProviderError) -> None:
        """End the wait for requests. The error is each agent's own."""
        for name in names:
            self.pending.pop(name, None)
            for asked in self.asked.get(name, ()):
                if not asked.reply.done():
                    asked.reply.set_exception(ProviderError(error.kind, error.message, hint=error.hint))
