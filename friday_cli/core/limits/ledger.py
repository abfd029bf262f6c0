"""Caps over all sessions of a person: what a request may use is written where all of them see it, before it is sent."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import msgspec

from ..protocol.errors import ProviderError, StoreError
from ..protocol.format import CALLER
from ..protocol.messages import Usage
from ..protocol.provider import Provider
from ..protocol.waiting import CapReached
from .budget import DUST, OUTPUT_FLOOR, Amounts, LimitReached, Reservation
from .pool import Quantity

POLL_S = 0.5
"""Seconds after which a request that waits for a cap looks again: other processes do not tell when they are done."""
OnCap = Literal["wait", "wrap_up"]
"""What an agent does at a cap: wait until there is room, or hand back what it has."""


class Waiting(Protocol):
    """Makes the context in which an agent waits for a cap."""

    def __call__(self, reason: Quantity, *, cap: CapReached) -> AbstractAsyncContextManager[None]: ...


class Need(msgspec.Struct, frozen=True):
    """The possible use of an agent's request: the `least` that is useful, a `usual` reply, and `most`. `service` and `key` (a
    name with a hash of the key) are who is paid. `last`: it is a wrap-up, which may use what others leave for it."""

    agent: str
    service: str
    key: str
    least: Amounts
    usual: Amounts
    most: Amounts
    last: bool = False


class Held(msgspec.Struct, frozen=True):
    """The amounts held for a request: at most `amounts` may be used."""

    number: int
    amounts: Amounts


class Ledger(Protocol):
    """The amounts that all sessions have used and hold, as one of them sees them. Methods raise StoreError."""

    on_cap: OnCap
    turn: asyncio.Lock
    """Held by the request that looks again for all that wait."""

    def caps_of(self, service: str, key: str) -> frozenset[Literal["tokens", "cost"]]:
        """What the caps count that are for a key; empty without a cap."""

    def paid_by(self, agent: str, service: str, key: str) -> None:
        """The next usage of an agent is paid with this key."""

    async def hold(self, need: Need) -> Held | CapReached:
        """Hold as much for a request as the caps leave, at least a usual reply while others hold something."""

    async def begin(self, held: Held) -> None:
        """The request is about to be sent: from now on it counts even if this process dies."""

    def end(self, held: Held, agent: str) -> None:
        """The request ended. It counts until the next event with a usage of its agent is stored."""


class PaidRequest(msgspec.Struct, frozen=True):
    """A request that is about to be sent, as caps count it."""

    agent: str
    """The path of the agent that pays."""
    provider: Provider
    sent: Usage
    """Its input."""
    last: bool = False
    """It is a wrap-up, which waits for nothing."""

    def amounts(self, output: int) -> Amounts:
        """What it uses with so many tokens of output."""
        usage = msgspec.structs.replace(self.sent, output=output)
        return Amounts(usage.billed, self.provider.cost(usage) or 0.0)


async def hold(ledger: Ledger, request: PaidRequest, reservation: Reservation, *, waiting: Waiting) -> Held | None:
    """Hold what a request may use, which lowers the output of its `reservation` to what the caps leave; None without a cap.

    Waits inside `waiting` for a cap that is reached, or raises LimitReached if the person chose that. Raises ProviderError if
    the price is unknown under a cap of cost, or if nothing can be written."""
    provider, amounts = request.provider, request.amounts
    service, key = provider.name, provider.rate_limit_key
    ledger.paid_by(request.agent, service, key)
    counted = ledger.caps_of(service, key)
    if not counted or key == CALLER:  # a program that drives an agent sends nothing
        return None
    if "cost" in counted:
        require_price(provider)

    least, most = min(OUTPUT_FLOOR, reservation.output), amounts(reservation.output)
    usual = reservation.usual.capped(most)
    need = Need(request.agent, service, key, least=amounts(least), usual=usual, most=most, last=request.last)
    try:
        held = await _held(ledger, need, waiting)
    except StoreError as error:
        raise ProviderError("config", f"No request was sent, because your caps cannot be read: {error}") from None
    per_token = (most.cost - amounts(0).cost) / max(1, reservation.output)
    fits = [reservation.output, held.amounts.tokens - request.sent.billed]
    fits += [(held.amounts.cost - amounts(0).cost) / per_token] if per_token > 0 else []
    reservation.output = max(least, int(min(fits)))
    return held


def require_price(provider: Provider) -> None:
    """Raises ProviderError for a model whose price is unknown: no cap of cost can be kept with it."""
    if provider.cost(Usage(input=1, output=1)) is None:
        raise ProviderError(
            "config",
            f"The price of {provider.name}/{provider.model} is unknown, so your cost cap cannot be kept.",
            hint="Set `prices` under [providers.NAME] in the config, or use --assume-price, or cap tokens instead.",
        )


async def _held(ledger: Ledger, need: Need, waiting: Waiting) -> Held:
    def waits(found: Held | CapReached) -> bool:
        """Whether to wait longer. Raises LimitReached if nothing may come free before midnight, and that is not waited for."""
        if isinstance(found, CapReached) and found.held <= DUST and (need.last or ledger.on_cap == "wrap_up"):
            raise LimitReached(found.what, f"your {found.period} cap")
        return isinstance(found, CapReached)

    found = await ledger.hold(need)
    if isinstance(found, CapReached) and waits(found):
        async with waiting(found.what, cap=found), ledger.turn:
            while waits(found):
                await asyncio.sleep(POLL_S)
                found = await ledger.hold(need)
    assert isinstance(found, Held)
    return found


async def begin(ledger: Ledger | None, held: Held | None) -> None:
    """A request is about to be sent: write that it counts. Raises ProviderError if that cannot be written."""
    if ledger is not None and held is not None:
        try:
            await ledger.begin(held)
        except StoreError as error:
            raise ProviderError("config", f"No request was sent, because its start cannot be stored: {error}") from None
