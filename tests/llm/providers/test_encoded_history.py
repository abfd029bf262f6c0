"""The JSON of a history that grows: the same bytes as without what was kept, and no message is converted twice."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from friday_cli.core.protocol.messages import (
    AnyPart,
    Image,
    Message,
    Opaque,
    ResultStatus,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    user,
)
from friday_cli.core.protocol.provider import estimate_request
from friday_cli.core.text import known_keys
from friday_cli.llm.providers import encoded_history
from friday_cli.llm.providers.anthropic_request import AnthropicQuirks, api_messages, messages_request
from friday_cli.llm.providers.encoded_history import EncodedHistory
from friday_cli.llm.providers.openai_chat import chat_request
from friday_cli.llm.providers.openai_parts import OpenAIQuirks
from friday_cli.llm.providers.openai_responses import responses_request
from friday_cli.llm.providers.service_provider import ServedModel
from friday_cli.llm.transport.json_body import EncodedList, encode
from tests.llm.providers.asking import Wire, ask, asked, at_server
from tests.servers.fake_model_server import WIRES, Say, sse
from tests.servers.fake_model_server import events as reply_events
from tests.servers.script_player import Reply

ORIGIN, SECRET = "own/m", "canary-of-a-test"
PNG = Image("image/png", "aGk=")


@pytest.fixture(autouse=True)
def no_keys() -> Iterator[None]:
    yield
    known_keys.forget()


def body(wire: Wire, messages: Sequence[Message], history: EncodedHistory | None, system: str = "be brief") -> bytes:
    request = asked(*messages, system=system)
    model = ServedModel("own", "m", 1000, 100)
    built: dict[str, Any]
    if wire == "messages":
        built = messages_request(request, model, AnthropicQuirks(), history)
    elif wire == "chat":
        built = chat_request(request, model, OpenAIQuirks(reasoning_field="reasoning"), history)
    else:
        built = responses_request(request, model, OpenAIQuirks(), history)
    return b"".join(encode(built))


def one_message(dice: random.Random, number: int, calls: list[str]) -> Message:
    """Any message, also one that leaves nothing in a request."""
    words = dice.choice(["", " ", "go on", "half \ud800 a pair", f"it is {SECRET}", "é\0\u2028", "x" * 400])
    if dice.random() < 0.3:
        note: tuple[AnyPart, ...] = (Text(words), *([PNG] if dice.random() < 0.2 else []))
        return Message("user", note, dice.choice(["person", "harness"]))
    if calls and dice.random() < 0.7:
        status: ResultStatus = dice.choice(["ok", "error"])
        return Message(
            "tool", tuple(ToolResult(c, words, status, (PNG,) * dice.randrange(2)) for c in calls), "harness"
        )
    calls[:] = [f"c{number}.{i}" for i in range(dice.randrange(3))]
    thought = Thinking(words, ORIGIN, {"type": "thinking", "thinking": words, "encrypted_content": "e"})
    parts: list[Any] = [thought] if dice.random() < 0.3 else []
    parts += [Text(words)] if dice.random() < 0.5 else []
    parts += [Opaque(ORIGIN, {"type": "odd", "n": number})] if dice.random() < 0.1 else []
    return Message("assistant", (*parts, *(ToolCall(c, "grep", {"x": number}) for c in calls)))


def unmarked(data: bytes) -> bytes:
    """A request without its cache breakpoints, which move and are not part of what is cached."""
    return data.replace(b',"cache_control":{"type":"ephemeral"}', b"")


def histories(seed: int) -> Iterator[tuple[list[Message], str]]:
    """The histories and system texts of successive requests of one conversation."""
    dice, calls, system = random.Random(seed), list[str](), "be brief"
    history: list[Message] = []
    for number in range(25):
        history = [*history, *(one_message(dice, number, calls) for _ in range(dice.choice([1, 1, 2, 3])))]
        if dice.random() < 0.1:
            yield [*history, user("only in this request")], system
        if dice.random() < 0.05:
            history = [user("what came before in short")]
        if dice.random() < 0.05:
            known_keys.remember([SECRET])
        if dice.random() < 0.03:
            system += " and kind"
        yield history, system


@pytest.mark.parametrize("wire", WIRES)
def test_the_bytes_are_those_of_a_request_without_what_was_kept(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_history, "BLOCK_BYTES", 300)
    for seed in range(40):
        known_keys.forget()
        kept = EncodedHistory()
        for history, system in histories(seed):
            assert unmarked(body(wire, history, kept, system)) == unmarked(body(wire, history, None, system)), seed
            assert set(kept.call_ids(history)) == {call.id for message in history for call in message.calls}
            assert kept.estimate(asked(*history)) == estimate_request(asked(*history))


def test_a_message_is_converted_once_though_two_requests_have_it_last() -> None:
    converted: list[Message] = []

    def convert(messages: Sequence[Message], first: bool) -> list[dict[str, Any]]:
        converted.extend(messages)
        return api_messages(messages, origin=ORIGIN, first=first)

    kept, history = EncodedHistory(), [user("read")]
    for turn in range(50):
        kept.encode(history, convert, ())
        kept.encode(history, convert, ())
        call = Message("assistant", (ToolCall(f"c{turn}", "grep"),))
        history += [call, Message("tool", (ToolResult(f"c{turn}", "x"),), "harness")]
    assert converted == history[: len(converted)]


def test_a_list_that_is_encoded_already_keeps_its_place() -> None:
    built = {"model": "m", "messages": EncodedList([b'{"a":1}', b',{"b":"\\u0000"}']), "stream": True}
    assert b"".join(encode(built)) == b'{"model":"m","messages":[{"a":1},{"b":"\\u0000"}],"stream":true}'


@pytest.mark.parametrize("wire", WIRES)
async def test_each_request_of_a_run_begins_with_the_bytes_of_the_one_before(wire: Wire) -> None:
    """Over real HTTP, with a history larger than what is sent at once."""
    answer = Reply(b"".join(sse(wire, [event]) for event in reply_events(wire, Say(("Well.",)))))
    state: dict[str, Any] = {}
    history, sent = [user("look")], list[bytes]()
    async with at_server(answer, wire=wire) as (provider, server):
        for turn in range(5):
            _, done = await ask(provider, asked(*history, provider_state=state))
            assert done.message.text == "Well."
            call = ToolCall(f"c{turn}", "grep", {"x": turn})
            history = [*history, Message("assistant", (Text("So."), call))]
            history.append(Message("tool", (ToolResult(call.id, f"{turn}\n" * 40_000),), "harness"))
        sent = [unmarked(request.body) for request in server.requests]
    name = "input" if wire == "responses" else "messages"
    for earlier, later in pairwise(sent):
        messages = msgspec.json.encode(msgspec.json.decode(earlier)[name])[:-1]
        end = earlier.index(messages) + len(messages)
        assert earlier[:end] == later[:end]
