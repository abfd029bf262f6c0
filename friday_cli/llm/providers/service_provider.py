"""The common part of the providers of real services: one POST whose events become one message."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, ClassVar, Literal

import msgspec

from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import AnyPart, Message, Usage, user
from friday_cli.core.protocol.provider import Chunk, NoteChunk, ReplyDone, Request, ServerSearch

from ..transport import get_transport
from ..transport.endpoint import Endpoint
from ..transport.error_mapping import from_exception
from ..transport.text import dict_in, one_line
from .encoded_history import REFUSED_IMAGES, EncodedHistory
from .pricing import Pricing

_CALL_AGAIN = "Call a tool by its name with JSON arguments that fit its schema, or answer in text."
SILENT_EVENTS = 20_000
"""Maximum events of a reply, beside one per allowed output token, that bring nothing of it: pings, empty blocks."""
_BAD_CALL = "bad_call"
"""In `Request.provider_state`: the note about a call that the service could not read. It goes with the next request."""
_OMITTED: dict[tuple[str, str, str], dict[str, None]] = {}
"""What an address refuses for a model, by URL, path and model (`refused.FIELDS`)."""
_MOST_COST = 10**9
_MAX_PAGES, _MAX_QUERY, _MAX_TITLE, _MAX_URL = 50, 400, 200, 2_000


class ReplyStream(ABC):
    """Accumulates the events of one reply. `ended` is True after the event that completes it.

    A call with an id of the request's history gets another id. Blocks that only the service can read get the `origin`.
    """

    def __init__(self, endpoint: Endpoint, origin: str, request: Request) -> None:
        self.ended = False
        self._endpoint, self._origin, self._request = endpoint, origin, request
        self._used_call_ids = EncodedHistory.of(request).call_ids(request.messages)
        self._estimated_input = partial(EncodedHistory.of(request).estimate, request)

    @abstractmethod
    def feed(self, event: dict[str, Any]) -> Iterator[Chunk]:
        """The chunks of an event. Unknown events are ignored. Raises ProviderError if the service reports a failure."""

    @abstractmethod
    def finish(self) -> ReplyDone:
        """The complete reply. Raises ProviderError if it is incomplete, empty or not valid."""

    @abstractmethod
    def usage(self) -> Usage | None:
        """The tokens so far, as reported or else estimated; None if nothing that costs money has arrived."""

    def _error(self, kind: Literal["empty", "truncated"], usage: Usage | None = None) -> ProviderError:
        service = self._endpoint.service
        if kind == "empty":
            return ProviderError("empty", f"{service} sent a reply with neither text nor calls.", usage=usage)
        message = f"{service} ended its reply before it was complete ({self._endpoint.host})."
        return ProviderError("truncated", message, usage=usage)


def has_content(parts: tuple[AnyPart, ...]) -> bool:
    """Whether a reply has text or tool calls."""
    message = Message("assistant", parts)
    return bool(message.calls or message.text.strip())


def charged_cost(reported: Mapping[str, Any]) -> dict[str, Any]:
    """The cost in US dollars that a gateway reports with the usage (litellm; OpenRouter, with the user's own key its fee and what the
    vendor charges), as fields of `Usage`; empty if it reports none."""
    cost, upstream = reported.get("cost"), dict_in(reported.get("cost_details")).get("upstream_inference_cost")
    own_key = reported.get("is_byok") is True
    amounts = [cost, *([upstream] if own_key else [])]
    valid = [a for a in amounts if isinstance(a, int | float) and not isinstance(a, bool) and 0 <= a < _MOST_COST]
    return {"cost_usd": float(sum(valid)), "charged": True} if len(valid) == len(amounts) else {}


def server_search(
    call_id: str, query: object, pages: Iterable[tuple[object, object]], *, error: str = ""
) -> ServerSearch:
    """The record of a search on the service's own servers, the same for all APIs.

    `pages` are (title, URL) pairs; invalid URLs and duplicates are left out.
    """
    kept: dict[str, str] = {}
    for title, url in pages:
        valid = isinstance(url, str) and len(url) <= _MAX_URL and re.fullmatch(r"https?://[!-~]+", url)
        if isinstance(url, str) and valid and len(kept) < _MAX_PAGES:
            kept.setdefault(url, one_line(title, _MAX_TITLE) if isinstance(title, str) else "")
    text = one_line(query, _MAX_QUERY) if isinstance(query, str) else ""
    return ServerSearch(call_id, text, tuple((title, url) for url, title in kept.items()), one_line(error, _MAX_TITLE))


class ServedModel(msgspec.Struct, frozen=True):
    """A model as its service offers it."""

    service: str
    """The name of the service."""
    name: str
    """The name that requests have."""
    window: int
    """Tokens of a request and its reply."""
    max_output: int
    """Tokens of a reply."""
    searches: bool = False
    """Whether requests offer the search on the service's own servers, if no tool has its name and the API has one."""

    @property
    def origin(self) -> str:
        """Marks the blocks of its replies that only this service can read."""
        return f"{self.service}/{self.name}"


