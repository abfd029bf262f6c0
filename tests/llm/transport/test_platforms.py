"""The clouds behind the SDK transport, as far as a loopback server can stand for them."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import aclosing
from typing import Any

import pytest

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.llm.transport import Endpoint, event_stream
from friday_cli.llm.transport.sdk import events, list_models
from tests.servers.script_player import DROP, HANG, Reply, Wait, document, named, playing
from tests.timing import paced

STOP = {"type": "message_stop"}
BEARER = {"authorization": "Bearer cloud-key-123", "x-extra": "1"}


async def read(path: str, body: dict[str, Any], **given: Any) -> list[dict[str, Any]]:
    async with aclosing(events(Endpoint(service="cloud", **given), path, body)) as found:
        return [event async for event in found]


async def failure(reading: Awaitable[object]) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await reading
    return caught.value


# platform: (sdk, options, path, path as it arrives, header that carries the key, body keys that go away)
CLOUDS: dict[str, tuple[Any, dict[str, Any], str, str, tuple[str, str], set[str]]] = {
    "foundry": ("anthropic", {}, "/v1/messages", "/v1/messages", ("x-api-key", "cloud-key-123"), set()),
    "vertex": (
        "anthropic",
        {"region": "us", "project_id": "p"},
        "/v1/messages",
        "/projects/p/locations/us/publishers/anthropic/models/m:streamRawPredict",
        ("authorization", "Bearer cloud-key-123"),
        {"model"},
    ),
    "mantle": (
        "anthropic",
        {"aws_region": "us-east-1"},
        "/v1/messages",
        "/v1/messages",
        ("authorization", "Bearer cloud-key-123"),
        set(),
    ),
    "azure": (
        "openai",
        {"api_version": "2026-01-01"},
        "/chat/completions",
        "/openai/deployments/m/chat/completions?api-version=2026-01-01",
        ("api-key", "cloud-key-123"),
        set(),
    ),
}


@pytest.mark.parametrize("among", ["headers", "options"])
@pytest.mark.parametrize("platform", CLOUDS)
async def test_a_cloud(platform: Any, among: str) -> None:
    """Its key stands among the headers or the options."""
    sdk, options, path, arrives, (header, value), gone = CLOUDS[platform]
    body = {"model": "m", "stream": True, "messages": []}
    key: dict[str, Any] = (
        {"headers": BEARER} if among == "headers" else {"options": {**options, "api_key": "cloud-key-123"}}
    )
    async with playing(Reply(named(STOP)), document({"error": {"type": "overloaded_error"}}, 529)) as server:
        given = {"base_url": server.url, "sdk": sdk, "platform": platform, "options": options, **key}
        assert await read(path, body, **given) == [STOP]
        asked = server.requests[0]
        assert (await failure(read(path, body, **given))).kind == "overloaded"
    assert (asked.path, asked.headers[header]) == (arrives, value)
    assert asked.headers.get("x-extra") == ("1" if among == "headers" else None)
    assert set(body) - set(asked.json) == gone


async def test_azure_below_a_path_of_its_own() -> None:
    async with playing(Reply(named(STOP))) as server:
        await read(
            "/responses",
            {"model": "m"},
            base_url=f"{server.url}/openai/v1",
            headers=BEARER,
            sdk="openai",
            platform="azure",
            options={"api_version": "preview"},
        )
    assert server.requests[0].path == "/openai/v1/responses?api-version=preview"


@paced
async def test_frames_that_only_the_sdk_reads(monkeypatch: pytest.MonkeyPatch, pace: float) -> None:
    from anthropic._streaming import SSEDecoder

    monkeypatch.setattr(
        "anthropic.lib.bedrock._client.AWSEventStreamDecoder", SSEDecoder
    )  # its library is no dependency
    monkeypatch.setattr(event_stream, "CLOSE_GRACE_S", 0.25 * pace)
    start = {"type": "message_start", "message": {}}
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}
    replies = [
        Reply(named(start, STOP)),
        Reply(named(start, STOP), Wait(0.01)),
        Reply(named(start, STOP), HANG),
        Reply(named(start), DROP),
        Reply(named(start, overloaded)),
        Reply(),
        Reply(named(start), HANG),
        Reply(named(start) + b"event: x\ndata: {\n\n"),
        Reply(b"event: x\ndata: \xff\n\n"),
        document({"message": "slow"}, 429, retry_after="4"),
    ]
    async with playing(*replies) as server:
        given: dict[str, Any] = {
            "base_url": server.url,
            "headers": BEARER,
            "sdk": "anthropic",
            "platform": "bedrock",
            "idle_s": 0.5 * pace,
            "options": {"aws_region": "us-east-1"},
        }
        body = {"model": "anthropic.m", "stream": True, "messages": []}
        for _ in range(3):
            assert await read("/v1/messages", body, **given) == [start, STOP]
        assert server.connections == 1
        errors = [await failure(read("/v1/messages", body, **given)) for _ in replies[3:]]
    assert [e.kind for e in errors] == ["network", "overloaded", "empty", "stall", "garbled", "garbled", "rate"]
    assert errors[-1].retry_after == 4.0
    assert server.requests[0].path == "/model/anthropic.m/invoke-with-response-stream"
    assert server.requests[0].headers["authorization"] == "Bearer cloud-key-123"


MISSING: dict[str, tuple[dict[str, Any], str]] = {
    "bedrock without its library": (
        {"sdk": "anthropic", "platform": "bedrock", "headers": BEARER, "options": {"aws_region": "us-east-1"}}, "boto",
    ),
    "vertex without a region": ({"sdk": "anthropic", "platform": "vertex", "headers": BEARER}, "region"),
    "vertex without its library": (
        {"sdk": "anthropic", "platform": "vertex", "options": {"region": "us", "project_id": "p"}}, "google-auth",
    ),
    "foundry without a key": ({"sdk": "anthropic", "platform": "foundry"}, "api_key"),
    "azure without a version": ({"sdk": "openai", "platform": "azure", "headers": BEARER}, "api_version"),
    "a stored profile that is not there": ({"sdk": "anthropic", "platform": "profile"}, ""),
    "an option that is none": ({"sdk": "openai", "headers": BEARER, "options": {"nonsense": 1}}, "nonsense"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISSING)
async def test_what_is_missing_is_said(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("CLOUD_ML_REGION", raising=False)
    given, words = MISSING[name]
    async with playing(Reply(named(STOP))) as server:
        error = await failure(read("/v1/messages", {"model": "m", "stream": True}, base_url=server.url, **given))
        assert server.requests == [] or name.startswith("bedrock")
    assert error.kind == "config"
    assert words in str(error)
    assert "\n" not in str(error)
    assert "cloud-key-123" not in str(error)


async def test_models_of_an_openai_service() -> None:
    listing = {"object": "list", "data": [{"id": "m1", "object": "model", "created": 1, "owned_by": "me", "ctx": 7}]}
    async with playing(document(listing, 200), document({"error": {"message": "no"}}, 401)) as server:
        endpoint = Endpoint(service="s", base_url=f"{server.url}/v1", headers=BEARER)
        assert [(m["id"], m["ctx"]) for m in await list_models(endpoint, seconds=60)] == [("m1", 7)]
        assert server.requests[0].path == "/v1/models"
        assert (await failure(list_models(endpoint, seconds=60))).kind == "auth"
