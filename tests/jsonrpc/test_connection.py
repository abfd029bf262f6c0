"""Two connections of JSON-RPC with each other, in both framings, and one with another side that does as it likes."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from friday_cli.core.protocol.errors import FridayError
from friday_cli.jsonrpc.connection import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ConnectionEnded,
    Dialect,
    RpcConnection,
    RpcError,
)
from friday_cli.jsonrpc.framing import ContentLength, Framing, FramingError, Lines

LONGEST = 2_000
ENDED = b""


class Pipe:
    """One end: `read` gives what the other end wrote, in small pieces."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[bytes] = asyncio.Queue()
        self.other: Pipe
        self.written = b""

    async def read(self) -> bytes:
        return await self.came.get()

    def write(self, data: bytes) -> None:
        self.written += data
        for at in range(0, len(data), 7):
            self.other.came.put_nowait(data[at : at + 7])


def ends() -> tuple[Pipe, Pipe]:
    one, two = Pipe(), Pipe()
    one.other, two.other = two, one
    return one, two


class Peer:
    """A connection that keeps what it is told, and answers with `answers`."""

    def __init__(self, pipe: Pipe, framing: Framing, **answers: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.heard = asyncio.Event()
        self._answers = answers
        self.connection = RpcConnection(
            pipe,
            framing,
            Dialect("$/cancel"),
            handle=lambda method, params: self._answers[method](params),
            told=self._tell,
            report_defect=lambda error: f"defect: {type(error).__name__}",
        )
        self.serving = asyncio.create_task(self.connection.serve())

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        self.told.append((method, params))
        self.heard.set()


async def double(params: dict[str, Any]) -> Any:
    return {"twice": 2 * params["n"]}


async def refuse(params: dict[str, Any]) -> Any:
    raise RpcError(INVALID_PARAMS, "n: expected a number.")


async def fail(params: dict[str, Any]) -> Any:
    raise FridayError("There is no model.")


async def break_down(params: dict[str, Any]) -> Any:
    raise ZeroDivisionError


async def never(params: dict[str, Any]) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("kind", [Lines, ContentLength])
async def test_both_sides_ask_tell_and_end(kind: type[Lines | ContentLength]) -> None:
    one, two = ends()
    left = Peer(one, kind(LONGEST), double=double)
    right = Peer(two, kind(LONGEST), double=double, refuse=refuse, fail=fail, break_down=break_down, never=never)
    asked = [left.connection.request("double", {"n": n}) for n in range(3)]
    assert await asyncio.gather(*asked, right.connection.request("double", {"n": 21})) == [
        {"twice": 0}, {"twice": 2}, {"twice": 4}, {"twice": 42},
    ]  # fmt: skip
    for method, code, text in (
        ("refuse", INVALID_PARAMS, "n: expected a number."),
        ("fail", INTERNAL_ERROR, "There is no model."),
        ("break_down", INTERNAL_ERROR, "defect: ZeroDivisionError"),
    ):
        with pytest.raises(RpcError) as failed:
            await left.connection.request(method, {})
        assert (failed.value.code, failed.value.message) == (code, text)
    left.connection.notify("hello", {"text": "two\nlines"})
    waiting = asyncio.create_task(left.connection.request("never", {}))
    await right.heard.wait()
    right.heard.clear()
    waiting.cancel()
    await right.heard.wait()
    assert right.told == [("hello", {"text": "two\nlines"}), ("$/cancel", {"id": 7})]
    waiting = asyncio.create_task(left.connection.request("never", {}))
    await asyncio.sleep(0)
    one.came.put_nowait(ENDED)
    two.came.put_nowait(ENDED)
    with pytest.raises(ConnectionEnded):
        await waiting
    await asyncio.gather(left.serving, right.serving)
    with pytest.raises(ConnectionEnded):
        await left.connection.request("double", {"n": 1})


async def said(*messages: bytes) -> tuple[list[dict[str, Any]], Peer]:
    """What is answered to these lines, and who answered."""
    mine, theirs = ends()
    peer = Peer(theirs, Lines(LONGEST, most_parts=50), double=double)
    for message in messages:
        theirs.came.put_nowait(message + b"\n")
    theirs.came.put_nowait(b'{"id": "last", "method": "double", "params": {"n": 1}}\n')
    while b'"last"' not in theirs.written and not peer.serving.done():
        await mine.came.get()
    theirs.came.put_nowait(ENDED)
    return [json.loads(line) for line in theirs.written.splitlines()], peer


@pytest.mark.parametrize(("message", "ident", "code"), [
    (b"no JSON", None, PARSE_ERROR), (b"[" * 40, None, PARSE_ERROR), (b"\xff", None, PARSE_ERROR),
    (b"[1]", None, INVALID_REQUEST), (b'{"id": 3, "method": 4}', 3, INVALID_REQUEST),
    (b'{"id": 3, "method": "double", "params": [1]}', 3, INVALID_REQUEST),
    (b'{"id": 3, "method": "double", "params": "' + b"x" * LONGEST + b'"}', 3, INVALID_REQUEST),
    (b'{"id": 3, "method": "double", "params": [' + b"[]," * 50 + b"[]]}", 3, INVALID_REQUEST),
])  # fmt: skip
async def test_what_is_no_message_gets_an_error_and_the_next_request_an_answer(
    message: bytes, ident: int | None, code: int
) -> None:
    (refused, answered), peer = await said(message)
    assert (refused["id"], refused["error"]["code"]) == (ident, code)
    assert answered == {"jsonrpc": "2.0", "id": "last", "result": {"twice": 2}}
    await peer.serving


@pytest.mark.parametrize(("given", "twice"), [
    (b'"\\ud83d"', "??"), (b'"\\ud83d\\udc4d"', "👍👍"), (b"12345678901234567890", 24691357802469135780), (b"1e400", math.inf),
])  # fmt: skip
async def test_json_of_javascript_and_of_python_is_read(given: bytes, twice: object) -> None:
    """JavaScript escapes half of a character that was cut, and Python writes numbers of any size."""
    (first, _), peer = await said(b'{"id": 3, "method": "double", "params": {"n": %b}}' % given)
    assert first["result"] == {"twice": twice}
    await peer.serving


async def test_answers_that_nobody_waits_for_and_empty_lines_are_left_out() -> None:
    found, peer = await said(
        b"", b" ", b'{"id": 1, "result": 2}', b'{"id": true, "result": 2}', b'{"id": [], "error": {}}'
    )
    assert [one["id"] for one in found] == ["last"]
    await peer.serving


async def test_an_answer_that_is_too_long_fails_its_request_alone() -> None:
    one, two = ends()
    peer = Peer(one, Lines(LONGEST))
    asked = [asyncio.create_task(peer.connection.request("double", {})) for _ in range(2)]
    await two.came.get()
    one.came.put_nowait(b'{"id": 1, "result": {"method": "' + b"x" * LONGEST + b'"}}\n{"id": 2, "result": "short"}\n')
    assert await asked[1] == "short"
    with pytest.raises(RpcError, match="too long"):
        await asked[0]
    one.came.put_nowait(ENDED)
    await peer.serving


async def test_a_long_message_without_an_id_ends_the_connection() -> None:
    one, two = ends()
    peer = Peer(one, Lines(LONGEST))
    asked = asyncio.create_task(peer.connection.request("double", {}))
    await two.came.get()
    one.came.put_nowait(b"x" * (LONGEST + 1) + b"\n")
    with pytest.raises(ConnectionEnded):
        await asked
    with pytest.raises(FramingError, match="2,001 bytes"):
        await peer.serving
