"""What the meter lets through, how it changes a request, and what it charges for one that fails or is stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from friday_cli.core.protocol.errors import StoreError
from friday_cli.core.protocol.events import Envelope, RequestSent, TurnFinished, TurnStarted
from friday_cli.core.protocol.messages import Usage
from friday_cli.extensions.profiles.profile import Wire
from friday_cli.external_agents.meter import Meter
from friday_cli.external_agents.program_request import ProgramRequest
from friday_cli.external_agents.turns import Turns
from friday_cli.external_agents.upstream import Upstream
from friday_cli.external_agents.usage import BYTES_PER_TOKEN
from friday_cli.llm.transport import h11_client, http
from friday_cli.llm.transport.endpoint import Endpoint
from tests.engine_fixture import Bench, Model, Profile, until
from tests.servers.script_player import DROP, HANG, Reply, Server, document, playing

PRICE = 1e-6
ANSWER = {"usage": {"input_tokens": 10, "output_tokens": 1}}
PATHS: dict[Wire, str] = {
    "anthropic": "/v1/messages",
    "openai": "/v1/responses",
    "gemini": "/v1beta/models/m:generateContent",
}
TOOLS = {"tools": [{"name": "x"}]}


class Metered:
    """A meter on a bench, and a service behind it."""

    def __init__(self, bench: Bench, meter: Meter, server: Server) -> None:
        self.bench, self.meter, self.server = bench, meter, server

    async def send(self, target: str, body: dict[str, Any] | bytes, method: str = "POST") -> tuple[int, Any]:
        """Status and body of an answer; status 0 where the connection ends without the end of one."""
        host, port = self.meter.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = (f"{method} {target} HTTP/1.1", "host: x", f"x-api-key: {self.meter.token}", "connection: close")
        writer.write("\r\n".join((*lines, f"content-length: {len(data)}", "", "")).encode() + data)
        head, _, rest = (await reader.read(-1)).partition(b"\r\n\r\n")
        writer.close()
        if b"chunked" in head:
            if not rest.endswith(b"0\r\n\r\n"):
                return 0, None
            rest = rest.split(b"\r\n")[1]
        return int(head.split()[1]), json.loads(rest)

    @property
    def sent(self) -> list[Any]:
        """The bodies that the service read."""
        return [asked.json for asked in self.server.requests]


@asynccontextmanager
async def metered(wire: Wire, *replies: Reply, url: str = "", **more: Any) -> AsyncIterator[Metered]:
    async with playing(*(replies or (document(ANSWER, 200),))) as server:
        bench = Bench(Model({}), **more)
        base = (url or server.url) + ("/v1" if wire == "openai" else "")
        endpoint = Endpoint(service="Test", base_url=base, headers={"x-api-key": "k"}, connect_s=2.0)
        upstream = Upstream(wire, wire, endpoint, lambda model: lambda usage: usage.billed * PRICE)
        turns = Turns(bench.root, bench.services)
        turns.counted = True
        meter = Meter(bench.root, bench.services, turns, upstream)
        await meter.open()
        try:
            yield Metered(bench, meter, server)
        finally:
            await meter.close()
            await http.aclose_all()


@pytest.mark.parametrize(
    ("wire", "target"),
    [
        ("anthropic", "/v1/messages?beta=true"),
        ("anthropic", "/v1/messages/count_tokens"),
        ("openai", "/v1/chat/completions"),
        ("openai", "/v1/completions"),
        ("openai", "/v1/responses"),
        ("openai", "/v1/responses/compact"),
        ("gemini", "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
        ("gemini", "/v1/models/m:generateContent"),
        ("gemini", "/v1alpha/models/m:countTokens"),
    ],
)
async def test_a_request_to_a_model_is_forwarded_to_its_path(wire: Wire, target: str) -> None:
    async with metered(wire) as at:
        assert (await at.send(target, {"model": "m"}))[0] == 200
        assert [asked.path for asked in at.server.requests] == [target]


@pytest.mark.parametrize(
    ("wire", "target"),
    [
        ("anthropic", "@evil.example/x"),
        ("anthropic", "@evil.example/v1/messages"),
        ("anthropic", "http://evil.example/v1/messages"),
        ("anthropic", ":1@evil.example/v1/messages"),
        ("anthropic", ".evil.example/v1/messages"),
        ("anthropic", "/v1/messages/batches"),
        ("anthropic", "/v1/messages/../files"),
        ("anthropic", "/v1/chat/completions"),
        ("openai", "/v1@evil.example/v1/responses"),
        ("openai", "/v1/images/generations"),
        ("openai", "/v1/fine_tuning/jobs"),
        ("openai", "/v1/responses/r_1/cancel"),
        ("gemini", "/v1beta/models/m:batchGenerateContent"),
        ("gemini", "/v1beta/models/../files:generateContent"),
        ("gemini", "/upload/v1beta/files"),
    ],
)
async def test_no_other_path_gets_the_key(wire: Wire, target: str) -> None:
    async with metered(wire) as at:
        status, answer = await at.send(target, {"model": "m", **TOOLS})
        assert (status, at.server.requests, at.bench.root.usage, at.meter.problem) == (404, [], Usage(), "")
        assert ("status" if wire == "gemini" else "type") in answer["error"]
        allowed = {"anthropic": "/v1/messages", "openai": "/v1/responses", "gemini": ":generateContent"}[wire]
        assert allowed in answer["error"]["message"]


async def test_a_list_of_models_is_answered_without_the_service() -> None:
    async with metered("openai") as at:
        status, answer = await at.send("/v1/models", b"", "GET")
        assert (status, at.server.requests) == (404, [])
        assert answer["error"]["message"].startswith("Only requests to a model are forwarded")


async def test_the_model_of_a_gemini_request_is_the_one_in_its_path() -> None:
    priced: list[str] = []

    def named(model: str) -> Callable[[Usage], float]:
        priced.append(model)
        return lambda usage: 0.0

    async with metered("gemini") as at:
        at.meter._upstream = msgspec.structs.replace(at.meter._upstream, price=named)
        await at.send("/v1beta/models/dear:generateContent", {"model": "cheap"})
        assert set(priced) == {"dear"}


async def test_what_was_sent_before_is_not_new_and_a_picture_is_not_its_text() -> None:
    usage = {"usage": {"input_tokens": 10, "cache_creation_input_tokens": 90, "output_tokens": 1}}
    long, other, picture = "a " * 4000, "b " * 4000, "c" * 400_000
    async with metered("anthropic", *[document(usage, 200)] * 4) as at:
        at.bench.root.budget.needs_log = True
        for texts in ([long], [long, other], [other], [SOURCE | {"data": picture}]):
            await at.send("/v1/messages", {"model": "m", "messages": texts, "max_tokens": 5})
        sent = [(one.request.input // 1000, one.request.cache_read // 1000) for one in at.bench.of(RequestSent)]
        assert sent == [(2, 0), (2, 2), (0, 2), (1, 0)]


SOURCE = {"type": "base64", "media_type": "image/png"}
LETTERS = "c" * 40_000


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        ({"content": [{"type": "image", "source": SOURCE | {"data": LETTERS}}]}, 1_500),
        ({"parts": [{"inlineData": {"data": LETTERS, "mimeType": "image/png"}}]}, 1_500),
        ({"content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{LETTERS}"}}]}, 1_500),
        ({"content": [{"type": "input_image", "image_url": f"data:image/webp;base64,{LETTERS}"}]}, 1_500),
        ({"parts": [{"inlineData": {"mimeType": "image/png", "data": LETTERS}}]}, 1_500),
        ({"content": f'a page with <img src="data:image/png;base64,{LETTERS}">'}, 10_000),
        ({"content": json.dumps({"source": SOURCE | {"data": LETTERS}})}, 10_000),
        ({"content": [{"type": "tool_use", "input": {"data": LETTERS}}]}, 10_000),
        ({"content": [{"source": {"media_type": "application/pdf", "data": LETTERS}}]}, 10_000),
    ],
)
def test_only_what_the_service_sees_as_a_picture_counts_as_one(message: dict[str, Any], tokens: int) -> None:
    asked = [ProgramRequest.read("/v1/messages", json.dumps({"messages": [message] * n}).encode()) for n in (1, 3)]
    one, three = (sum(found.parts.values()) / BYTES_PER_TOKEN for found in asked if found is not None)
    assert tokens <= one < tokens + 100
    assert 3 * tokens <= three < 3 * tokens + 300  # the same message again is sent again


async def test_searches_and_long_caching_are_charged() -> None:
    creation = {"ephemeral_1h_input_tokens": 40}
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 40, "cache_creation": creation, "output_tokens": 1}
    answer = {"usage": {**usage, "service_tier": "standard", "server_tool_use": {"web_search_requests": 2}}}
    async with metered("anthropic", document(answer, 200)) as at:
        await at.send("/v1/messages", {"model": "m", **TOOLS})
        used = at.bench.root.usage
        assert (used.kept_long, used.searches, used.tier, used.estimated) == (40, 2, "", False)


async def test_a_limit_that_does_not_count_at_a_path_is_not_one() -> None:
    async with metered("openai", me=Profile(tokens=2200, time_s=0.0)) as at:
        await at.send("/v1/responses", {"model": "m", "max_tokens": 1})
        assert 1024 < at.sent[0]["max_output_tokens"] < 2200


async def test_counting_tokens_is_free_and_no_turn() -> None:
    async with metered("anthropic", document({"input_tokens": 9}, 200)) as at:
        body = {"model": "m", "messages": ["x" * 4000], **TOOLS}
        assert (await at.send("/v1/messages/count_tokens", body))[0] == 200
        assert at.sent == [body]
        assert (at.bench.root.usage, at.bench.root.turn) == (Usage(), 0)


@pytest.mark.parametrize(
    ("wire", "path", "given", "expected"),
    [
        ("anthropic", "", {"max_tokens": 9000}, {"max_tokens": "left"}),
        ("anthropic", "", {"max_tokens": 300}, {"max_tokens": 300}),
        ("openai", "", {"max_output_tokens": 9000, "max_tokens": 5}, {"max_output_tokens": "left", "max_tokens": 5}),
        ("openai", "", {"max_tokens": 9000}, {"max_tokens": "left", "max_output_tokens": "left"}),
        ("openai", "", {}, {"max_output_tokens": "left"}),
        ("openai", "/v1/chat/completions", {"max_tokens": 9000}, {"max_tokens": "left"}),
        ("openai", "/v1/chat/completions", {"max_tokens": None}, {"max_tokens": None, "max_completion_tokens": "left"}),
        ("openai", "/v1/chat/completions", {"max_tokens": "9000"}, {"max_tokens": "left"}),
        ("openai", "/v1/completions", {}, {"max_tokens": "left"}),
        ("openai", "/v1/responses/compact", {}, {}),
        ("gemini", "", {}, {"generationConfig": {"maxOutputTokens": "left"}}),
        ("gemini", "", {"generationConfig": {"maxOutputTokens": 9000, "topK": 1}},
         {"generationConfig": {"maxOutputTokens": "left", "topK": 1}}),
        ("gemini", "", {"generation_config": {"max_output_tokens": 9000}},
         {"generation_config": {"max_output_tokens": "left"}}),
        ("gemini", "/v1beta/models/m:countTokens", {}, {}),
    ],
)  # fmt: skip
async def test_a_reply_is_as_long_as_the_budget_pays_for(
    wire: Wire, path: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    async with metered(wire, me=Profile(tokens=2200, time_s=0.0)) as at:
        status, _ = await at.send(path or PATHS[wire], {"model": "m", "text": "é\ud800", **given})
        assert status == 200
        sent = at.sent[0]
        left = next(n for n in _numbers(sent) if n not in (300, 5, 1)) if "left" in str(expected) else 0
        assert not left or 1024 < left < 2200
        wanted = json.loads(json.dumps(expected).replace('"left"', str(left)))
        assert sent == {"model": "m", "text": "é\ud800", **wanted}
        assert int(at.server.requests[0].headers["content-length"]) == len(at.server.requests[0].body)


def _numbers(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [n for inner in value.values() for n in _numbers(inner)]
    return [value] if isinstance(value, int) else []


async def test_thinking_stays_below_a_lowered_limit() -> None:
    thinking = {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 8000}}
    async with metered("anthropic", me=Profile(tokens=2200, time_s=0.0)) as at:
        assert (await at.send("/v1/messages", {"model": "m", **thinking}))[0] == 200
        assert 1024 <= at.sent[0]["thinking"]["budget_tokens"] < at.sent[0]["max_tokens"] < 2200


async def test_thinking_is_off_where_the_budget_pays_for_too_little_of_it() -> None:
    thinking = {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 8000}}
    async with metered("anthropic", me=Profile(tokens=1000, time_s=0.0)) as at:
        assert (await at.send("/v1/messages", {"model": "m", **thinking}))[0] == 200
        assert at.sent[0]["max_tokens"] < 1000
        assert at.sent[0]["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize("body", [b"[]", b"x", b"\x1f\x8b", b""])
async def test_a_body_that_cannot_be_read_is_not_sent(body: bytes) -> None:
    async with metered("anthropic") as at:
        assert (await at.send("/v1/messages", body))[0] == 400
        assert at.server.requests == []


async def test_a_request_of_an_item_is_stored_before_it_is_sent() -> None:
    stored: list[list[type]] = []

    class Watching(Server):
        def _reply_to(self, asked: Any) -> Reply:
            stored.append([type(one.event) for one in at.bench.envelopes])
            return super()._reply_to(asked)

    async with metered("anthropic") as at:
        at.server.__class__ = Watching
        at.bench.root.budget.needs_log = True
        await at.send("/v1/messages", {"model": "m", **TOOLS, "x": "y" * 4000})
        await at.send("/v1/messages", {"model": "m"})
        assert [one.count(RequestSent) for one in stored] == [1, 2]
        (started,) = at.bench.of(TurnStarted)
        sent = at.bench.of(RequestSent)[0]
        assert started.marked
        assert sent.request == started.request
        assert sent.request.input > 1000
        assert (sent.request.cost_usd, sent.output_usd) == (sent.request.input * PRICE, pytest.approx(PRICE))


async def test_a_request_of_an_item_that_failed_is_over_in_the_log() -> None:
    async with metered("anthropic", document({}, 529)) as at:
        at.bench.root.budget.needs_log = True
        await at.send("/v1/messages", {"model": "m"})
        await at.bench.log.emit("a")
        assert len(at.bench.of(RequestSent)) == len(at.bench.of(TurnFinished)) == 1


class Full:
    """A journal that cannot be written."""

    def append(self, envelopes: Sequence[Envelope], *, durable: bool = False) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_exception(StoreError("disk full"))
        return done

    async def read(self, after: int) -> list[Envelope]:
        return []


async def test_a_log_that_failed_refuses_a_request_of_an_item() -> None:
    async with metered("anthropic", journal=Full()) as at:
        at.bench.root.budget.needs_log = True
        status, answer = await at.send("/v1/messages", {"model": "m", **TOOLS})
        assert (status, at.server.requests, at.bench.root.usage) == (400, [], Usage())
        assert "its start cannot be stored: disk full" in answer["error"]["message"]
        assert at.meter.problem


async def test_a_request_that_is_stopped_before_its_answer_is_charged_with_its_input() -> None:
    async with metered("anthropic", Reply(HANG, before_head=True)) as at:
        asking = asyncio.create_task(at.send("/v1/messages", {"model": "m", "x": "y" * 4000, **TOOLS}))
        await until(lambda: bool(at.server.requests))
        await at.meter.close()
        asking.cancel()
        usage = at.bench.root.usage
        assert (usage.input > 1000, usage.output, usage.estimated) == (True, 0, True)
        assert usage.cost_usd == pytest.approx(usage.input * PRICE)
        assert at.bench.root.budget.tokens.spent == usage.input
        assert at.bench.root.budget.tokens.reserved == 0


def _by_h11(monkeypatch: pytest.MonkeyPatch) -> None:
    pass


def _by_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h11_client, "supports", lambda endpoint: False)


Client = Callable[[pytest.MonkeyPatch], None]
clients = pytest.mark.parametrize("client", [_by_h11, _by_httpx])


@clients
@pytest.mark.parametrize("wire", ["anthropic", "openai", "gemini"])
async def test_a_service_that_cannot_be_reached_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, wire: Wire, client: Client
) -> None:
    client(monkeypatch)
    async with metered(wire, url="http://127.0.0.1:1") as at:
        status, answer = await at.send(PATHS[wire], {"model": "m", **TOOLS})
        assert status == 502
        assert "Cannot reach Test at 127.0.0.1:1" in answer["error"]["message"]
        assert answer["error"].get("code") == (502 if wire == "gemini" else None)
        assert (at.bench.root.turn, at.bench.root.usage) == (1, Usage())
        assert "Cannot reach Test" in at.meter.problem


@clients
async def test_an_error_of_the_service_reaches_the_program(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    client(monkeypatch)
    body = {"error": {"message": "slow down"}}
    async with metered("anthropic", document(body, 429), document(ANSWER, 200)) as at:
        assert await at.send("/v1/messages", {"model": "m", **TOOLS}) == (429, body)
        assert at.bench.root.usage == Usage()
        assert "answered 429" in at.meter.problem
        assert (await at.send("/v1/messages", {"model": "m", **TOOLS}))[0] == 200
        assert at.meter.problem == ""


@clients
async def test_an_answer_that_breaks_off_is_a_problem_and_is_charged(
    monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    client(monkeypatch)
    async with metered("anthropic", Reply(b"data: {}\n\n", DROP)) as at:
        assert (await at.send("/v1/messages", {"model": "m", "x": "y" * 4000, **TOOLS}))[0] == 0
        assert "lost" in at.meter.problem
        assert at.bench.root.usage.input > 1000


@clients
async def test_a_service_that_hangs_up_is_a_problem(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    client(monkeypatch)
    async with metered("anthropic", Reply(DROP, before_head=True)) as at:
        assert (await at.send("/v1/messages", {"model": "m", **TOOLS}))[0] == 502
        assert "lost" in at.meter.problem
        assert at.bench.root.usage == Usage()
