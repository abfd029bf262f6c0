"""A stand-in for a model service: answers at once over the three wires, in a process of its own.

The first part of the address says how it answers: `http://127.0.0.1:PORT/rounds-20/v1/messages` asks for one tool call
in each of 20 replies and then gives its answer. `GET /seen` gives the times (monotonic seconds, the same clock for all
processes) at which requests came, and forgets them; `GET /bodies` gives the short bodies among the last ones. `python -m tests.benchmarks.standin` prints its port; with a certificate
and its key as arguments a second one, for https.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any

from tests.servers.fake_model_server import Say, Wire, sse
from tests.servers.fake_model_server import events as reply_events

WORD = " token"
LONGEST = 30_000
"""Tokens of an answer that is always one reply; of a longer one, a reply has as many as the request allows."""
TASK = "benchmark task"
BATCH = 50
"""Tasks in one call."""
KEPT = 50_000
"""Bytes of a body that is kept."""
WRITERS = [
    f"echo {name} | tee {name}.txt"
    for name in [
        "oak",
        "elm",
        "ash",
        "fir",
        "yew",
        "box",
        "bay",
        "fig",
        "nut",
        "pea",
        "rye",
        "oat",
        "hop",
        "tea",
        "ivy",
        "lily",
        "rose",
        "rush",
        "reed",
        "moss",
    ]
]
"""Commands that write a file, unlike enough for a conversation that does not go in circles."""
WIRE_OF: dict[str, Wire] = {"messages": "messages", "responses": "responses", "completions": "chat"}
"""The wire of an address, by its last part."""


class Standin:
    """One server; `seen` are the arrival times of the requests, `bodies` the last bodies of at most `KEPT` bytes."""

    def __init__(self) -> None:
        self.seen: list[float] = []
        self.bodies: deque[str] = deque(maxlen=100)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                came = time.monotonic()
                method, path, _ = head.split(" ", 2)
                body = await reader.readexactly(_length(head))
                if path == "/bodies":
                    _send_document(writer, list(self.bodies))
                    self.bodies.clear()
                elif method == "GET":
                    found, self.seen = self.seen, []
                    _send_document(writer, found)
                else:
                    self.seen.append(came)
                    if len(body) <= KEPT:
                        self.bodies.append(body.decode())
                    _, style, rest = path.split("/", 2)
                    await self._answer(writer, style, rest, json.loads(body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, style: str, path: str, body: dict[str, Any]) -> None:
        name, _, number = style.partition("-")
        amount, _, more = number.partition("-")
        messages = body.get("messages") or body.get("input") or []
        rounds = sum(_is_result(m) for m in messages)
        words: Sequence[str] = ["Hello", "."]
        calls: list[tuple[str, dict[str, Any]]] = []
        stop = ""
        if name == "rounds" and rounds < int(amount):
            calls = [("read_file", {"path": "small.txt", "offset": 1 + rounds % 30, "limit": 1 + rounds // 30})]
        elif name == "bash" and rounds < len(WRITERS):
            await asyncio.sleep(0 if rounds else float(amount or 0))
            calls = [("bash", {"command": WRITERS[rounds]})]
        elif name == "tokens":
            sent = json.dumps(messages).count(WORD) if int(amount) > LONGEST else 0  # in earlier replies
            most = body.get("max_tokens") or body.get("max_completion_tokens") or body["max_output_tokens"]
            words = [WORD] * min(int(amount) - sent, most)
            stop = "max_tokens" if sent + len(words) < int(amount) else ""
        elif name == "prose":
            words = prose(int(amount))
        elif name == "counted":
            words = [f"answer{len(messages)}"]
        elif name in ("children", "drip") and TASK in json.dumps(messages[:1]):
            if name == "drip":
                return await self._drip(writer, *map(int, more.split("-")))
            await asyncio.sleep(float(more))
        elif name in ("children", "drip") and not rounds:
            tasks = [{"profile": "summarizer", "task": f"{TASK} {i}"} for i in range(int(amount))]
            calls = [("delegate_tasks", {"tasks": tasks[at : at + BATCH]}) for at in range(0, len(tasks), BATCH)]
        assert body.get("stream"), "every answer streams"
        writer.write(_reply(WIRE_OF[path.rpartition("/")[2]], tuple(words), json.dumps(calls), stop))

    async def _drip(self, writer: asyncio.StreamWriter, rate: int, seconds: int) -> None:
        """Send a Messages answer of `rate` pieces a second."""
        whole = _reply("messages", (WORD,) * (rate * seconds), "[]")
        head, _, body = whole.partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        pieces = body.split(b"\n\n\r\n")
        begun = time.monotonic()
        for number, piece in enumerate(pieces):
            writer.write(piece + (b"\n\n\r\n" if number < len(pieces) - 1 else b""))
            await writer.drain()  # raises when the program is gone
            if (early := begun + number / rate - time.monotonic()) > 0.001:
                await asyncio.sleep(early)


@cache
def prose(amount: int) -> Sequence[str]:
    """An answer of `amount` tokens in Markdown, as models write: paragraphs, lists, code. Its last word is "theend"."""
    paragraph = ["\n\nThis", *[" is", " **one**", " of", " the", " `words`", " of", " an", " answer"] * 7, "."]
    points = ["\n\n- A", *[" point", " of"] * 8, " it", "\n- Another", *[" of", " them"] * 8]
    code = ["\n\n```python", "\ndef", " f(x):", *["\n    x", " +=", " 1"] * 8, "\n    return", " x", "\n```"]
    page = [*paragraph, *paragraph, *points, *paragraph, *code]
    return [*(page * (amount // len(page) + 1))[: amount - 1], "\n\ntheend"]


def _length(head: str) -> int:
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            return int(value)
    return 0


def _is_result(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return (
        message.get("role") == "tool"
        or message.get("type") == "function_call_output"
        or (isinstance(content, list) and any(part.get("type") == "tool_result" for part in content))
    )


def _send_document(writer: asyncio.StreamWriter, value: object) -> None:
    body = json.dumps(value).encode()
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )


@cache
def _reply(wire: Wire, words: tuple[str, ...], calls: str, stop: str = "") -> bytes:
    """A whole HTTP answer; every event is a chunk, as services send them."""
    say = Say(() if calls != "[]" else words, json.loads(calls), stop=stop, usage=(10, len(words), 0))
    events = (sse(wire, [event]) for event in reply_events(wire, say))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + chunks + b"0\r\n\r\n"


async def main() -> None:
    standin = Standin()
    contexts: list[ssl.SSLContext | None] = [None]
    if sys.argv[1:]:
        contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        contexts[1].load_cert_chain(*sys.argv[1:3])
    servers = [
        await asyncio.start_server(standin.serve, "127.0.0.1", 0, limit=256 * 1024 * 1024, backlog=512, ssl=context)
        for context in contexts
    ]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
