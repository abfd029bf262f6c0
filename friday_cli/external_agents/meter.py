"""The meter: an HTTP server on the loopback through which a program reaches its model. It counts each request, reserves it in the
budget before it is sent, and refuses it where the budget is used up."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.agent.next_request import store_sent
from friday_cli.core.limits import ledger
from friday_cli.core.limits.budget import LimitReached
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.events import RequestSent
from friday_cli.core.protocol.messages import Usage
from friday_cli.llm.providers.pricing import Pricing
from friday_cli.llm.transport import error_mapping, http
from friday_cli.llm.transport.endpoint import Endpoint
from friday_cli.llm.transport.h11_server import ProtocolError, ServedConnection

from .program_request import ProgramRequest, refusal
from .provider import ExternalProvider
from .turns import Turns
from .upstream import Upstream
from .usage import BYTES_PER_TOKEN, UsageReader

log = logging.getLogger(__name__)

REFUSED = 400
"""The status of a refusal: the only one at which each of the known programs stops at the first refused request."""
BROKEN = 502
"""The status where the service gave no answer."""
_NOT_FORWARDED = frozenset(
    (
        *("host", "content-length", "connection", "transfer-encoding", "accept-encoding", "expect", "te"),
        *("authorization", "x-api-key", "x-goog-api-key", "proxy-authorization", "cookie"),
    )
)


class _Received(NamedTuple):
    """A request of a program, which gets its answer from `client`."""

    client: ServedConnection
    target: str
    headers: dict[str, str]
    body: bytes


class Meter:
    """Counts the requests of the program of one agent. `url` and `token` are what the program is told in place of an address and a key."""

    def __init__(self, agent: Agent, services: Services, turns: Turns, upstream: Upstream) -> None:
        self._agent, self._services, self._turns, self._upstream = agent, services, turns, upstream
        self.token = secrets.token_urlsafe(24)
        self.url, self.port = "", 0
        self.problem = ""
        """Why the newest request of the program's own work had no answer; "" if it had one."""
        self.last_at = 0.0
        """When a request began or ended last (loop time)."""
        self.running = 0
        """Requests that are answered now."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._known: dict[str, set[int]] = {}
        """The parts of requests that the service has in its cache, by model."""
        self._last_allowed = False

    async def open(self) -> None:
        """Listen on the loopback."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    async def close(self) -> None:
        """Forward nothing any more; what is under way is charged as far as it came."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(ServedConnection(reader, writer))
        except (OSError, ProtocolError, EOFError):
            pass  # the program hung up, or does not speak HTTP
        except asyncio.CancelledError:
            pass  # the meter is being closed: asyncio would print it as an error of this connection
        except Exception:
            log.exception("meter of %s", self._agent.path)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, client: ServedConnection) -> None:
        """Answer the requests of a connection."""
        while (request := await client.request()) is not None:
            target, headers = request.target, request.headers
            received = _Received(client, target, headers, await client.body())
            given = headers.get("x-api-key") or headers.get("x-goog-api-key") or headers.get("authorization", "")
            if not secrets.compare_digest(given.removeprefix("Bearer ").encode(), self.token.encode()):
                await client.answer(401, self._error("This is not the token of this agent.", 401))
            elif words := refusal(self._upstream.wire, request.method, target):
                await client.answer(404, self._error(words, 404))
            elif (asked := ProgramRequest.read(target, received.body)) is None:
                text = "Friday: the body of this request is not a JSON object, so it cannot be counted."
                await client.answer(REFUSED, self._error(text))
            else:
                await self._forward(received, asked)
            client.next()

    async def _forward(self, received: _Received, asked: ProgramRequest) -> None:
        self.last_at = asyncio.get_running_loop().time()
        self.running += 1
        try:
            if words := self._refusal(asked) or await self._counted(received, asked):
                self.problem = words if asked.turn else self.problem
                await received.client.answer(REFUSED, self._error(words))
        finally:
            self.running -= 1
            self.last_at = asyncio.get_running_loop().time()

    def _refusal(self, asked: ProgramRequest) -> str:
        """Why a request is not sent, whatever it costs; "" if nothing is against it."""
        turns = self._turns
        if turns.phase == "stopping":
            return "Friday: this agent is being stopped."
        if turns.phase == "last turn":
            if self._last_allowed:
                return "Friday: the budget of this agent is used up."
            self._last_allowed = asked.turn
        elif turns.limited.done() or (asked.turn and turns.full()):
            return f"Friday: {turns.limited.result()}."
        return ""

    async def _counted(self, received: _Received, asked: ProgramRequest) -> str:
        """Reserve, forward and settle a request. Returns why it was refused."""
        agent, services, price = self._agent, self._services, self._upstream.price(asked.model)
        if agent.budget.left("cost") != float("inf") and price(Usage(input=1, output=1)) is None:
            return f"Friday: the price of {asked.model} is unknown, so the cost limit cannot be kept."
        known = self._known.get(asked.model, ())
        fresh = sum(size for part, size in asked.parts.items() if part not in known) // BYTES_PER_TOKEN
        sent = Usage(input=fresh, cache_read=sum(asked.parts.values()) // BYTES_PER_TOKEN - fresh)
        reader, held, reservation = UsageReader(self._upstream.wire), None, None
        key = self._upstream.endpoint.rate_limit_key
        try:
            most = services.input_counts.most(key, asked.model, sent, price)
            reservation = await agent.budget.reserve(most, asked.most, price=price, waiting=agent.slot.waiting)
            if services.ledger is not None:
                priced = ExternalProvider(asked.model, self._upstream.name, key, price)
                paid = ledger.PaidRequest(agent.path, priced, most, last=agent.budget.holdback_open)
                waiting = partial(agent.slot.waiting, "waiting_budget")
                held = await ledger.hold(services.ledger, paid, reservation, waiting=waiting)
                await ledger.begin(services.ledger, held)
            if reservation.output < asked.most:
                received = received._replace(body=asked.limited(reservation.output))
            estimate = msgspec.structs.replace(sent, cost_usd=price(sent), estimated=True)
            reply = price(Usage(output=1_000_000))
            marked = RequestSent(estimate, None if reply is None else reply / 1_000_000)
            if asked.turn:
                self._turns.begin(marked)
            if not asked.free:
                await store_sent(agent, services, marked)
            await self._exchange(received, reader)
        except LimitReached as limit:
            self._turns.stop_at(limit)
            return f"Friday: {limit}."
        except ProviderError as error:
            return f"Friday: {error}"
        finally:
            usage = self._usage(reader, asked, sent)
            if services.ledger is not None and held is not None:
                services.ledger.end(held, agent.path)
            if not usage.estimated:
                services.input_counts.add(key, asked.model, sent.input + sent.cache_read, usage.context - usage.output)
            if reservation is not None:
                agent.budget.settle(reservation, usage.billed, usage.cost_usd, output=usage.output)
            agent.account(usage)
            if usage != Usage() or (reader.sent and not asked.free and agent.budget.needs_log):
                self._turns.end(usage, "end_turn", marked=True)
        return ""

    async def _exchange(self, received: _Received, reader: UsageReader) -> None:
        """Forward a request, and pass its answer on."""
        upstream, client = self._upstream, received.client
        url, headers = upstream.url(received.target), self._sent_headers(received.headers)
        reader.sent = True
        try:
            response = await http.forward(upstream.endpoint, url, (received.body,), headers)
        except asyncio.CancelledError:
            reader.stopped = True
            raise
        except Exception as error:
            reader.problem = str(error_mapping.from_exception(upstream.endpoint, error))
            await client.answer(BROKEN, self._error(f"Friday: {reader.problem}", BROKEN))
            return
        reader.status = response.status_code
        try:
            await client.pass_on(_Answer(upstream.endpoint, response), reader.feed)
        except ProviderError as error:  # the program has its beginning: it sees an answer without an end
            reader.problem = str(error)
            raise ConnectionResetError(reader.problem) from error
        finally:
            await response.aclose()

    def _usage(self, reader: UsageReader, asked: ProgramRequest, sent: Usage) -> Usage:
        """What a request is charged: what the service says, else an estimate from the bytes. Nothing for a failed one, and the input for one
        that is stopped before its answer begins: the service reads it."""
        if asked.turn and reader.problem:
            self.problem = reader.problem
        if reader.stopped and not asked.free:
            return msgspec.structs.replace(sent, cost_usd=self._upstream.price(asked.model)(sent), estimated=True)
        if not 200 <= reader.status < 300:
            if asked.turn and reader.status:
                self.problem = f"{self._upstream.endpoint.service} answered {reader.status} to the program's request."
            return Usage()
        if asked.free:
            return Usage()
        reader.finish()
        found = reader.found
        if found is None:
            found = msgspec.structs.replace(sent, output=reader.size // BYTES_PER_TOKEN, estimated=True)
        if asked.turn:
            self.problem = reader.problem
            self._turns.context = found.context
        if found.cache_read or found.cache_write:
            self._known.setdefault(asked.model, set()).update(asked.parts)
        else:
            self._known.pop(asked.model, None)
        return Pricing(self._upstream.price(asked.model)).priced(found)

    def _sent_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of a forwarded request: those of the program, with Friday's key in place of the token."""
        kept = {name: value for name, value in headers.items() if name not in _NOT_FORWARDED}
        return kept | {name.lower(): value for name, value in self._upstream.endpoint.headers.items()}

    def _error(self, text: str, status: int = REFUSED) -> bytes:
        """A refusal in the form of the wire."""
        if self._upstream.wire == "gemini":
            name = "UNAVAILABLE" if status == BROKEN else "NOT_FOUND" if status == 404 else "INVALID_ARGUMENT"
            document: dict[str, Any] = {"error": {"code": status, "message": text, "status": name}}
        else:
            error = {"type": "api_error" if status == BROKEN else "invalid_request_error", "message": text}
            document = {"type": "error", "error": error}
        return json.dumps(document).encode()


class _Answer:
    """The answer of a service; a failure while it comes is a ProviderError, unlike one of the program's connection."""

    def __init__(self, endpoint: Endpoint, response: Any) -> None:
        self._endpoint, self._response = endpoint, response
        self.status_code, self.headers = response.status_code, response.headers

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Its body in pieces."""
        try:
            async for data in self._response.aiter_bytes():
                yield data
        except Exception as error:
            raise error_mapping.from_exception(self._endpoint, error) from error
