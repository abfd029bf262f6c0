"""A request to the model: rate limit, budget reservation, stream, retries and fallback."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from itertools import takewhile

import msgspec

from ..limits.budget import OUTPUT_FLOOR
from ..limits.retry import FALLBACK_AFTER_S, GATED, RetryPolicy
from ..protocol.errors import ProviderError
from ..protocol.events import AttemptFailed, CallDelta, Notice, Prefix, TextDelta, ThinkingDelta
from ..protocol.messages import Message, Text, Usage, estimate_message, without_thinking
from ..protocol.provider import (
    CallChunk,
    Provider,
    ReplyDone,
    Request,
    RestartChunk,
    TextChunk,
    ThinkingChunk,
    TokenCounter,
    UsageChunk,
    estimate_request,
)
from ..protocol.trace_context import TRACEPARENT
from .agent import Agent, Services
from .prefix_check import broken_prefix, last_request

log = logging.getLogger(__name__)

TOKEN_BYTES = 6
"""Bytes of text per token that no model's replies reach on average: English prose has 4 to 5, code 3 to 4."""
MAX_SEARCHES = 1000
"""Web searches that a service may report for one request."""


async def ask_model(agent: Agent, services: Services, *, tools: bool = True, quiet: bool = False) -> ReplyDone:
    """One reply, retried after transient failures. `quiet`: no deltas are published. Without `tools` the model may call
    none; they stay in the request, so that the prefix is unchanged. Raises ProviderError, or LimitReached when the
    budget cannot pay for the request."""
    attempt, patience = 0, RetryPolicy()
    while True:
        attempt += 1
        reader = _StreamReader(agent, services, attempt, quiet)
        try:
            done = await _attempt(agent, services, reader, tools, patience.refused)
            await _report_doubt(agent, services, reader)
            await _report_broken_prefix(agent, services, reader)
            if not quiet:
                agent.streaming = ""
            return done
        except ProviderError as error:
            log.debug("request %d of %s", attempt, agent.path, exc_info=True)
            await _report_doubt(agent, services, reader)
            offline_s = services.policy.offline_s if _other_fallback(agent) is None else FALLBACK_AFTER_S
            wait = patience.next_delay(services.rate_limiter(agent.provider.rate_limit_key), error, offline_s)
            if patience.asked_too_long and error.retry_after and not error.hint:
                error.hint = f"It asks to wait for {_duration_text(error.retry_after)}."
            usage = error.usage if isinstance(error.usage, Usage) else Usage()
            received = "" if quiet else reader.text
            await services.log.emit(agent.path, AttemptFailed(attempt, error.kind, str(error), wait, usage, received))
            if wait is None:
                if not (error.transient and await _fall_back(agent, services)):
                    raise
                patience = RetryPolicy()
            elif error.kind not in GATED:  # after the others the rate limiter waits
                async with agent.slot.waiting("waiting_rate", f"{error.kind}: {wait:.1f}"):
                    await asyncio.sleep(wait)


async def _report_broken_prefix(agent: Agent, services: Services, reader: _StreamReader) -> None:
    """Say once in a run that the service did not use its cache for a request, and what changed."""
    if reader.request is None:
        return
    now = asyncio.get_running_loop().time()
    before, agent.last_request = agent.last_request, last_request(agent.model, reader.request, reader.usage, now)
    if before is None or not agent.sent or agent.told_broken_prefix == agent.run:
        return  # the first request of a prefix
    if (notice := broken_prefix(before, agent.last_request, reader.usage)) is not None:
        agent.told_broken_prefix = agent.run
        await services.log.emit(agent.path, notice)


async def _report_doubt(agent: Agent, services: Services, reader: _StreamReader) -> None:
    """Say once for an agent that a service reported an impossible usage."""
    if reader.doubted and not agent.usage_doubted:
        agent.usage_doubted = True
        text = f"{agent.model} reported a usage that is not possible: {reader.doubted}. Usage is estimated instead."
        await services.log.emit(agent.path, Notice(text, "warning"))


