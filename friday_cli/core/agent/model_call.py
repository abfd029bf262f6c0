"""A request to the model: rate limit, budget reservation, stream, retries and fallback."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial

import msgspec

from ..limits import ledger
from ..limits.budget import OUTPUT_FLOOR
from ..limits.retry import FALLBACK_AFTER_S, GATED, UNWELL, RetryPolicy
from ..protocol.errors import ProviderError
from ..protocol.events import AttemptFailed, Notice, Prefix, Requested
from ..protocol.messages import Message, Text, Usage, without_thinking
from ..protocol.provider import NoteChunk, Provider, ReplyDone, Request, is_deferred
from ..protocol.request_events import Purpose
from ..protocol.trace_context import TRACEPARENT
from ..protocol.waiting import WaitReason
from .agent import Agent, Services
from .next_request import expected, mark_sent, measured, prepare_deferred, request_with, service_of
from .partial_reply import TOKEN_BYTES, PartialReply
from .prefix_check import broken_prefix, last_request

log = logging.getLogger(__name__)

_FALLS_BACK = {"refusal": "refused to answer", "quota": "has no credit or quota left", "not_found": "was not found"}
"""Failures that are not transient, after which the fallback model is asked, in words."""
FOUND = Usage(input=30_000, searches=3)
"""What the service may count beside a request of the tool `web_search`: the pages that it finds are input. Money is reserved for it."""
MAX_SEARCHES = 1000
"""Web searches that a service may report for one request."""


class ModelCall:
    """Gets one reply of an agent's model: sent again after transient failures, and then with the fallback model. Without
    `tools` the model may call none; they stay in the request, but Anthropic keeps of its cache only tools and system text
    then: an answer in text is first asked for with `tools`. `quiet`: no deltas are published, and the reply joins no conversation."""

    def __init__(
        self, agent: Agent, services: Services, purpose: Purpose = "turn", *, tools: bool = True, quiet: bool = False
    ) -> None:
        self.agent, self.services, self.purpose = agent, services, purpose
        self.tools, self.quiet = tools, quiet
        self.attempts = 0
        self._patience = RetryPolicy(patient=self.services.policy.patient)

    async def send(self) -> ReplyDone:
        """The reply. Raises ProviderError, or LimitReached when the budget cannot pay for the request."""
        while True:
            self.attempts += 1
            attempt = _Attempt(self, in_front=self._patience.refused)
            try:
                done = await attempt.send()
            except ProviderError as error:
                log.debug("request %d of %s", self.attempts, self.agent.path, exc_info=True)
                await self._log_request(attempt)
                if (given_up := await self._after_failure(attempt, error)) is not None:
                    raise given_up  # noqa: B904 - it is the same failure
                continue
            await self._log_request(attempt, done)
            if done.stop == "refusal" and self._other_fallback is not None:
                failed = AttemptFailed(self.attempts, "refusal", done.note, None, done.usage, done.message.text)
                await self.services.log.emit(self.agent.path, failed)
                await self._fall_back("refused to answer")
                continue
            await self._report_broken_prefix(attempt)
            if not self.quiet:
                self.agent.streaming = ""
            return done

    async def _log_request(self, attempt: _Attempt, done: ReplyDone | None = None) -> None:
        """Log how a request was made, with its reply where no conversation has it, and, once for an agent, that a service
        reported an impossible usage."""
        if (request := attempt.request) is None:  # it was not sent
            return
        agent, conversation = self.agent, self.agent.conversation
        event = Requested(
            digest=conversation.digests.of(request),
            max_output=request.max_output,
            purpose=self.purpose,
            effort=request.effort or "",
            temperature=request.temperature,
            no_tools=request.tool_choice == "none",
            service="" if conversation.sent else service_of(conversation.provider),
            first_token_s=attempt.first_s,
        )
        if done is not None and self.quiet:
            event = msgspec.structs.replace(event, reply=done.message, stop=done.stop, usage=done.usage)
        self.services.log.emit_soon(agent.path, event)
        if attempt.doubted and not agent.usage_doubted:
            agent.usage_doubted = True
            text = f"{agent.model} reported impossible usage: {attempt.doubted}. Friday estimates the usage instead."
            await self.services.log.emit(agent.path, Notice(text, "warning"))

    async def _after_failure(self, attempt: _Attempt, error: ProviderError) -> ProviderError | None:
        """Log a failed attempt and wait, or change to the fallback model. Returns the failure if the request is given up."""
        agent, services, patience = self.agent, self.services, self._patience
        offline_s = services.policy.offline_s if self._other_fallback is None else FALLBACK_AFTER_S
        limiter = services.rate_limiter(agent.conversation.provider.rate_limit_key)
        error, wait = patience.after(limiter, error, offline_s, paid=attempt.usage.billed > 0)
        received = "" if self.quiet else attempt.reply.text
        failed = AttemptFailed(self.attempts, error.kind, str(error), wait, attempt.usage, received)
        await services.log.emit(agent.path, failed)
        if wait is None:
            why = "does not answer" if error.transient else _FALLS_BACK.get(error.kind, "")
            return None if why and await self._fall_back(why) else error
        if error.kind not in GATED:  # after the others the rate limiter waits
            async with agent.slot.waiting("waiting_rate", error.kind, wait_s=round(wait, 1)):
                await asyncio.sleep(wait)
        return None

    @property
    def _other_fallback(self) -> Provider | None:
        """The configured fallback model, unless the agent uses it already."""
        used, spare = self.agent.conversation.provider, self.agent.conversation.fallback
        return None if spare is None or (spare.name, spare.model) == (used.name, used.model) else spare

    async def _fall_back(self, why: str) -> bool:
        """Switch to the configured fallback model, once. Starts a new prefix and drops thinking. False without a fallback."""
        agent, spare = self.agent, self._other_fallback
        conversation = agent.conversation
        if spare is None:
            return False
        old, conversation.provider, conversation.fallback = agent.model, spare, None
        conversation.context = conversation.sent = 0
        conversation.provider_state = {}
        # Before the log has it, because the task may be cancelled there.
        conversation.history = [without_thinking(m) for m in conversation.history]
        await self.services.log.emit(
            agent.path,
            Notice(f"{old} {why}; continuing with the fallback model {agent.model}.", "warning"),
            Prefix(agent.model, conversation.system, conversation.specs),
        )
        self._patience = RetryPolicy(patient=self.services.policy.patient)
        return True

    async def _report_broken_prefix(self, attempt: _Attempt) -> None:
        """Say once in a run that the service did not use its cache for a request, and what changed."""
        agent = self.agent
        conversation = agent.conversation
        if attempt.request is None:
            return
        before, conversation.last_request = (
            conversation.last_request,
            last_request(agent.model, attempt.request, attempt.usage, attempt.sent_at),
        )
        if before is None or not conversation.sent or conversation.told_broken_prefix == agent.run:
            return  # the first request of a prefix
        if (notice := broken_prefix(before, conversation.last_request, attempt.usage)) is not None:
            conversation.told_broken_prefix = agent.run
            await self.services.log.emit(agent.path, notice)


class _Attempt:
    """One request on its way, and what is received of its reply. `in_front`: it goes to the front of the queue of the
    rate limiter. `usage` is what the agent pays for it, `doubted` a reported usage that is not possible, in words."""

    def __init__(self, call: ModelCall, *, in_front: bool) -> None:
        self._agent, self._services = call.agent, call.services
        self._provider = call.agent.conversation.provider
        self._tools, self._quiet, self._in_front = call.tools, call.quiet, in_front
        self._found = FOUND if call.purpose == "search" else Usage()
        self.reply = PartialReply(call.agent, call.services, attempt=call.attempts, quiet=call.quiet)
        self.request: Request | None = None
        self.usage = Usage()
        self.first_s: float | None = None
        """Seconds until the first piece of the reply."""
        self.doubted = ""
        self._prompt = 0
        """Tokens of the request, estimated."""
        self._most_context = float("inf")
        """Tokens that the request and its reply can have."""
        self._limiter = call.services.rate_limiter(self._provider.rate_limit_key)
        self.sent_at = 0.0
        """When it was sent (loop time): a service keeps its cache from then on."""
        self._number = 0
        """Its number at the rate limiter; 0 without a slot."""
        self._on_first_chunk: Callable[[], None] | None = None

    async def send(self) -> ReplyDone:
        """The reply. The first request of a prefix waits for an agent whose request begins alike."""
        agent, provider = self._agent, self._provider
        conversation = agent.conversation
        if conversation.sent:
            return await self._send_reserved()
        key = provider.rate_limit_key
        specs = tuple(spec.name for spec in conversation.specs)
        prefix = (key, provider.model, conversation.effort, conversation.system, specs)
        waiting = partial(agent.slot.waiting, "waiting_rate", "cache", wait_s=0.0)
        async with self._services.prefixes.first_request(key, prefix, waiting) as self._on_first_chunk:
            return await self._send_reserved()

    async def _send_reserved(self) -> ReplyDone:
        """Reserve tokens, wait for the rate limit, send the request. The reservation comes first: no slot of the rate limit
        is held while the agent waits for tokens."""
        agent, services, provider = self._agent, self._services, self._provider
        conversation = agent.conversation
        prompt = self._prompt = await measured(agent, provider.window - OUTPUT_FLOOR)
        room = provider.window - prompt
        if room < OUTPUT_FLOOR:
            words = f"The conversation ({prompt} tokens) does not fit the window of {agent.model}."
            raise ProviderError("context", words)
        service, counted = (provider.rate_limit_key, provider.model), conversation.context
        sent = services.input_counts.most(*service, expected(agent, prompt, tools=self._tools), provider.cost)
        want = min(provider.max_output, services.policy.max_output, room)
        reservation = await agent.budget.reserve(sent, want, price=self._price, waiting=agent.slot.waiting)
        output, held = 0, None
        outer = TRACEPARENT.set("" if services.trace is None else services.trace(agent.path, ""))
        try:
            if services.ledger is not None and not is_deferred(provider):  # its batch holds that
                paid = ledger.PaidRequest(agent.path, provider, sent + self._found, last=agent.budget.holdback_open)
                waiting = partial(agent.slot.waiting, "waiting_budget")
                held = await ledger.hold(services.ledger, paid, reservation, waiting=waiting)
            self.request = request = request_with(agent, conversation.history, reservation.output, tools=self._tools)
            self._most_context = provider.window + reservation.output
            await prepare_deferred(agent, request)
            async with self._rate_limit_slot():
                if not is_deferred(provider):  # its reply is here: nothing is sent now
                    await ledger.begin(services.ledger, held)
                    await mark_sent(agent, services, prompt)
                done = await self._read_stream(request)
            output = done.usage.output
            services.prefixes.add_usage(provider.rate_limit_key, done.usage)
            # the pages that a search found are no part of the request
            if not done.usage.estimated and not self._found.searches:
                read = done.usage.context - done.usage.output
                services.input_counts.add(*service, prompt - counted, read - counted)
            return done
        finally:
            TRACEPARENT.reset(outer)
            if services.ledger is not None and held is not None:
                services.ledger.end(held, agent.path)
            agent.budget.settle(reservation, self.usage.billed, self.usage.cost_usd, output=output)
            agent.account(self.usage)

    def _price(self, usage: Usage) -> float | None:
        return self._provider.cost(usage + self._found)

    @asynccontextmanager
    async def _rate_limit_slot(self) -> AsyncIterator[None]:
        """Hold a slot of the rate limit."""
        limiter, in_front = self._limiter, self._in_front
        self._number = limiter.try_acquire(in_front=in_front)
        succeeded = False
        try:
            while not self._number:
                reason: WaitReason | None = None if limiter.outage_s is None else "network"
                async with self._agent.slot.waiting("waiting_rate", reason, wait_s=round(limiter.wait_s, 1)):
                    self._number = await limiter.acquire(in_front=in_front)
                if limiter.wait_s > 0:  # a back-off began meanwhile
                    limiter.release(self._number)
                    self._number, in_front = 0, True
            try:
                yield
            except ProviderError as error:
                if error.kind == "network":
                    limiter.disconnected(self._number)
                elif error.status >= 500 and error.kind in UNWELL and error.retry_after is None:
                    if limiter.failed(self._number, error.status, self._agent.path):
                        raise error.but(kind="network") from error
                elif error.status:
                    limiter.answered(self._number)
                raise
            succeeded = True
        finally:
            if self._number:
                limiter.release(self._number, succeeded=succeeded, agent=self._agent.path)

    async def _read_stream(self, request: Request) -> ReplyDone:
        """The reply; one far above the maximum of the request is cut. `usage` is set also for a request that fails."""
        agent, reply = self._agent, self.reply
        most = request.max_output + request.max_output // 10
        now = asyncio.get_running_loop().time
        self.sent_at, first = now(), True
        try:
            async with aclosing(self._provider.stream(request)) as chunks:
                async for chunk in chunks:
                    self._limiter.answered(self._number)
                    if first:
                        self._reply_begins(now() - self.sent_at)
                        first = False
                    if isinstance(chunk, ReplyDone):
                        self.usage = self._priced(self._believed(chunk.usage))
                        return msgspec.structs.replace(chunk, usage=self.usage)
                    if isinstance(chunk, NoteChunk):
                        await self._services.log.emit(agent.path, Notice(chunk.text, "warning"))
                        continue
                    reply.take(chunk)
                    if reply.least_output > most:
                        break
                else:
                    raise ProviderError("truncated", f"The reply of {agent.model} ended early.")
        except ProviderError as error:
            reply.keep()
            self.usage = self._priced(self._usage_so_far() if error.usage is None else self._believed(error.usage))
            raise
        except asyncio.CancelledError:
            reply.keep()
            usage = self._usage_so_far()
            if usage == Usage() and self._limiter.outage_s is None:
                usage = self._estimate()  # the service reads the request of one that is stopped, too
            self.usage = self._priced(usage)
            raise
        usage = self._usage_so_far()
        self.usage = self._priced(msgspec.structs.replace(usage, output=min(usage.output, most)))
        allowed = f"{agent.model} sent more than the {request.max_output:,} tokens that it was allowed."
        await self._services.log.emit(agent.path, Notice(f"{allowed} Its reply was cut there.", "warning"))
        text = reply.text.encode("utf-8", "replace")[: TOKEN_BYTES * most].decode("utf-8", "ignore")
        return ReplyDone(Message("assistant", (Text(text),) if text else ()), self.usage, "max_tokens")

    def _reply_begins(self, after_s: float) -> None:
        self.first_s = round(after_s, 3)
        self._services.prefixes.add_begin(self._provider.rate_limit_key, after_s)
        if self._on_first_chunk is not None:
            self._on_first_chunk()

    def _usage_so_far(self) -> Usage:
        """The usage of a reply that is not complete: the input as reported, else estimated; empty when nothing was
        received."""
        reported = self.reply.reported
        if reported is None:
            return self._estimate() if self.reply.begun else Usage()
        output = max(reported.output, self.reply.output)
        return self._believed(msgspec.structs.replace(reported, output=output, estimated=True))

    def _believed(self, usage: Usage) -> Usage:
        """A reported usage, or an estimate where it is more than the model can read and write."""
        if usage.context > self._most_context:
            self.doubted = f"{usage.context:,} tokens for one request"
        elif usage.searches > MAX_SEARCHES:
            self.doubted = f"{usage.searches:,} web searches for one request"
        else:
            return usage
        return self._estimate()

    def _estimate(self) -> Usage:
        return Usage(input=self._prompt, output=self.reply.output, estimated=True, cached=False)

    def _priced(self, usage: Usage) -> Usage:
        """The usage with its price. When the provider reports no cache figures, input that was sent before in the same prefix
        counts as read from a cache."""
        cost = usage.cost_usd if usage.charged else self._provider.cost(usage) if usage.context else 0.0
        again = 0 if usage.cached else min(usage.input, self._agent.conversation.sent)
        return msgspec.structs.replace(
            usage, input=usage.input - again, cache_read=usage.cache_read + again, cost_usd=cost
        )
