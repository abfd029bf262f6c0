"""The meter: an HTTP server on the loopback through which a program reaches its model. It counts each request, reserves it in the
budget before it is sent, and refuses it where the budget is used up."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.limits import ledger
from friday_cli.core.limits.budget import LimitReached
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import Usage
from friday_cli.llm.transport import http
from friday_cli.llm.transport.h11_server import ProtocolError, ServedConnection

from .provider import PricedModel
from .turns import Turns
from .upstream import Upstream
from .usage import BYTES_PER_TOKEN, UsageReader

log = logging.getLogger(__name__)

REPLY = 8_000
"""Tokens of a reply to a request that sets no limit."""
REFUSED = 400
"""The status of a refusal: the only one at which each of the known programs stops at the first refused request."""
_NOT_FORWARDED = frozenset(
    (
        *("host", "content-length", "connection", "transfer-encoding", "accept-encoding", "expect", "te"),
        *("authorization", "x-api-key", "x-goog-api-key", "proxy-authorization", "cookie"),
    )
)


class _ProgramRequest(NamedTuple):
    """A request of the program. `turn`: it offers tools to the model, as each request of an agent's own work does."""

    model: str
    size: int
    most: int
    turn: bool

    @staticmethod
    def read(target: str, body: bytes) -> _ProgramRequest:
        try:
            given = json.loads(body)
        except (ValueError, RecursionError):
            given = None
        fields: dict[str, Any] = given if isinstance(given, dict) else {}
        model = fields.get("model") or target.partition("/models/")[2].partition(":")[0]
        options = fields.get("generationConfig")
        limits = [fields.get(key) for key in ("max_tokens", "max_output_tokens", "max_completion_tokens")]
        limits.append(options.get("maxOutputTokens") if isinstance(options, dict) else None)
        most = next((limit for limit in limits if type(limit) is int and limit > 0), REPLY)
        return _ProgramRequest(str(model), len(body), most, _offers_tools(fields))


def _offers_tools(fields: dict[str, Any]) -> bool:
    """Whether a request offers tools to its model: in its own list, or in an item of its input, as newer models of OpenAI take them."""
    items = fields.get("input")
    rows = items if isinstance(items, list) else []
    return bool(fields.get("tools")) or any(isinstance(row, dict) and row.get("tools") for row in rows)


