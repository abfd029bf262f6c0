"""A model that is a function, behind a loopback server that speaks the three wires and is as strict as the real ones.

    with thinking(rule, wire="chat") as server:
        ... server.url, server.turns, server.complaints

`rule(turn)` sees who asks and what was said, and gives a `Say`, or a `Reply` of `play` for a fault. An agent is known by
the first `#word` in its first message ("root" without one). The server runs in a thread of its own, so that a test may
run Friday in its own process or another one.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from friday_cli.core.protocol.provider import NO_TOOLS
from tests.servers import anthropic_events as claude
from tests.servers import openai_events as openai
from tests.servers.script_player import Asked, Reply, Server, Step, Wait, document, named, shut, unnamed

Wire = Literal["messages", "responses", "chat"]
WIRES: tuple[Wire, ...] = ("messages", "responses", "chat")
_ids = itertools.count(1)


@dataclass(frozen=True)
class Say:
    """One reply: text in pieces, then calls as (tool, arguments); arguments may be raw text, well formed or not.

    `stop` is the end in the words of Anthropic ("" for what fits); `usage` is (input, output, read from a cache).
    `meet` makes the reply wait until so many requests with the same `meet` are there at once.
    """

    text: str | Sequence[str] = ""
    calls: Sequence[tuple[str, Mapping[str, Any] | str]] = ()
    thinking: str = ""
    stop: str = ""
    usage: tuple[int, int, int] | None = (50, 5, 0)
    delay_s: float = 0.0
    meet: int = 0

    @property
    def pieces(self) -> Sequence[str]:
        return [p for p in ([self.text] if isinstance(self.text, str) else self.text) if p]


@dataclass
class Turn:
    """One request, the same for every wire. `turn` counts the replies in its history, `tries` how often this agent
    asked at this turn before; `forbidden` tells that no tool may be called."""

    wire: Wire
    body: dict[str, Any]
    headers: dict[str, str]
    agent: str = "root"
    turn: int = 0
    tries: int = 0
    system: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """Role, text, calls (id, name, arguments), results (id, text) and images of every message."""
    tools: tuple[str, ...] = ()
    forbidden: bool = False

    @property
    def last(self) -> str:
        """The words of the newest message."""
        message = self.messages[-1]
        return "\n".join([message["text"], *(text for _, text in message["results"])]).strip()

    @property
    def results(self) -> list[str]:
        """The results of the newest calls, in order."""
        return [text for m in self.messages[_last_reply(self.messages) :] for _, text in m["results"]]

    @property
    def asked_for(self) -> str:
        """All that a person, a parent or the harness has said."""
        return "\n".join(m["text"] for m in self.messages if m["role"] == "user")


Rule = Callable[[Turn], Say | Reply]


def _last_reply(messages: list[dict[str, Any]]) -> int:
    return max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=0)


class FakeModelServer(Server):
    """The server; `turns` in the order in which they came, `most` of them at once, `complaints` about the requests.
    `models` are the ids that it lists, `listed` further fields of theirs. `offline` closes its port and resets all connections, `online` opens it again;
    both may be called from any thread."""

    offline: Callable[[], object]
    online: Callable[[], object]

    def __init__(self, rule: Rule, wire: Wire) -> None:
        super().__init__(())
        self.wire = wire
        self.rule = rule
        self.turns: list[Turn] = []
        self.complaints: list[str] = []
        self.models: Sequence[str] = ("claude-test", "m-1")
        self.listed: Mapping[str, Mapping[str, Any]] = {}
        self.at_once = self.most = 0
        self.refreshes: list[dict[str, Any]] = []
        self.cached = 0
        """Tokens that a request without a reply reads from the cache."""
        self.left_early = 0
        self._tries: Counter[tuple[str, int]] = Counter()
        self._meeting: dict[int, list[asyncio.Event]] = {}

    def by(self, agent: str) -> list[Turn]:
        """The requests of one agent."""
        return [t for t in self.turns if t.agent == agent]

    @property
    def base(self) -> str:
        """The base URL of the wire."""
        return self.url if self.wire == "messages" else f"{self.url}/v1"

    def _reply_to(self, asked: Asked) -> Reply:
        if asked.method == "GET":
            rows = [
                {"id": name, "object": "model", "type": "model", **self.listed.get(name, {})} for name in self.models
            ]
            return document({"object": "list", "data": rows, "has_more": False}, 200)
        if asked.json.get("max_tokens") == 0:
            return self._refreshed(asked.json)
        turn = read(self.wire, asked)
        if problem := "; ".join(judge(turn, asked)):
            self.complaints.append(problem)
            return document({"error": {"type": "invalid_request_error", "message": problem}}, 400)
        turn.tries = self._tries[turn.agent, turn.turn]
        self._tries[turn.agent, turn.turn] += 1
        self.turns.append(turn)
        try:
            said = self.rule(turn)
        except Exception as error:  # what a rule asserts fails the test, not the connection
            self.complaints.append(f"{turn.agent}, turn {turn.turn}: {error!r}")
            return document({"error": {"type": "invalid_request_error", "message": "the rule failed"}}, 400)
        if isinstance(said, Reply):
            return said
        before = [Wait(said.delay_s)] if said.delay_s else []
        if said.meet:
            before.append(Wait(event=self._met(said.meet)))
        return reply(self.wire, said, *before)

    def _refreshed(self, body: dict[str, Any]) -> Reply:
        """Answers a request that only uses the cache, as strict as Anthropic ("Prompt caching")."""
        kind = body.get("thinking", {}).get("type")
        if "stream" in body or kind == "enabled" or "format" in body.get("output_config", {}):
            self.complaints.append("max_tokens 0 with a stream, a budget of thinking or a format")
        self.refreshes.append(body)
        usage = {"input_tokens": 0, "cache_read_input_tokens": self.cached, "output_tokens": 0}
        return document({**claude.start()["message"], "content": [], "stop_reason": "max_tokens", "usage": usage}, 200)

    def _met(self, size: int) -> asyncio.Event:
        """Set once `size` requests wait for it together."""
        waiting = self._meeting.setdefault(size, [])
        waiting.append(asyncio.Event())
        if len(waiting) < size:
            return waiting[-1]
        for event in waiting:
            event.set()
        return self._meeting.pop(size)[-1]

    async def _play(self, reply: Reply, asked: Asked, writer: asyncio.StreamWriter) -> bool:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        done = asyncio.ensure_future(super()._play(reply, asked, writer))
        left = asyncio.ensure_future(asked.left.wait())
        try:
            await asyncio.wait((done, left), return_when=asyncio.FIRST_COMPLETED)
            self.left_early += asked.left.is_set()
            return done.done() and done.result()
        finally:
            self.at_once -= 1
            for task in (done, left):
                task.cancel()
            await asyncio.gather(done, left, return_exceptions=True)


@contextmanager
def thinking(rule: Rule, wire: Wire = "messages") -> Iterator[FakeModelServer]:
    """A brain for the time of the block."""
    model_server = FakeModelServer(rule, wire)
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()
    listener: asyncio.Server

    async def listen(port: int = 0) -> int:
        nonlocal listener
        listener = await asyncio.start_server(model_server._serve, "127.0.0.1", port, limit=64 * 1024 * 1024)
        return int(listener.sockets[0].getsockname()[1])

    async def serve() -> None:
        port = await listen()
        model_server.url = f"http://127.0.0.1:{port}"
        model_server.offline = lambda: loop.call_soon_threadsafe(go_offline)
        model_server.online = lambda: asyncio.run_coroutine_threadsafe(listen(port), loop).result(10)
        ready.set()
        await stop.wait()
        await shut(listener)

    def go_offline() -> None:
        listener.close()
        model_server.reset_connections()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield model_server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


# ---- requests ---------------------------------------------------------------------


def read(wire: Wire, asked: Asked) -> Turn:
    """The request in common words."""
    body = asked.json
    turn = Turn(wire, body, asked.headers)
    reader = {"messages": _read_messages, "responses": _read_responses, "chat": _read_chat}[wire]
    reader(turn, body)
    first = next((m["text"] for m in turn.messages if m["role"] == "user"), "")
    if found := re.search(r"#([\w.-]+)", first):
        turn.agent = found[1]
    turn.turn = sum(m["role"] == "assistant" for m in turn.messages)
    turn.tools = tuple(
        t.get("name") or t.get("function", {}).get("name", t.get("type", "")) for t in body.get("tools", ())
    )
    choice = body.get("tool_choice")
    turn.forbidden = choice == "none" or (isinstance(choice, dict) and choice.get("type") == "none")
    turn.forbidden = turn.forbidden or (turn.messages[-1]["role"] == "user" and NO_TOOLS in turn.last)
    return turn


def _message(role: str, text: str = "") -> dict[str, Any]:
    return {"role": role, "text": text, "calls": [], "results": [], "images": 0}


def _read_messages(turn: Turn, body: dict[str, Any]) -> None:
    system = body.get("system") or []
    turn.system = system if isinstance(system, str) else "".join(b["text"] for b in system)
    for raw in body["messages"]:
        message = _message(raw["role"])
        for block in raw["content"]:
            if block["type"] == "text":
                message["text"] += block["text"]
            elif block["type"] == "tool_use":
                message["calls"].append((block["id"], block["name"], block["input"]))
            elif block["type"] == "tool_result":
                content = block["content"]
                text = content if isinstance(content, str) else "".join(b.get("text", "") for b in content)
                message["results"].append((block["tool_use_id"], text))
            elif block["type"] == "image":
                message["images"] += 1
        turn.messages.append(message)


def _read_chat(turn: Turn, body: dict[str, Any]) -> None:
    for raw in body["messages"]:
        content = raw["content"]
        parts = [{"type": "text", "text": content or ""}] if not isinstance(content, list) else content
        text = "".join(p.get("text", "") for p in parts)
        if raw["role"] in ("system", "developer"):
            turn.system = text
        elif raw["role"] == "tool":
            if not turn.messages or turn.messages[-1]["role"] != "tool":
                turn.messages.append(_message("tool"))
            turn.messages[-1]["results"].append((raw["tool_call_id"], text))
        else:
            message = _message(raw["role"], text)
            message["images"] = sum(p["type"] == "image_url" for p in parts)
            message["calls"] = [
                (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"]))
                for c in raw.get("tool_calls", ())
            ]
            turn.messages.append(message)


def _read_responses(turn: Turn, body: dict[str, Any]) -> None:
    turn.system = body.get("instructions", "")
    for item in body["input"]:
        role = item.get("role") or ("tool" if item["type"] == "function_call_output" else "assistant")
        if not turn.messages or turn.messages[-1]["role"] != role:
            turn.messages.append(_message(role))
        message = turn.messages[-1]
        if item["type"] == "message":
            message["text"] += "".join(p.get("text", "") for p in item["content"])
            message["images"] += sum(p["type"] == "input_image" for p in item["content"])
        elif item["type"] == "function_call":
            message["calls"].append((item["call_id"], item["name"], json.loads(item["arguments"])))
        elif item["type"] == "function_call_output":
            output = item["output"]
            text = output if isinstance(output, str) else "".join(p.get("text", "") for p in output)
            message["results"].append((item["call_id"], text))


def judge(turn: Turn, asked: Asked) -> Iterator[str]:
    """What a real endpoint would refuse."""
    paths = {"messages": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
    if (asked.method, asked.path) != ("POST", paths[turn.wire]):
        yield f"{asked.method} {asked.path}"
    if turn.wire == "messages" and "anthropic-version" not in asked.headers:
        yield "no anthropic-version"
    if turn.body.get("stream") is not True:
        yield "no stream"
    names = turn.tools
    if len(set(names)) != len(names) or any(not re.fullmatch(r"[\w-]{1,64}", n) for n in names):
        yield f"tool names {names}"
    if not turn.messages or turn.messages[0]["role"] != "user":
        yield "the first message is not the user's"
    open_calls: list[str] = []
    seen: set[str] = set()
    last = ""
    for message in turn.messages:
        role, results = message["role"], [call_id for call_id, _ in message["results"]]
        if open_calls and sorted(results) != sorted(open_calls):
            yield f"calls {open_calls} got results {results}"
        if results and not open_calls:
            yield f"results {results} without a call"
        if turn.wire == "messages" and role == last:
            yield f"two messages of the {role} in a row"
        if not (message["text"].strip() or message["calls"] or results or message["images"] or role == "assistant"):
            yield f"an empty message of the {role}"
        open_calls = [call_id for call_id, _, _ in message["calls"]]
        if seen & set(open_calls):
            yield f"the id of a call twice: {open_calls}"
        if any(not isinstance(arguments, dict) for _, _, arguments in message["calls"]):
            yield "arguments that are no object"
        seen |= set(open_calls)
        last = role
    if open_calls:
        yield f"calls {open_calls} got no result"


# ---- replies ----------------------------------------------------------------------


def reply(wire: Wire, say: Say, *before: Step, **more: Any) -> Reply:
    """The whole reply as bytes."""
    return Reply(*before, sse(wire, events(wire, say)), **more)


def sse(wire: Wire, found: Sequence[dict[str, Any] | str]) -> bytes:
    """Events as this wire sends them."""
    if wire == "chat":
        return unnamed(*found)
    return named(*(e for e in found if isinstance(e, dict)))


def events(wire: Wire, say: Say) -> list[dict[str, Any] | str]:
    """The events of a reply."""
    makers = {"messages": _messages_events, "responses": _responses_events, "chat": _chat_events}
    return makers[wire](say)


def _pieces(given: Mapping[str, Any] | str) -> list[str]:
    """The text of arguments, in two pieces."""
    text = given if isinstance(given, str) else json.dumps(given)
    return [piece for piece in (text[:7], text[7:]) if piece]


def _messages_events(say: Say) -> list[dict[str, Any] | str]:
    sent, written, cached = say.usage or (0, 0, 0)
    begun = claude.start(f"msg_{next(_ids)}", input_tokens=sent, cache_read_input_tokens=cached)
    blocks: list[dict[str, Any]] = []
    index = itertools.count()
    if say.thinking:
        blocks += claude.thinking(next(index), say.thinking, signature="sig=")
    if say.pieces:
        blocks += claude.text(next(index), *say.pieces)
    for name, given in say.calls:
        blocks += claude.call(next(index), f"toolu_{next(_ids)}", name, *_pieces(given))
    last, stop = claude.end(say.stop or ("tool_use" if say.calls else "end_turn"), output=written)
    if not say.usage:
        begun["message"]["usage"] = last["usage"] = {}
    return [begun, *blocks, last, stop]


_FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}


def _chat_events(say: Say) -> list[dict[str, Any] | str]:
    found: list[dict[str, Any] | str] = [openai.delta(role="assistant", content="")]
    if say.thinking:
        found.append(openai.delta(reasoning_content=say.thinking))
    found += [openai.delta(content=p) for p in say.pieces]
    for index, (name, given) in enumerate(say.calls):
        first = openai.piece(index, "", id=f"call_{next(_ids)}", name=name, type="function")
        found += [openai.calls(piece) for piece in (first, *(openai.piece(index, p) for p in _pieces(given)))]
    stop = say.stop or ("tool_use" if say.calls else "end_turn")
    found.append(openai.delta(_FINISH.get(stop, stop)))
    if say.usage:
        sent, written, cached = say.usage
        details = {"cached_tokens": cached}
        found.append(
            openai.usage(prompt_tokens=sent + cached, completion_tokens=written, prompt_tokens_details=details)
        )
    return [*found, "[DONE]"]


def _responses_events(say: Say) -> list[dict[str, Any] | str]:
    found: list[dict[str, Any]] = []
    place = itertools.count()
    if say.thinking:
        summary = [{"type": "summary_text", "text": say.thinking}]
        found += openai.thought(next(place), {**openai.REASONING, "summary": summary})
    if say.pieces:
        found += openai.texts(next(place), *say.pieces)
    for name, given in say.calls:
        call = {"call_id": f"call_{next(_ids)}", "name": name, "arguments": "".join(_pieces(given))}
        found += openai.called(next(place), {**openai.CALLED, **call})
    more: dict[str, Any] = {"usage": None}
    if say.usage:
        sent, written, cached = say.usage
        details = {"cached_tokens": cached}
        more["usage"] = {"input_tokens": sent + cached, "output_tokens": written, "input_tokens_details": details}
    reason = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}.get(say.stop)
    if reason:
        more["incomplete_details"] = {"reason": reason}
    return [*openai.whole(*found, end="incomplete" if reason else "completed", **more)]
