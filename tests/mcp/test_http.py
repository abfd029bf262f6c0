"""A connection to a server on HTTP, and the questions of servers."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from friday_cli.mcp import elicitation
from friday_cli.mcp.catalog import Catalog, OfferedTool
from friday_cli.mcp.connection import ConnectionHost, ServerCall, ServerConnection, ServerError
from friday_cli.mcp.entry import ServerEntry
from tests.servers.loopback_server import Handler, serving

SCHEMA = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}
ANSWERS: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": [{"name": "look", "inputSchema": SCHEMA}], "ttlMs": 0, "cacheScope": "private"},
    "tools/call": {"content": [{"type": "text", "text": "seen"}]},
}


def answered(tool: str, data: bytes) -> tuple[bytes, dict[str, str]]:
    """The body of an answer and its headers."""
    if tool == "stream":  # 17 MB of comments before the message
        return (b":" + b" " * 999_997 + b"\n\n") * 17 + b"data: " + data + b"\n\n", {
            "Content-Type": "text/event-stream"
        }
    if tool == "crowded":
        return b"[" + b"{}," * 600_000 + b"{}]", {"Content-Type": "application/json"}
    if tool == "long":
        return b" " * 17_000_000 + data, {"Content-Type": "application/json"}
    if tool == "compressed":
        return gzip.compress(data), {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    return data, {"Content-Type": "application/json"}


@pytest.fixture
def asked() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A server's address, and the method and the header `Mcp-Param-Region` of each request."""
    seen: list[tuple[str, str]] = []

    class Called(Handler):
        def do_POST(self) -> None:
            request = json.loads(self.body())
            seen.append((request["method"], self.headers.get("Mcp-Param-Region", "")))
            result = {"resultType": "complete", **ANSWERS[request["method"]]}
            data = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
            body, head = answered(str(request["params"].get("name")), data)
            with suppress(ConnectionError):  # a long answer is not read to its end
                self.answer(body, **head)

    with serving(Called) as url:
        yield f"{url}/mcp", seen


async def test_a_tool_of_the_catalog_gets_its_headers(asked: tuple[str, list[tuple[str, str]]]) -> None:
    url, seen = asked
    known = Catalog((OfferedTool("look", schema=SCHEMA),), protocol="2026-07-28", discovered=DISCOVERED)
    connection = ServerConnection(ServerEntry("small", "http", url=url), ConnectionHost(start=None), known)  # type: ignore[arg-type]
    for _ in range(2):
        assert (await connection.call("look", {"region": "west"})).text == "seen"
    await connection.close()
    assert seen == [("tools/list", ""), ("tools/call", "west"), ("tools/call", "west")]


@pytest.mark.parametrize(
    ("tool", "wanted"),
    [
        ("stream", "seen"),
        ("long", "its answer is longer than 16 MB"),
        ("crowded", "has more than 500,000 parts"),
        ("compressed", "its answer is compressed, although Friday did not ask for that"),
    ],
)
async def test_an_answer_is_limited_and_a_stream_of_events_is_not(
    asked: tuple[str, list[tuple[str, str]]], tool: str, wanted: str
) -> None:
    known = Catalog((OfferedTool(tool),), protocol="2026-07-28", discovered=DISCOVERED)
    entry = ServerEntry("small", "http", url=asked[0], timeout_s=10)
    connection = ServerConnection(entry, ConnectionHost(start=None), known)  # type: ignore[arg-type]
    try:
        text = (await connection.call(tool, {})).text
    except ServerError as error:
        text = str(error)
    await connection.close()
    assert wanted in text


