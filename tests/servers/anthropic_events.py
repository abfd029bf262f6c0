"""Events of the Messages API, as Anthropic streams them."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]


def start(message_id: str = "msg_1", **usage: Any) -> Event:
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1, **usage},
    }
    return {"type": "message_start", "message": message}


def block(index: int, content: Event, *deltas: Event, stop: bool = True) -> list[Event]:
    events = [{"type": "content_block_start", "index": index, "content_block": content}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}] if stop else events


def text(index: int, *pieces: str, stop: bool = True) -> list[Event]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": p} for p in pieces), stop=stop)


def thinking(index: int, *pieces: str, signature: str = "sig==") -> list[Event]:
    deltas: list[Event] = [{"type": "thinking_delta", "thinking": p} for p in pieces]
    deltas.append({"type": "signature_delta", "signature": signature})
    return block(index, {"type": "thinking", "thinking": "", "signature": ""}, *deltas)


def call(index: int, call_id: str, name: str, *pieces: str, stop: bool = True, **more: Any) -> list[Event]:
    content = {"type": "tool_use", "id": call_id, "name": name, "input": {}, **more}
    deltas: list[Event] = [{"type": "input_json_delta", "partial_json": p} for p in pieces]
    return block(index, content, *deltas, stop=stop)


def end(stop: str | None = "end_turn", *, output: int = 7, details: Event | None = None, **usage: Any) -> list[Event]:
    delta = {"stop_reason": stop, "stop_sequence": None, "stop_details": details}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": output, **usage}},
        {"type": "message_stop"},
    ]
