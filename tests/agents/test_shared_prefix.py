"""What the requests of different agents, sessions and folders begin with, as far as a service can share it from its cache."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from friday_cli.config.settings import Settings
from friday_cli.core.protocol.provider import Request
from friday_cli.llm import models
from friday_cli.llm.providers.anthropic_request import AnthropicQuirks, messages_request
from friday_cli.llm.providers.openai_chat import chat_request
from friday_cli.llm.providers.openai_parts import OpenAIQuirks
from friday_cli.llm.providers.openai_responses import responses_request
from friday_cli.llm.providers.service_provider import ServedModel
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from tests.engine_fixture import Model, Say, batch, call, script

MODEL = ServedModel("o", "m", 1000, 100)
TWO_AND_ONE = Say(calls=[batch({"profile": "general"}, {"profile": "general"}, {"profile": "coder"})])


async def requests(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Request]:
    """The first request of each agent of a session in `folder`."""
    asked: dict[str, Request] = {}

    def play(request: Request, count: int) -> Say:
        asked.setdefault(request.agent, request)
        return script({"a": [TWO_AND_ONE]})(request, count)

    def make(choice: models.ModelChoice, settings: Settings, *, env: object, web_search: bool, **more: object) -> Model:
        return Model(play, price=1.0)

    patch.setattr(models, "create_provider", make)
    env = {"FRIDAY_HOME": str(folder.parent / "home"), "FRIDAY_SANDBOX": "none", "ANTHROPIC_API_KEY": "sk-0123456789"}
    session = await Session.open(Options(folder, model="anthropic/x"), env=env)
    try:
        assert (await session.prompt("go")).status == "completed"
    finally:
        await session.close()
    return asked


def shared(request: Request) -> list[Any]:
    """The tools up to the first cache mark, all tools, and the system text up to its first mark."""
    body = messages_request(request, MODEL, AnthropicQuirks())
    end = next(i for i, tool in enumerate(body["tools"]) if "cache_control" in tool)
    return [body["tools"][: end + 1], body["tools"], body["system"][0]["text"]]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "here", tmp_path / "there"]
    for folder in made:
        folder.mkdir()
    return made


async def test_folders_sessions_and_agents_share_what_does_not_depend_on_them(
    tmp_path: Path, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = [await requests(folder, monkeypatch) for folder in folders]
    assert set(here) == set(there) == {"a", "a.1", "a.2", "a.3"}
    for path, request in here.items():
        assert shared(request) == shared(there[path])
        assert str(tmp_path) not in str(shared(request))
        assert str(tmp_path / "here") in request.system
        assert request.cache_key == there[path].cache_key
    assert shared(here["a.1"]) == shared(here["a.2"])
    assert len({here[path].cache_key for path in ("a", "a.1", "a.2", "a.3")}) == 3
    parent, child = shared(here["a"])[0], shared(here["a.1"])[0]
    assert parent == child, "the main agent and `general` have the same tools, except those for delegation and results"
    assert len(parent) > 10


def on_the_wire(wire: str, request: Request) -> tuple[bytes, list[bytes]]:
    """What a request begins with (system text and tools), and each of its messages, without the marks that move."""
    made: dict[str, Any] = {
        "messages": lambda: messages_request(request, MODEL, AnthropicQuirks()),
        "chat": lambda: chat_request(request, MODEL, OpenAIQuirks()),
        "responses": lambda: responses_request(request, MODEL, OpenAIQuirks()),
        "responses with marks": lambda: responses_request(request, MODEL, OpenAIQuirks(cache_marks=True)),
    }[wire]()
    if wire == "messages":
        for block in (part for message in made["messages"] for part in message["content"] if isinstance(part, dict)):
            block.pop("cache_control", None)
        for block in made["system"]:
            block.pop("cache_control", None)  # the first request marks one place more (decision 081)
    messages = [msgspec.json.encode(message) for message in made.get("messages", made.get("input"))]
    return msgspec.json.encode([made.get("system"), made.get("instructions"), made["tools"]]), messages


@pytest.mark.parametrize("wire", ["messages", "chat", "responses", "responses with marks"])
async def test_prefixes_are_byte_identical(wire: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through rounds, among the children of a profile, after a compaction and when the session is resumed."""
    asked: list[Request] = []
    look = Say(calls=[call("list_dir")], thinking="hm")
    turns = {"a": [look, look, TWO_AND_ONE, Say("one"), Say("summary of it"), look, Say("two"), look, Say("three")]}

    def play(request: Request, count: int) -> Say:
        asked.append(request)
        return script(turns)(request, sum(r.agent == request.agent for r in asked) - 1)

    monkeypatch.setattr(models, "create_provider", lambda *args, **more: Model(play, price=1.0))
    folder = tmp_path / "here"
    folder.mkdir()
    env = {"FRIDAY_HOME": str(tmp_path / "home"), "FRIDAY_SANDBOX": "none", "ANTHROPIC_API_KEY": "sk-0123456789"}
    session = await Session.open(Options(folder, model="anthropic/x"), env=env)
    assert (await session.prompt("go")).text == "one"
    before = len([r for r in asked if r.agent == "a"])
    await session.compact("")
    assert (await session.prompt("again")).text == "two"
    await session.close()
    session = await Session.open(Options(folder, model="anthropic/x", resume=session.id), env=env)
    assert (await session.prompt("more")).text == "three"
    await session.close()

    root = [on_the_wire(wire, request) for request in asked if request.agent == "a"]
    assert len({begin for begin, _ in root}) == 1, "one system text and one tool list, also compacted and resumed"
    for part in (root[: before + 1], root[before + 1 :]):  # the compaction sends all that came before it
        for (_, shorter), (_, longer) in itertools.pairwise(part):
            assert longer[: len(shorter)] == shorter
            assert len(longer) > len(shorter)
    children = {r.agent: on_the_wire(wire, r)[0] for r in asked}
    assert children["a.1"] == children["a.2"] != children["a.3"]
