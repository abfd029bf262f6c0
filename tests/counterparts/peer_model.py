"""A model on a loopback port for another program's agent: it makes the calls of a script, one in each reply.

It reads the Messages and the Chat Completions wire loosely, because what other programs send changes. Requests without the
wanted tools (titles, summaries) are answered with a word and not counted.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

from tests.servers.loopback_server import Handler, serving

Call = tuple[str, dict[str, Any]]
"""A tool, and its arguments."""
Step = Call | Callable[[list[str]], Call]
"""A tool with its arguments, or a function that makes them from the results so far."""
_ids = itertools.count(1)


class PeerModel(ThreadingHTTPServer):
    """Plays `steps` as calls of tools whose names end with those of the steps. `results` is what each call returned."""

    daemon_threads = True

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.steps = steps
        self.results: list[str] = []
        self.tools: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def reply(self, body: dict[str, Any]) -> tuple[str, Sequence[Call]]:
        """The text and the calls that answer a request."""
        names = [t.get("name") or t.get("function", {}).get("name", "") for t in body.get("tools") or ()]
        if not any(name.endswith("delegate_task") for name in names):
            return "ok", ()
        self.tools, self.results = names, _results(body["messages"])
        if len(self.results) >= len(self.steps):
            return "All done.", ()
        step = self.steps[len(self.results)]
        wanted, arguments = step(self.results) if callable(step) else step
        return "", [(next(name for name in names if name.endswith(wanted)), arguments)]


def _results(messages: list[dict[str, Any]]) -> list[str]:
    found = []
    for message in messages:
        if message.get("role") == "tool":
            found.append(_text(message["content"]))
        elif isinstance(message.get("content"), list):
            found += [_text(b.get("content", "")) for b in message["content"] if b.get("type") == "tool_result"]
    return found


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def id_in(text: str) -> str:
    """The id of a sub-agent in a result."""
    found = re.search(r"[0-9a-f-]{36}:a\.\d+", text)
    assert found, text[:500]
    return found[0]


class _Handler(Handler):
    server: PeerModel

    def do_GET(self) -> None:
        self.answer({"data": []})

    def do_HEAD(self) -> None:
        self.answer("", kind="text/plain")

    def do_POST(self) -> None:
        body = json.loads(self.body() or b"{}")
        if "count_tokens" in self.path:
            self.answer({"input_tokens": 100})
        elif "/messages" in self.path:
            self.answer(messages(*self.server.reply(body), body.get("model", "")), kind="text/event-stream")
        else:
            self.answer(chat(*self.server.reply(body), body.get("model", "")), kind="text/event-stream")


def messages(text: str, calls: Sequence[Call], model: str, usage: Mapping[str, int] | None = None) -> str:
    """A reply of the Messages API, as events."""
    number = next(_ids)
    usage = usage or {"input_tokens": 100, "output_tokens": 20}
    start = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "usage": usage,
    }
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (
            {"type": "tool_use", "id": f"toolu_{number}_{at}", "name": name, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(arguments)},
        )
        for at, (name, arguments) in enumerate(calls)
    ]
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for at, (block, delta) in enumerate(
        blocks or [({"type": "text", "text": ""}, {"type": "text_delta", "text": text})]
    ):
        events += [
            {"type": "content_block_start", "index": at, "content_block": block},
            {"type": "content_block_delta", "index": at, "delta": delta},
            {"type": "content_block_stop", "index": at},
        ]
    stop = {"stop_reason": "tool_use" if calls else "end_turn"}
    events += [{"type": "message_delta", "delta": stop, "usage": usage}, {"type": "message_stop"}]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def chat(text: str, calls: Sequence[Call], model: str, usage: Mapping[str, Any] | None = None) -> str:
    """A reply of Chat Completions, as events."""
    number = next(_ids)
    delta: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        delta["tool_calls"] = [
            {
                "index": at,
                "id": f"call_{number}_{at}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for at, (name, arguments) in enumerate(calls)
        ]
    head = {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": model}
    usage = usage or {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
    chunks = [
        head | {"choices": [{"index": 0, "delta": delta}]},
        head | {"choices": [end]},
        head | {"choices": [], "usage": usage},
    ]
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


@contextmanager
def peer_model(steps: Sequence[Step]) -> Iterator[PeerModel]:
    """The model, for the time of the block."""
    model = PeerModel(steps)
    with serving(model):
        yield model