def _duration_text(seconds: float) -> str:
    for size, name in ((172_800, "days"), (7200, "hours"), (120, "minutes")):
        if seconds >= size:
            return f"{seconds / {'days': 86_400, 'hours': 3600, 'minutes': 60}[name]:.0f} {name}"
    return f"{seconds:.0f} s"


def _other_fallback(agent: Agent) -> Provider | None:
    """The configured fallback model, unless the agent uses it already."""
    spare = agent.fallback
    same = spare is not None and (spare.name, spare.model) == (agent.provider.name, agent.provider.model)
    return None if same else spare


async def _fall_back(agent: Agent, services: Services) -> bool:
    """Switch to the configured fallback model, once. Starts a new prefix and drops thinking. False without a fallback."""
    spare = _other_fallback(agent)
    if spare is None:
        return False
    old, agent.provider, agent.fallback = agent.model, spare, None
    agent.context = agent.sent = 0
    agent.provider_state = {}
    # Before the log has it, because the task may be cancelled there.
    agent.history = [without_thinking(m) for m in agent.history]
    await services.log.emit(
        agent.path,
        Notice(f"{old} does not answer; continuing with the fallback model {agent.model}.", "warning"),
        Prefix(agent.model, agent.system, agent.specs),
    )
    return True


def prompt_tokens(agent: Agent) -> int:
    """An estimate of the next request's tokens: the context after the last reply, plus the messages since."""
    if agent.context:
        since = takewhile(lambda message: message.role != "assistant", reversed(agent.history))
        return agent.context + sum(map(estimate_message, since))
    return estimate_request(_request(agent, agent.history))


async def measured(agent: Agent, most: float, messages: Sequence[Message] | None = None) -> int:
    """Tokens of a request with `messages` (None: the history). The estimate, or the service's count when the estimate is
    above `most`: an estimate may be a third too high, which must not cause a compaction or a refusal."""
    guess = prompt_tokens(agent) if messages is None else estimate_request(_request(agent, messages))
    counted = agent.context if messages is None else 0
    provider = agent.provider
    if guess <= most or counted > most or not isinstance(provider, TokenCounter):
        return guess
    try:
        return await provider.count_tokens(_request(agent, agent.history if messages is None else messages))
    except ProviderError:
        log.debug("tokens of %s could not be counted", agent.path, exc_info=True)
        return guess


def _request(agent: Agent, messages: Sequence[Message], max_output: int = 1, *, tools: bool = True) -> Request:
    return Request(
        agent=agent.path, system=agent.system, tools=agent.specs, messages=tuple(messages), max_output=max_output,
        tool_choice="auto" if tools else "none", effort=agent.effort, cache_key=agent.prefix_name,
        temperature=agent.temperature, provider_state=agent.provider_state,
    )  # fmt: skip


async def _attempt(agent: Agent, services: Services, reader: _StreamReader, tools: bool, again: bool) -> ReplyDone:
    """Wait for an agent whose request begins alike, if this is the first one of its prefix; then send the request."""
    provider = agent.provider
    if agent.sent:
        return await _send(agent, services, reader, tools, again, _nothing)
    key = provider.rate_limit_key
    prefix = (key, provider.model, agent.effort, agent.system, tuple(spec.name for spec in agent.specs))
    waiting = partial(agent.slot.waiting, "waiting_rate", "cache: 0")
    async with services.prefixes.first_request(key, prefix, waiting) as begins:
        return await _send(agent, services, reader, tools, again, begins)


def _nothing() -> None:
    pass


