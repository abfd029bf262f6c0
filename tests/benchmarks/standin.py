"""A stand-in for a model service: answers at once over the three wires, in a process of its own.

The first part of the address says how it answers: `http://127.0.0.1:PORT/rounds-20/v1/messages` asks for one tool call
in each of 20 replies and then gives its answer. `GET /seen` gives the times (monotonic seconds, the same clock for all
processes) at which requests came, and forgets them. `python -m tests.benchmarks.standin` prints its port.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from functools import cache
from typing import Any

WORD = " token"
TASK = "benchmark task"


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
        words: Iterable[str] = ["Hello", "."]
        call: tuple[str, dict[str, Any]] | None = None
        if name == "rounds" and rounds < int(amount):
            call = ("read_file", {"path": "small.txt", "offset": 1 + rounds})
        elif name == "tokens":
            words = [WORD] * int(amount)
        elif (
            name == "children" and TASK in json.dumps(messages[:1]) and "delegate_tasks" not in json.dumps(messages[:1])
        ):
            await asyncio.sleep(float(more or 1))
        elif name == "children" and not rounds:
            tasks = [{"profile": "summarizer", "task": f"{TASK} {i}"} for i in range(int(amount))]
            call = ("delegate_tasks", {"tasks": tasks})
        wire = path.rpartition("/")[2]
        writer.write(_reply(wire, tuple(words), json.dumps(call) if call else "", rounds, bool(body.get("stream"))))


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
def _reply(wire: str, words: tuple[str, ...], call: str, number: int, stream: bool) -> bytes:
    """A whole HTTP answer; every event is a chunk of its own, as services send them."""
    assert stream, "everything here streams"
    name, arguments = json.loads(call) if call else ("", {})
    events = {"messages": _messages, "responses": _responses, "completions": _chat}[wire](
        words, name, json.dumps(arguments), f"call_{number}"
    )
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        + chunks
        + b"0\r\n\r\n"
    )


def _messages(words: Iterable[str], name: str, arguments: str, call_id: str) -> Iterable[bytes]:
    usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    start = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "stop_reason": None, "stop_sequence": None}}
    ]
    if name:
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": arguments}]
    else:
        block = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": word} for word in words]
    events.append({"type": "content_block_start", "index": 0, "content_block": block})
    events += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    stop = {"stop_reason": "tool_use" if name else "end_turn", "stop_sequence": None}
    events += [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": len(deltas)}},
        {"type": "message_stop"},
    ]
    return (f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def _chat(words: Iterable[str], name: str, arguments: str, call_id: str) -> Iterable[bytes]:
    same = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    if name:
        call = {"index": 0, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        deltas: list[dict[str, Any]] = [{"role": "assistant", "tool_calls": [call]}]
    else:
        deltas = [{"role": "assistant", "content": word} for word in words]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls" if name else "stop"})
    for choice in choices:
        yield f"data: {json.dumps({**same, 'choices': [choice]})}\n\n".encode()
    usage = {"prompt_tokens": 10, "completion_tokens": len(deltas), "total_tokens": 10 + len(deltas)}
    yield f"data: {json.dumps({**same, 'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n".encode()


def _responses(words: Iterable[str], name: str, arguments: str, call_id: str) -> Iterable[bytes]:
    words = list(words)
    answer = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "in_progress", "output": [],
              "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip
    if name:
        item: dict[str, Any] = {"type": "function_call", "id": "f", "call_id": call_id, "name": name, "arguments": ""}
        done = {**item, "arguments": arguments, "status": "completed"}
        deltas = [
            {"type": "response.function_call_arguments.delta", "item_id": "f", "output_index": 0, "delta": arguments}
        ]
        closing = [
            {"type": "response.function_call_arguments.done", "item_id": "f", "output_index": 0, "arguments": arguments}
        ]
    else:
        text = "".join(words)
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"type": "message", "id": "t", "role": "assistant", "content": [], "status": "in_progress"}
        done = {**item, "content": [part], "status": "completed"}
        place = {"item_id": "t", "output_index": 0, "content_index": 0}
        deltas = [{"type": "response.output_text.delta", **place, "delta": word} for word in words]
        closing = [
            {"type": "response.output_text.done", **place, "text": text},
            {"type": "response.content_part.done", **place, "part": part},
        ]
        deltas.insert(0, {"type": "response.content_part.added", **place, "part": {**part, "text": ""}})
    counted = {"input_tokens": 10, "output_tokens": len(words), "total_tokens": 10 + len(words),
               "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
    events = [
        {"type": "response.created", "response": answer},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *deltas,
        *closing,
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {
            "type": "response.completed",
            "response": {**answer, "status": "completed", "output": [done], "usage": counted},
        },
    ]
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
