"""A provider whose requests wait for a batch of the service, for half the price (see `llm.transport.batches`)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec

from friday_cli.core.limits.input_counts import MARGIN, dearest
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import ENVIRONMENT, Chunk, ReplyDone, Request, estimate_request

from ..transport.batches import Batches, batches_of
from ..transport.text import dict_in
from .service_provider import ServiceProvider

BATCHES = ("/v1/messages", "/responses")
"""The APIs with a batch interface, by their paths."""
PRICE = 0.5
"""What a batch costs, as a part of the usual price."""
_LIMITS = frozenset(("max_tokens", "max_output_tokens", "stream", "stream_options", "service_tier", "speed"))
"""Fields of a body that say nothing of what is asked."""


class WaitingRequest(msgspec.Struct, frozen=True, eq=False):
    """A request for a batch. `name` is a hash of what is asked: two processes that ask the same have the same one, whatever the day and the
    limits are. `most` is what it can use at most: the input as it is written to a cache, and the longest reply."""

    name: str
    body: dict[str, Any]
    most: Usage
    provider: BatchedProvider


Reply = Callable[[WaitingRequest], Awaitable[dict[str, Any]]]
"""Returns the service's reply to a request. Raises ProviderError."""


class BatchedProvider:
    """Implements `Provider` and `DeferredProvider`: `reply` gets each request to the service and its answer back."""

    def __init__(self, provider: ServiceProvider, reply: Reply) -> None:
        self.name, self.model = provider.name, provider.model
        self.window, self.max_output = provider.window, provider.max_output
        self.rate_limit_key, self.badge = provider.rate_limit_key, provider.badge
        self._provider, self._reply = provider, reply
        self._ready: dict[int, dict[str, Any]] = {}

    @property
    def service(self) -> Batches:
        """The batch interface of its service."""
        return batches_of(self._provider.endpoint)

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage`: half of the usual price."""
        full = self._provider.cost(usage)
        return None if full is None else full * PRICE

    async def prepare(self, request: Request) -> None:
        """Wait until the reply to `request` is there, for hours. Raises ProviderError."""
        plain = msgspec.structs.replace(
            request, task_tokens=0
        )  # the beta header is one of the batch, not of its requests
        body = {name: v for name, v in self._provider.body(plain).items() if name not in ("stream", "stream_options")}
        estimated = int(MARGIN * estimate_request(request))
        most = dearest(estimated, 0, self.cost)
        most = msgspec.structs.replace(most, output=min(request.max_output, self.max_output))
        self._ready[id(request)] = await self._reply(WaitingRequest(_name(request, body), body, most, self))

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The reply, which `prepare` has got."""
        for chunk in self.chunks(request, self._ready.pop(id(request))):
            yield chunk

    def chunks(self, request: Request, document: dict[str, Any]) -> list[Chunk]:
        """A whole reply as chunks. Raises ProviderError for one that is not valid; its usage is known then, too."""
        try:
            *shown, done = self._provider.whole(request, document)
        except ProviderError as error:
            if (usage := error.usage) is None:
                raise
            raise error.but(
                usage=msgspec.structs.replace(usage, cost_usd=self.cost(usage), collected=True)
            ) from error.__cause__
        if isinstance(done, ReplyDone):
            usage = done.usage
            tier = dict_in(document.get("usage")).get("service_tier") or document.get("service_tier")
            estimated = usage.estimated and tier != "batch"  # the price of that tier is known here
            cost = usage.cost_usd if usage.charged else self.cost(usage)
            done = msgspec.structs.replace(
                done, usage=msgspec.structs.replace(usage, cost_usd=cost, estimated=estimated, collected=True)
            )
        return [*shown, done]


def _name(request: Request, body: dict[str, Any]) -> str:
    """A hash of what is asked, without the part of the system text with the day."""
    steady = request.system.partition(ENVIRONMENT)[0]
    asked = {name: value for name, value in body.items() if name not in _LIMITS}
    for name in ("system", "instructions"):
        asked.pop(name, None)
    if isinstance(asked.get("input"), list):  # OpenAI has the system text as a message
        asked["input"] = [item for item in asked["input"] if item.get("role") not in ("system", "developer")]
    return hashlib.sha256(msgspec.json.encode((steady, asked), order="sorted")).hexdigest()