def temperature_for(request: Request, accepted: str) -> float | None:
    """The temperature to send; None to omit it. `accepted`: when the model accepts one (see models.toml)."""
    if accepted == "never" or (accepted == "no_effort" and request.effort != "none"):
        return None
    return request.temperature


class ServiceProvider(ABC):
    """A model of a service; see `core.protocol.provider.Provider`."""

    path: ClassVar[str]
    reply_stream: ClassVar[type[ReplyStream]]
    needed: ClassVar[tuple[str, ...]] = ()
    """Fields that the API requires."""
    no_reply: ClassVar[dict[str, Any]] = {}
    """Fields that ask for no reply, so that only the cache is filled or used."""
    badge = ""

    def __init__(self, model: ServedModel, endpoint: Endpoint, pricing: Pricing | None = None) -> None:
        self._model, self._pricing = model, pricing or Pricing()
        self.name, self.model, self.window, self.max_output = model.service, model.name, model.window, model.max_output
        self.rate_limit_key = endpoint.rate_limit_key
        self._endpoint = endpoint
        self.price_step = self._pricing.step
        self._extra = {**self._pricing.tiers.fields, **endpoint.extra}
        self._tier_note = ""
        self._omitted = _OMITTED.setdefault((endpoint.base_url, self.path, model.name), {})
        self._sent: dict[str, Any] = {}
        """The body that was sent last."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model.origin})"

    @property
    def endpoint(self) -> Endpoint:
        """Where its requests go."""
        return self._endpoint

    def body(self, request: Request) -> dict[str, Any]:
        """The JSON of a request, as plain lists."""
        return self._body(request)

    def whole(self, request: Request, document: dict[str, Any]) -> list[Chunk]:
        """A reply that came as one document, as chunks with a `ReplyDone` at the end. Raises ProviderError with the usage as it is known."""
        reply = self.reply_stream(self._endpoint, self._model.origin, request)
        try:
            chunks = list(reply.feed(document))
            done = reply.finish()
        except Exception as error:
            raise self._failure(error, reply) from error
        return [*chunks, msgspec.structs.replace(done, usage=self._pricing.priced(done.usage))]

    def _failure(self, error: Exception, reply: ReplyStream) -> ProviderError:
        """The failure of a reply, with its usage so far."""
        failed = from_exception(self._endpoint, error)
        return failed.but(usage=failed.usage or reply.usage())

    def cost(self, usage: Usage) -> float | None:
        """US dollars for `usage`, in the tier that served it; None if the price is not known."""
        return self._pricing.cost(usage)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The reply in chunks, then exactly one `ReplyDone`.

        Raises only ProviderError, with the usage known so far, and CancelledError. A failure after the event that
        completes the reply is ignored. A request is sent again without what the service refuses before the first chunk.
        """
        if note := request.provider_state.pop(_BAD_CALL, ""):
            request = msgspec.structs.replace(request, messages=(*request.messages, user(note, source="harness")))
        while True:
            request = _without_refused_images(request)
            try:
                async with aclosing(self._stream_once(request)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except ProviderError as error:
                if (said := self._omit_refused(error, request)) is not None:
                    if said:
                        yield NoteChunk(said)
                    continue
                if error.kind == "bad_call" and not note:
                    request.provider_state[_BAD_CALL] = f"{NOTE} {error.message} {_CALL_AGAIN}"
                raise

    def _omit_refused(self, error: ProviderError, request: Request) -> str | None:
        """As `refused.omit`."""
        from .refused import omit

        return omit(error, request, self._sent, self._omitted, needed=self.needed, service=self._endpoint.service)

    async def _stream_once(self, request: Request) -> AsyncGenerator[Chunk, None]:
        reply = self.reply_stream(self._endpoint, self._model.origin, request)
        silent = SILENT_EVENTS + max(0, request.max_output)
        try:
            http = not self._endpoint.over_sdk
            send = get_transport("http" if http else "sdk")
            try:
                history = EncodedHistory.of(request) if http else None
                body = self._sent = _without_refused({**self._body(request, history), **self._extra}, self._omitted)
                async with aclosing(send(self._endpoint_for(request), self.path, body)) as events:
                    async for event in events:
                        silent -= 1
                        for chunk in reply.feed(event):
                            silent += 1
                            yield chunk
                        if silent < 0:
                            message = f"{self._endpoint.service} keeps sending events that contain no part of a reply."
                            raise ProviderError("invalid", message)
            except Exception as error:
                if not (reply.ended and from_exception(self._endpoint, error).transient):
                    raise
            done = reply.finish()
        except Exception as error:
            failed = self._failure(error, reply)
            if failed.usage is not None:
                failed = failed.but(usage=self._pricing.priced(failed.usage))
            if failed.kind in ("empty", "not_found"):
                from .listed_models import explained  # most requests do not fail

                failed = await explained(failed, self._endpoint, self.model)
            raise failed from error
        usage = self._pricing.priced(done.usage)
        if (note := self._pricing.tiers.note(self._endpoint.service, usage.tier)) != self._tier_note:
            self._tier_note = note
            yield NoteChunk(note or f"{self._endpoint.service} serves in its tier {usage.tier} again.")
        yield msgspec.structs.replace(done, usage=usage)

    @property
    def cache_kept_s(self) -> float:
        """Seconds for which the service keeps a cache that it can be asked to refresh; 0 if it cannot be asked."""
        return 0.0

    async def refresh_cache(self, request: Request) -> Usage:
        """See `CacheRefresher`."""
        from ..transport.http import document

        body = _without_refused({**self._body(request), **self._extra, **self.no_reply}, self._omitted)
        for name in ("stream", "stream_options"):
            body.pop(name, None)
        reply = self.reply_stream(self._endpoint, self._model.origin, request)
        for _ in reply.feed(await document(self._endpoint_for(request), self.path, body)):
            pass  # there is no reply
        return self._pricing.priced(reply.usage() or Usage())

    def _endpoint_for(self, request: Request) -> Endpoint:
        return self._endpoint

    async def _counted(self, request: Request, path: str, fields: tuple[str, ...]) -> int:
        """Input tokens of a request, counted by the service at `path` from these fields of it."""
        from ..transport.sdk import count_tokens

        body = _without_refused(self._body(request), self._omitted)
        kept = {key: body[key] for key in fields if key in body}
        return await count_tokens(self._endpoint_for(request), path, kept)

    @abstractmethod
    def _body(self, request: Request, history: EncodedHistory | None = None) -> dict[str, Any]:
        """The JSON of a request. `history` encodes its messages (None: they stay plain lists)."""


def _without_refused_images(request: Request) -> Request:
    if refused := request.provider_state.get(REFUSED_IMAGES):
        from .refused import without_images  # services refuse little

        return without_images(request, refused)
    return request


def _without_refused(body: dict[str, Any], omitted: Collection[str]) -> dict[str, Any]:
    if not omitted:
        return body
    from .refused import without

    return without(body, omitted)