class Meter:
    """Counts the requests of the program of one agent. `url` and `token` are what the program is told in place of an address and a key."""

    def __init__(self, agent: Agent, services: Services, turns: Turns, upstream: Upstream) -> None:
        self._agent, self._services, self._turns, self._upstream = agent, services, turns, upstream
        self.token = secrets.token_urlsafe(24)
        self.url = ""
        self.requests = 0
        """Requests that were forwarded."""
        self.problem = ""
        """Why the newest request of the program's own work had no answer; "" if it had one."""
        self.last_at = 0.0
        """When a request began or ended last (loop time)."""
        self.running = 0
        """Requests that are answered now."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent: dict[str, int] = {}
        """Bytes of the largest request of each model so far: what was sent before is not new."""
        self._last_allowed = False

    async def open(self) -> None:
        """Listen on the loopback."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

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
            body = await client.body()
            given = headers.get("x-api-key") or headers.get("x-goog-api-key") or headers.get("authorization", "")
            if not secrets.compare_digest(given.removeprefix("Bearer ").encode(), self.token.encode()):
                await client.answer(401, self._error("This is not the token of this agent."))
            elif request.method != "POST":
                await client.answer(404, self._error("Only requests to a model are forwarded."))
            else:
                await self._forward(client, target, headers, body)
            client.next()

    async def _forward(self, client: ServedConnection, target: str, headers: dict[str, str], body: bytes) -> None:
        asked = _ProgramRequest.read(target, body)
        self.last_at = asyncio.get_running_loop().time()
        self.running += 1
        try:
            refusal = self._refusal(asked)
            if not refusal:
                refusal = await self._counted(client, target, headers, body, asked)
            if asked.turn and refusal:
                self.problem = refusal
            if refusal:
                await client.answer(REFUSED, self._error(refusal))
        finally:
            self.running -= 1
            self.last_at = asyncio.get_running_loop().time()

    def _refusal(self, asked: _ProgramRequest) -> str:
        """Why a request is not sent, whatever it costs; "" if nothing is against it."""
        turns = self._turns
        if turns.phase == "stopping":
            return "Friday: this agent is being stopped."
        if turns.last:
            if self._last_allowed:
                return "Friday: the budget of this agent is used up."
            self._last_allowed = asked.turn
        elif turns.limited.done() or (asked.turn and turns.full()):
            return f"Friday: {turns.limited.result()}."
        return ""

    async def _counted(
        self, client: ServedConnection, target: str, headers: dict[str, str], body: bytes, asked: _ProgramRequest
    ) -> str:
        """Reserve, forward and settle a request. Returns why it was refused."""
        agent, services, price = self._agent, self._services, self._upstream.price(asked.model)
        if agent.budget.left("cost") != float("inf") and price(Usage(input=1, output=1)) is None:
            return f"Friday: the price of {asked.model} is unknown, so the cost limit cannot be kept."
        fresh = max(0, asked.size - self._sent.get(asked.model, 0)) // BYTES_PER_TOKEN
        sent = Usage(input=fresh, cache_read=asked.size // BYTES_PER_TOKEN - fresh)
        reader, held, reservation = UsageReader(), None, None
        try:
            reservation = await agent.budget.reserve(fresh, asked.most, price=price, waiting=agent.slot.waiting)
            if services.ledger is not None:
                priced = PricedModel(self._upstream.name, asked.model, self._upstream.endpoint.rate_limit_key, price)
                waiting, last = partial(agent.slot.waiting, "waiting_budget"), agent.budget.opened
                held = await ledger.hold(
                    services.ledger, agent.path, priced, reservation, sent=sent, last=last, waiting=waiting
                )
                await ledger.begin(services.ledger, held)
            if asked.turn:
                self._turns.begin(msgspec.structs.replace(sent, cost_usd=price(sent), estimated=True))
            await self._exchange(client, target, headers, body, reader)
        except LimitReached as limit:
            self._turns.stop_at(limit)
            return f"Friday: {limit}."
        except ProviderError as error:
            return f"Friday: {error}"
        finally:
            usage = self._usage(reader, asked, sent)
            if services.ledger is not None and held is not None:
                services.ledger.end(held, agent.path)
            if reservation is not None:
                agent.budget.settle(reservation, usage.billed, usage.cost_usd, output=usage.output)
            agent.account(usage)
            if usage != Usage():
                self._turns.end(usage, "end_turn")
        return ""

    async def _exchange(
        self, client: ServedConnection, target: str, headers: dict[str, str], body: bytes, reader: UsageReader
    ) -> None:
        """Forward a request, and pass its answer on."""
        upstream = self._upstream
        try:
            response = await http.forward(upstream.endpoint, upstream.url(target), (body,), self._sent_headers(headers))
        except (OSError, ProtocolError) as error:
            await client.answer(502, self._error(f"Friday: {upstream.endpoint.service} could not be reached: {error}"))
            return
        self.requests += 1
        reader.status = response.status_code
        try:
            await client.pass_on(response, reader.feed)
        finally:
            await response.aclose()

    def _usage(self, reader: UsageReader, asked: _ProgramRequest, sent: Usage) -> Usage:
        """What a request is charged: what the service says, else an estimate from the bytes. Nothing for a failed one."""
        if not 200 <= reader.status < 300:
            if asked.turn and reader.status:
                self.problem = f"{self._upstream.endpoint.service} answered {reader.status} to the program's request."
            return Usage()
        reader.finish()
        found = reader.found
        if found is None:
            found = msgspec.structs.replace(sent, output=reader.size // BYTES_PER_TOKEN, estimated=True)
        if asked.turn:
            self.problem = ""
        self._sent[asked.model] = max(asked.size, self._sent.get(asked.model, 0)) if found.cache_read else 0
        if asked.turn:
            self._turns.context = found.context
        return msgspec.structs.replace(found, cost_usd=self._upstream.price(asked.model)(found))

    def _sent_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of a forwarded request: those of the program, with Friday's key in place of the token."""
        kept = {name: value for name, value in headers.items() if name not in _NOT_FORWARDED}
        return kept | {name.lower(): value for name, value in self._upstream.endpoint.headers.items()}

    def _error(self, text: str) -> bytes:
        """A refusal in the form of the wire."""
        if self._upstream.wire == "gemini":
            document: dict[str, Any] = {"error": {"code": REFUSED, "message": text, "status": "INVALID_ARGUMENT"}}
        else:
            error = {"type": "invalid_request_error", "message": text}
            document = {"type": "error", "error": error}
        return json.dumps(document).encode()