async def _send(
    agent: Agent, services: Services, reader: _StreamReader, tools: bool, again: bool, begins: Callable[[], None]
) -> ReplyDone:
    """Reserve tokens, wait for the rate limit, send the request. The reservation comes first: no slot of the rate limit is
    held while the agent waits for tokens. `begins` is called when the reply begins."""
    provider = agent.provider
    prompt = await measured(agent, provider.window - OUTPUT_FLOOR)
    room = provider.window - prompt
    if room < OUTPUT_FLOOR:
        raise ProviderError("context", f"The conversation ({prompt} tokens) does not fit the window of {agent.model}.")
    fresh = prompt if agent.cache_missed else max(0, prompt - agent.sent)
    want = min(provider.max_output, services.policy.max_output, room)
    reader.prompt = prompt
    reservation = await agent.budget.reserve(fresh, want, price=provider.cost, waiting=agent.slot.waiting)
    request = _request(agent, agent.history, reservation.output, tools=tools)
    reader.request = request
    reader.most = provider.window + reservation.output
    output = 0
    outer = TRACEPARENT.set("" if services.trace is None else services.trace(agent.path, ""))
    try:
        async with _rate_limit_slot(agent, services, again) as on_chunk:
            now = asyncio.get_running_loop().time
            sent = now()

            def on_first_chunk() -> None:
                services.prefixes.add_begin(provider.rate_limit_key, now() - sent)
                begins()

            done = await _stream(agent, services, request, reader, on_chunk, on_first_chunk)
        output = done.usage.output
        services.prefixes.add_usage(provider.rate_limit_key, done.usage)
        return done
    finally:
        TRACEPARENT.reset(outer)
        agent.budget.settle(reservation, reader.usage.billed, reader.usage.cost_usd, output=output)
        agent.account(reader.usage)


@asynccontextmanager
async def _rate_limit_slot(agent: Agent, services: Services, again: bool) -> AsyncIterator[Callable[[], None]]:
    """A slot of the rate limit. `again`: the agent goes to the front of its queue. The function in it must be called for
    each chunk of the reply."""
    gate = services.rate_limiter(agent.provider.rate_limit_key)
    inside = gate.try_acquire(again=again)
    succeeded = False
    try:
        while not inside:
            offline = "network: " if gate.outage_s is not None else ""
            async with agent.slot.waiting("waiting_rate", f"{offline}{gate.wait_s:.1f}"):
                inside = await gate.acquire(again=again)
            if gate.wait_s > 0:  # a back-off began meanwhile
                gate.release(inside)
                inside, again = 0, True
        try:
            yield partial(gate.answered, inside)
        except ProviderError as error:
            if error.kind == "network":
                gate.disconnected(inside)
            elif error.status:
                gate.answered(inside)
            raise
        succeeded = True
    finally:
        if inside:
            gate.release(inside, succeeded=succeeded)


async def _stream(
    agent: Agent,
    services: Services,
    request: Request,
    reader: _StreamReader,
    on_chunk: Callable[[], None],
    on_first_chunk: Callable[[], None],
) -> ReplyDone:
    """The reply; one far above the maximum of the request is cut. The usage of the request, also of one that fails, is in
    the reader afterwards."""
    most = request.max_output + request.max_output // 10
    try:
        async with aclosing(agent.provider.stream(request)) as chunks:
            async for chunk in chunks:
                on_chunk()
                on_first_chunk()
                on_first_chunk = _nothing
                if isinstance(chunk, ReplyDone):
                    reader.usage = _with_cost(agent, reader.believed(chunk.usage))
                    return msgspec.structs.replace(chunk, usage=reader.usage)
                reader.take(chunk)
                if reader.least_output > most:
                    break
            else:
                raise ProviderError("truncated", f"The reply of {agent.model} ended early.")
    except ProviderError as error:
        estimate = reader.keep_partial()
        usage = reader.believed(error.usage) if isinstance(error.usage, Usage) else estimate
        reader.usage = _with_cost(agent, usage)
        error.usage = reader.usage
        raise
    except asyncio.CancelledError:
        reader.usage = _with_cost(agent, reader.keep_partial())
        raise
    usage = reader.partial_usage()
    reader.usage = _with_cost(agent, msgspec.structs.replace(usage, output=min(usage.output, most)))
    said = (
        f"{agent.model} sent more than the {request.max_output:,} tokens that it was allowed. Its reply was cut there."
    )
    await services.log.emit(agent.path, Notice(said, "warning"))
    text = reader.text.encode("utf-8", "replace")[: TOKEN_BYTES * most].decode("utf-8", "ignore")
    return ReplyDone(Message("assistant", (Text(text),) if text else ()), reader.usage, "max_tokens")


