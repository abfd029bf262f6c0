"""A stand-in for a model service: answers at once over the three wires, in a process of its own.

The first part of the address says how it answers: `http://127.0.0.1:PORT/rounds-20/v1/messages` asks for one tool call
in each of 20 replies and then gives its answer. `GET /seen` gives the times (monotonic seconds, the same clock for all
processes) at which requests came, and forgets them. `python -m tests.benchmarks.standin` prints its port.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

WORD = " token"
TASK = "benchmark task"
BATCH = 50
"""Tasks in one call."""


class Standin:
    """One server; `seen` are the arrival times of the requests."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                came = time.monotonic()
                method, path, _ = head.split(" ", 2)
                body = await reader.readexactly(_length(head))
                if method == "GET":
                    found, self.seen = self.seen, []
                    _send_document(writer, found)
                else:
                    self.seen.append(came)
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
        if name == "rounds" and rounds < int(amount):
            calls = [("read_file", {"path": "small.txt", "offset": 1 + rounds % 30, "limit": 1 + rounds // 30})]
        elif name == "tokens":
            words = [WORD] * int(amount)
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
        wire = path.rpartition("/")[2]
        writer.write(_reply(wire, tuple(words), json.dumps(calls), rounds, bool(body.get("stream"))))

    async def _drip(self, writer: asyncio.StreamWriter, rate: int, seconds: int) -> None:
        """Send a Messages answer of `rate` pieces a second."""
        whole = _reply("messages", (WORD,) * (rate * seconds), "[]", 0, True)
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
def _reply(wire: str, words: tuple[str, ...], calls: str, number: int, stream: bool) -> bytes:
    """A whole HTTP answer; every event is a chunk of its own, as services send them."""
    assert stream, "everything here streams"
    wishes = [(f"call_{number}_{i}", name, json.dumps(args)) for i, (name, args) in enumerate(json.loads(calls))]
    events = {"messages": _messages, "responses": _responses, "completions": _chat}[wire](words, wishes)
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + chunks + b"0\r\n\r\n"


Wishes = Sequence[tuple[str, str, str]]
"""Calls as (id, name, JSON of the arguments)."""


def _messages(words: Sequence[str], wishes: Wishes) -> Iterable[bytes]:
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    start = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "stop_reason": None, "stop_sequence": None}}
    ]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
        (
            {"type": "tool_use", "id": id_, "name": name, "input": {}},
            [{"type": "input_json_delta", "partial_json": text}],
        )
        for id_, name, text in wishes
    ]
    if not wishes:
        blocks = [({"type": "text", "text": ""}, [{"type": "text_delta", "text": word} for word in words])]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "tool_use" if wishes else "end_turn", "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": len(words)}},
        {"type": "message_stop"},
    ]
    return (f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def _chat(words: Sequence[str], wishes: Wishes) -> Iterable[bytes]:
    same = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    calls = [
        {"index": i, "id": id_, "type": "function", "function": {"name": name, "arguments": text}}
        for i, (id_, name, text) in enumerate(wishes)
    ]
    deltas = [{"role": "assistant", "tool_calls": [call]} for call in calls]
    deltas = deltas or [{"role": "assistant", "content": word} for word in words]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls" if wishes else "stop"})
    for choice in choices:
        yield f"data: {json.dumps({**same, 'choices': [choice]})}\n\n".encode()
    usage = {"prompt_tokens": 10, "completion_tokens": len(deltas), "total_tokens": 10 + len(deltas)}
    yield f"data: {json.dumps({**same, 'choices': [], 'usage': usage})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def _responses(words: Sequence[str], wishes: Wishes) -> Iterable[bytes]:
    answer = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "in_progress", "output": [],
              "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip
    events: list[dict[str, Any]] = [{"type": "response.created", "response": answer}]
    output: list[dict[str, Any]] = []
    for index, (id_, name, text) in enumerate(wishes):
        item: dict[str, Any] = {
            "type": "function_call",
            "id": f"f{index}",
            "call_id": id_,
            "name": name,
            "arguments": "",
        }
        place: dict[str, Any] = {"item_id": f"f{index}", "output_index": index}
        output.append({**item, "arguments": text, "status": "completed"})
        events += [
            {"type": "response.output_item.added", "output_index": index, "item": item},
            {"type": "response.function_call_arguments.delta", **place, "delta": text},
            {"type": "response.function_call_arguments.done", **place, "arguments": text},
            {"type": "response.output_item.done", "output_index": index, "item": output[-1]},
        ]
    if not wishes:
        part = {"type": "output_text", "text": "".join(words), "annotations": []}
        item = {"type": "message", "id": "t", "role": "assistant", "content": [], "status": "in_progress"}
        place = {"item_id": "t", "output_index": 0, "content_index": 0}
        output.append({**item, "content": [part], "status": "completed"})
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
            *({"type": "response.output_text.delta", **place, "delta": word} for word in words),
            {"type": "response.output_text.done", **place, "text": part["text"]},
            {"type": "response.content_part.done", **place, "part": part},
            {"type": "response.output_item.done", "output_index": 0, "item": output[-1]},
        ]
    counted = {"input_tokens": 10, "output_tokens": len(words), "total_tokens": 10 + len(words),
               "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
    done = {**answer, "status": "completed", "output": output, "usage": counted}
    events.append({"type": "response.completed", "response": done})
    return (
        f"event: {e['type']}\ndata: {json.dumps({**e, 'sequence_number': i})}\n\n".encode()
        for i, e in enumerate(events)
    )


async def main() -> None:
    server = await asyncio.start_server(Standin().serve, "127.0.0.1", 0, limit=256 * 1024 * 1024, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
