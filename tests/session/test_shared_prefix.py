"""What the requests of different agents, sessions and folders begin with, as far as a service can share it from its cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from friday_cli.config.settings import Settings
from friday_cli.core.protocol.provider import Request
from friday_cli.llm import models
from friday_cli.llm.providers.anthropic_request import AnthropicQuirks, messages_request
from friday_cli.session.open import Options
from friday_cli.session.session import Session
from tests.engine_fixture import Model, Say, batch, script

TWO_AND_ONE = Say(calls=[batch({"profile": "general"}, {"profile": "general"}, {"profile": "coder"})])


async def requests(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, Request]:
    """The first request of each agent of a session in `folder`."""
    asked: dict[str, Request] = {}

    def play(request: Request, count: int) -> Say:
        asked.setdefault(request.agent, request)
        return script({"a": [TWO_AND_ONE]})(request, count)

    def make(choice: models.ModelChoice, settings: Settings, *, env: object, web_search: bool) -> Model:
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
    body = messages_request(request, model="m", quirks=AnthropicQuirks(), max_output=100, origin="o")
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