def _with_cost(agent: Agent, usage: Usage) -> Usage:
    """The usage with its price. When the provider reports no cache figures, input that was sent before in the same prefix
    counts as read from a cache."""
    cost = agent.provider.cost(usage) if usage.context else 0.0
    again = 0 if usage.cached else min(usage.input, agent.sent)
    return msgspec.structs.replace(usage, input=usage.input - again, cache_read=usage.cache_read + again, cost_usd=cost)


class _StreamReader:
    """Publishes the deltas of a stream and keeps its text, in case it breaks, and its usage. `prompt` is an estimate of
    the tokens of the request, `most` the tokens that the request and its reply can have; `request` is None until that is made. `doubted` is a reported usage
    above that, in words."""

    def __init__(self, agent: Agent, services: Services, attempt: int, quiet: bool) -> None:
        self._agent, self._services, self._attempt, self._quiet = agent, services, attempt, quiet
        self.prompt = 0
        self.most = float("inf")
        self.doubted = ""
        self.usage = Usage()
        self.request: Request | None = None
        self._reported: Usage | None = None
        self._text: list[str] = []
        self._offset = self._thought = self._bytes = 0
        self._arguments: dict[int, int] = {}

    @property
    def text(self) -> str:
        """The text of the reply so far."""
        return "".join(self._text)

    @property
    def output(self) -> int:
        """An estimate of the output tokens so far: text, thinking, and arguments of calls."""
        return (self._bytes + sum(self._arguments.values()) + 3) // 4

    @property
    def least_output(self) -> int:
        """The least output tokens that so many bytes can be."""
        return (self._bytes + sum(self._arguments.values())) // TOKEN_BYTES

    def take(self, chunk: TextChunk | ThinkingChunk | CallChunk | UsageChunk | RestartChunk) -> None:
        turn = self._agent.turn
        match chunk:
            case TextChunk(text=text):
                self._show(TextDelta(turn, self._attempt, self._offset, text))
                self._offset += len(text)
                self._bytes += _bytes(text)
                self._text.append(text)
            case ThinkingChunk(text=text):
                self._show(ThinkingDelta(turn, self._attempt, self._thought, text))
                self._thought += len(text)
                self._bytes += _bytes(text)
            case CallChunk(index=index, name=name, chars=chars):
                self._show(CallDelta(turn, self._attempt, index, name, chars))
                self._arguments[index] = chars
            case UsageChunk(usage=usage):
                self._reported = usage
            case RestartChunk():
                self._show(TextDelta(turn, self._attempt, 0, ""))
                self._offset = self._thought = 0
                self._text.clear()

    def _show(self, delta: TextDelta | ThinkingDelta | CallDelta) -> None:
        if not self._quiet:
            self._services.log.live(self._agent.path, delta)

    def keep_partial(self) -> Usage:
        """Store the text of a broken reply in the agent, which keeps that of an earlier try when there is none. Returns the
        usage."""
        if self._text and not self._quiet:
            self._agent.streaming = self.text
        return self.partial_usage()

    def partial_usage(self) -> Usage:
        """The usage of a reply that is not complete: the input as reported, else estimated; empty when nothing was
        received."""
        if self._reported is not None:
            output = max(self._reported.output, self.output)
            return self.believed(msgspec.structs.replace(self._reported, output=output, estimated=True))
        if not (self._bytes or self._arguments):
            return Usage()
        return self._estimate()

    def believed(self, usage: Usage) -> Usage:
        """A reported usage, or an estimate where it is more than the model can read and write."""
        if usage.context > self.most:
            self.doubted = f"{usage.context:,} tokens for one request"
        elif usage.searches > MAX_SEARCHES:
            self.doubted = f"{usage.searches:,} web searches for one request"
        else:
            return usage
        return self._estimate()

    def _estimate(self) -> Usage:
        return Usage(input=self.prompt, output=self.output, estimated=True, cached=False)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