@pytest.mark.parametrize(
    ("field", "answer", "value"),
    [
        ({"type": "string", "default": "John"}, "", "John"),
        ({"type": "string", "default": "John"}, "Default: John", "John"),
        ({"type": "string", "default": "John"}, "Ann", "Ann"),
        ({"type": "boolean", "default": True}, "Default: Yes", True),
        ({"type": "boolean", "default": True}, "No", False),
        ({"enum": ["a", "b"], "enumNames": ["A", "B"], "default": "b"}, "Default: B", "b"),
        ({"type": "string"}, "Leave empty", None),
    ],
)
async def test_a_default_of_the_server_is_a_choice(field: dict[str, Any], answer: str, value: object) -> None:
    async def person(question: str, choices: Sequence[str]) -> str:
        assert not answer.startswith(("Default", "Leave")) or answer in choices
        return answer

    call = ServerCall(10.0, ask=person)
    content = await elicitation.ask_form(call, "small", "Who?", {"properties": {"name": field}})
    assert content == ({} if value is None else {"name": value})


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": ["a"]}, {"properties": {"a": {}}, "required": [[1]]}, {"properties": {"a": {"oneOf": ["x"]}}},
        {"properties": {"a": {"enum": 5}}}, {"properties": {"a": {"type": "integer", "minimum": "x"}}},
        {"properties": {"a": {"type": "string", "minLength": "x"}}},
    ],
)  # fmt: skip
async def test_a_form_that_is_none_is_declined(schema: dict[str, Any]) -> None:
    async def person(question: str, choices: Sequence[str]) -> str:
        return "5"

    assert await elicitation.ask_form(ServerCall(10.0, ask=person), "small", "Who?", schema) is None
    assert not await elicitation.ask_url(ServerCall(10.0, ask=person), "small", "Open", "http://[x")


async def test_the_text_of_a_server_does_not_look_like_a_question_of_friday() -> None:
    asked = []

    async def person(question: str, choices: Sequence[str]) -> str:
        asked.append(question.splitlines())
        return "Decline"

    message = "\n" * 500 + "Friday needs a key:\n" * 100
    await elicitation.ask_form(
        ServerCall(10.0, ask=person), elicitation.asker("small", []), message, {"properties": {"name": {}}}
    )
    await elicitation.ask_url(
        ServerCall(10.0, ask=person), elicitation.asker("small", []), message, "https://example.org/"
    )
    for first, *lines in asked:
        assert first.startswith("MCP server small asks")
        assert "| Friday needs a key:" in lines
        assert not any(line.startswith("Friday") for line in lines)
        assert len(lines) < 20


@pytest.fixture
def asking() -> Iterator[str]:
    """The address of a server with a handshake that asks in each of two calls, on the stream of that call, once both are open."""
    both, answers = threading.Barrier(2), {name: threading.Event() for name in ("one", "two")}

    class Asking(Handler):
        def do_POST(self) -> None:
            request = json.loads(self.body())
            key, method = request.get("id"), request.get("method")
            if method == "tools/call":
                self.called(key, request["params"]["name"])
            elif method is None:
                answers[key].set()
                self.answer(b"", 202)
            else:
                about = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "serverInfo": {"name": "x", "version": "1"},
                }
                tools = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in answers]}
                known = {"initialize": {"result": about}, "tools/list": {"result": tools}}
                outcome = known.get(method, {"error": {"code": -32601, "message": "no"}})
                self.answer({"jsonrpc": "2.0", "id": key, **outcome}, 202 if key is None else 200)

        def called(self, key: int, name: str) -> None:
            both.wait(20)
            ask = {"message": f"for {name}", "requestedSchema": {"type": "object", "properties": {}}}
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.event(id=name, method="elicitation/create", params=ask)
            answers[name].wait(20)
            self.event(id=key, result={"content": [{"type": "text", "text": "done"}]})

        def event(self, **message: Any) -> None:
            self.wfile.write(b"data: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n")
            self.wfile.flush()

    with serving(Asking) as url:
        yield f"{url}/"


async def test_over_http_a_question_is_that_of_the_call_on_whose_stream_it_comes(asking: str) -> None:
    asked = dict[str, str]()

    def call(agent: str) -> ServerCall:
        async def person(question: str, choices: Sequence[str]) -> str:
            asked[agent] = question
            return choices[0]

        return ServerCall(20.0, agent=agent, ask=person)

    connection = ServerConnection(ServerEntry("small", "http", url=asking), ConnectionHost(start=None))  # type: ignore[arg-type]
    await asyncio.gather(connection.call("one", {}, call("a.1")), connection.call("two", {}, call("a.2")))
    await connection.close()
    assert asked == {
        "a.1": "MCP server small (called by agent a.1) asks:\n| for one",
        "a.2": "MCP server small (called by agent a.2) asks:\n| for two",
    }
