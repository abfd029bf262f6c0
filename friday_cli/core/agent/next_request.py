"""The next request of an agent, and how many tokens it has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import takewhile

import msgspec

from ..protocol.errors import ProviderError
from ..protocol.messages import Message, Usage, estimate_message
from ..protocol.provider import Provider, Request, counts_tokens, estimate_request, is_deferred, refreshes_cache
from ..protocol.request_events import RequestSent
from .agent import Agent, Services
from .prefix_check import KEPT_S

log = logging.getLogger(__name__)


def prompt_tokens(agent: Agent) -> int:
    """An estimate of the next request's tokens: the context after the last reply, plus the messages since."""
    conversation = agent.conversation
    if conversation.context:
        since = takewhile(lambda message: message.role != "assistant", reversed(conversation.history))
        return conversation.context + sum(map(estimate_message, since))
    return estimate_request(request_with(agent, conversation.history))


async def measured(agent: Agent, most: float, messages: Sequence[Message] | None = None) -> int:
    """Tokens of a request with `messages` (None: the history). The estimate, or the service's count when the estimate is
    above `most`: an estimate may be a third too high, which must not cause a compaction or a refusal."""
    conversation = agent.conversation
    guess = prompt_tokens(agent) if messages is None else estimate_request(request_with(agent, messages))
    counted = conversation.context if messages is None else 0
    provider = conversation.provider
    if guess <= most or counted > most or not counts_tokens(provider):
        return guess
    try:
        return await provider.count_tokens(request_with(agent, conversation.history if messages is None else messages))
    except ProviderError:
        log.debug("tokens of %s could not be counted", agent.path, exc_info=True)
        return guess


def expected(agent: Agent, prompt: int, *, tools: bool = True) -> Usage:
    """The usage of a request of so many tokens without its reply. What was sent before is read from the cache while the service
    keeps it; Anthropic does not read the messages of one without `tools`."""
    conversation = agent.conversation
    if not conversation.sent or conversation.cache_missed or not tools:
        return Usage(input=prompt)
    provider, last = conversation.provider, conversation.last_request
    kept_s = provider.cache_kept_s if refreshes_cache(provider) else KEPT_S
    dropped = last is not None and last.cached and asyncio.get_running_loop().time() - last.at > kept_s
    again = 0 if dropped else min(conversation.sent, prompt)
    return Usage(input=prompt - again, cache_read=again)


def estimated(agent: Agent, prompt: int) -> RequestSent:
    """What a request of so many tokens costs without its reply, and a token of the reply."""
    sent, price = expected(agent, prompt), agent.conversation.provider.cost
    reply = price(Usage(output=1_000_000))
    request = msgspec.structs.replace(sent, cost_usd=price(sent), estimated=True)
    return RequestSent(request, None if reply is None else reply / 1_000_000)


async def mark_sent(agent: Agent, services: Services, prompt: int) -> None:
    """Write that a request of so many tokens is sent next; see `store_sent`."""
    if agent.budget.needs_log:
        await store_sent(agent, services, estimated(agent, prompt))


async def store_sent(agent: Agent, services: Services, sent: RequestSent) -> None:
    """Write that a request is sent next, where what is spent must outlive the process. Raises ProviderError if that cannot be stored."""
    if not agent.budget.needs_log:
        return
    if services.log.failure is None:
        await services.log.emit(agent.path, sent)
    if services.log.failure is not None:
        words = f"No request was sent, because its start cannot be stored: {services.log.failure}"
        raise ProviderError("config", words)


def request_with(agent: Agent, messages: Sequence[Message], max_output: int = 1, *, tools: bool = True) -> Request:
    """A request with `messages` and the prefix of `agent`. Without `tools` the model may call none of those listed."""
    conversation = agent.conversation
    return Request(
        agent=agent.path,
        system=conversation.system,
        tools=conversation.specs,
        messages=tuple(messages),
        max_output=max_output,
        tool_choice="auto" if tools else "none",
        effort=conversation.effort,
        cache_key=conversation.cache_key,
        temperature=conversation.temperature,
        task_tokens=int(agent.budget.tokens.limit or 0),
        task_left=conversation.task_left,
        provider_state=conversation.provider_state,
    )


async def prepare_deferred(agent: Agent, request: Request) -> None:
    """Wait until the reply of a provider is there whose replies take hours; no active time passes. Raises ProviderError."""
    provider = agent.conversation.provider
    if is_deferred(provider):
        async with agent.slot.waiting("waiting_rate", "batch"):
            await provider.prepare(request)


def service_of(provider: Provider) -> str:
    """API and host of a service that requests go to, such as `chat/completions api.example.org`; "" for a scripted model."""
    endpoint = getattr(provider, "endpoint", None)
    return "" if endpoint is None else f"{str(getattr(provider, 'path', '')).strip('/')} {endpoint.host}".strip()
