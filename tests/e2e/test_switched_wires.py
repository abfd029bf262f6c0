"""Sessions that go on with a model of another API: every service is as strict as it is said to be, and refuses nothing."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from tests.e2e.friday import Friday
from tests.servers import anthropic_events as claude
from tests.servers import openai_events as openai
from tests.servers.fake_model_server import FakeModelServer, Say, Turn, sse, thinking
from tests.servers.script_player import Reply

ROUNDS = 20
"""Requests of a session, half of them before it is switched."""
_numbers = itertools.count(1)


def strict_claude(turn: Turn) -> None:
    """Signatures are its own; ids have its alphabet."""
    for message in turn.body["messages"]:
        for block in message["content"]:
            assert block["type"] != "thinking" or block["signature"] == "claude-signature", block
            assert block["type"] != "tool_use" or re.fullmatch(r"[A-Za-z0-9_-]{1,64}", block["id"]), block


def strict_gpt(turn: Turn) -> None:
    """Encrypted reasoning is its own, and precedes a call of the same reply."""
    for item in turn.body["input"]:
        assert item.get("type") != "reasoning" or item["encrypted_content"] == "gAAA", item


def chat_calls(turn: Turn) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each call of the history with its message."""
    return [(m, call) for m in turn.body["messages"] for call in m.get("tool_calls", ())]


def strict_kimi(turn: Turn) -> None:
    """Ids are functions.NAME:NUMBER; a reply with calls has `reasoning_content`, also that of another model."""
    for message, call in chat_calls(turn):
        assert re.fullmatch(rf"functions\.{call['function']['name']}:\d+", call["id"]), call
        assert "reasoning_content" in message, message


def strict_deepseek(turn: Turn) -> None:
    """A reply with calls has `reasoning_content`, also an empty one."""
    assert all("reasoning_content" in message for message, _ in chat_calls(turn))


def strict_mistral(turn: Turn) -> None:
    """Ids are nine letters and digits, and no field of a reply is unknown."""
    for message, call in chat_calls(turn):
        assert re.fullmatch(r"[A-Za-z0-9]{9}", call["id"]), call
        assert set(message) <= {"role", "content", "tool_calls"}, message
        assert isinstance(message["content"], str) or message["content"][0]["type"] == "thinking"


def strict_gemini(turn: Turn) -> None:
    """The first call of each reply has a signature."""
    for message in turn.body["messages"]:
        if calls := message.get("tool_calls"):
            assert calls[0]["extra_content"]["google"]["thought_signature"], message


def looked() -> str:
    """Arguments that no call had before: the same call again and again ends a run."""
    return f'{{"pattern": "*{next(_numbers)}"}}'


def round_of_claude(text: str) -> Reply:
    number = next(_numbers)
    events = [
        claude.start(f"msg_{number}"),
        *claude.thinking(0, "hm", signature="claude-signature"),
        *claude.text(1, text),
    ]
    return Reply(
        sse(
            "messages",
            [*events, *claude.call(2, f"toolu_{number}", "glob", looked()), *claude.end("tool_use")],
        )
    )


def round_of_gpt(text: str) -> Reply:
    number = next(_numbers)
    called = {
        **openai.CALLED,
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": "glob",
        "arguments": looked(),
    }
    return Reply(
        sse("responses", [*openai.whole(*openai.thought(0), *openai.texts(1, text), *openai.called(2, called))])
    )


def round_of_chat(call_id: str, thought: dict[str, Any], text: str, **more: Any) -> Reply:
    called = openai.piece(0, looked(), id=call_id, name="glob", type="function", **more)
    parts = [openai.delta(**thought), openai.delta(content=text), openai.calls(called), openai.delta("tool_calls")]
    return Reply(sse("chat", [*parts, openai.usage(prompt_tokens=50, completion_tokens=5), "[DONE]"]))


CHUNK = {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}
SIGNED = {"extra_content": {"google": {"thought_signature": "sig-g"}}}
SERVICES: dict[str, tuple[Any, Any, Any]] = {
    "anthropic/claude-opus-5-5": ("messages", strict_claude, round_of_claude),
    "openai/gpt-6.1-sol": ("responses", strict_gpt, round_of_gpt),
    "kimi/kimi-k3": ("chat", strict_kimi, lambda t: round_of_chat(f"functions.glob:{next(_numbers)}", {"reasoning_content": "hm"}, t)),
    "deepseek/deepseek-v4-pro": ("chat", strict_deepseek, lambda t: round_of_chat(f"call_{next(_numbers)}", {"reasoning_content": "hm"}, t)),
    "mistral/mistral-large-4": ("chat", strict_mistral, lambda t: round_of_chat(f"{next(_numbers):09}", CHUNK, t)),
    "gemini/gemini-4-argon": ("chat", strict_gemini, lambda t: round_of_chat(f"call_{next(_numbers)}", {}, t, **SIGNED)),
}  # fmt: skip
"""By model: the API, what the service checks, and a reply with thinking, text and a call."""
CLAUDE = "anthropic/claude-opus-5-5"


def served(model: str) -> Any:
    """The service of `model`: a run of ten rounds ends with a text."""
    wire, strict, begun = SERVICES[model]

    def rule(turn: Turn) -> Say | Reply:
        strict(turn)
        mine = sum(m["role"] == "assistant" for m in turn.messages) % (ROUNDS // 2)
        if mine == ROUNDS // 2 - 1:
            return Say("the end of a run")
        reply: Reply = begun(f"{model.partition('/')[0]}- looks")
        return reply

    return thinking(rule, wire)


@pytest.mark.slow
@pytest.mark.parametrize("other", [model for model in SERVICES if model != CLAUDE])
def test_a_session_goes_to_another_service_and_back(friday: Friday, other: str) -> None:
    for name in ("ANTHROPIC", "OPENAI", "KIMI", "DEEPSEEK", "MISTRAL", "GEMINI"):
        friday.setenv(f"{name}_API_KEY", "sk-canary-0123456789abcdefghij")
    with served(CLAUDE) as first, served(other) as second:
        name, api = other.partition("/")[0], SERVICES[other][0]
        friday.config.write_text(
            f'[providers.anthropic]\nbase_url = "{first.base}"\n[providers.{name}]\nbase_url = "{second.base}"\napi = "{api}"\n',
            encoding="utf-8",
        )
        for resumed, model in ((), CLAUDE), (("-c",), other), (("-c",), CLAUDE), (("-c",), other):
            ran = friday(*resumed, "list the folder ten times", "--max-turns", "30", "--yolo", model=model)
            assert (ran.code, ran.out) == (0, "the end of a run\n"), ran.err
        servers: list[FakeModelServer] = [first, second]
        assert [server.complaints for server in servers] == [[], []]
        assert [len(server.turns) for server in servers] == [ROUNDS, ROUNDS]
