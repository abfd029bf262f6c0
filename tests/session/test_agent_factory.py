"""Who may let the service search the web: decided per agent, where no search tool of ours is configured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from friday_cli.config.settings import ProviderSettings, Settings
from friday_cli.core.protocol.provider import Request
from friday_cli.llm import models
from friday_cli.session.open import Options
from friday_cli.session.session import Session
from tests.engine_fixture import Model, Say, batch


class Vendor:
    """Stands for a service that can search; `by[True]` are the agents that asked a model which searches."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.by: dict[bool, set[str]] = {True: set(), False: set()}
        patch.setattr(models, "create_provider", self._make)

    def _make(self, choice: models.ModelChoice, settings: Settings, *, env: object, web_search: bool) -> Model:
        def play(request: Request, count: int) -> Say:
            self.by[web_search].add(request.agent)
            tasks = [{"profile": "researcher"}, {"profile": "coder"}, {"profile": "general"}]
            return Say(calls=[batch(*tasks)]) if (request.agent, count) == ("a", 0) else Say("done")

        return Model(play)


async def asked(
    tmp_path: Path, *, env: dict[str, str] | None = None, model: str = "anthropic/x", **more: object
) -> None:
    given = {
        "FRIDAY_HOME": str(tmp_path / "home"), "FRIDAY_SANDBOX": "none",
        "ANTHROPIC_API_KEY": "sk-0123456789", "GROQ_API_KEY": "k0123456789",
    }  # fmt: skip
    options = Options(tmp_path, model=model, **more)  # type: ignore[arg-type]
    session = await Session.open(options, env=given | (env or {}))
    try:
        assert (await session.prompt("go")).status == "completed"
    finally:
        await session.close()


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Vendor:
    return Vendor(monkeypatch)


ALL = {"a", "a.1", "a.2", "a.3"}


SEARCH = {"allow": ("web_search",)}


@pytest.mark.parametrize(("options", "searches"), [
    (SEARCH, {"a", "a.1", "a.3"}),  # the coder's profile has no search
    ({}, set()), ({"mode": "yolo", "deny": ("web_search",)}, set()), (SEARCH | {"model": "groq/x"}, set()),
    (SEARCH | {"env": {"BRAVE_API_KEY": "k0123456789"}}, set()), (SEARCH | {"profile": "lead"}, set()),
], ids=["allowed", "asked", "denied", "service cannot", "a tool of ours", "persona without it"])  # fmt: skip
async def test_who_lets_the_service_search(
    vendor: Vendor, tmp_path: Path, options: dict[str, Any], searches: set[str]
) -> None:
    folder = tmp_path / "home" / "profiles"
    folder.mkdir(parents=True)
    text = "---\nname: lead\ndescription: leads\nallowedTools: [read_file]\nsubAgents: '*'\n---\nYou lead."
    (folder / "lead.md").write_text(text, encoding="utf-8")
    await asked(tmp_path, **options)
    assert vendor.by == {True: searches, False: ALL - searches}


@pytest.mark.parametrize(("name", "own", "can"), [
    ("anthropic/x", {}, True), ("openai/x", {}, True), ("openai/x", {"api": "chat"}, False),
    ("openai/x", {"base_url": "http://127.0.0.1:9/v1", "api": "responses"}, False),
    ("anthropic/x", {"base_url": "http://127.0.0.1:9"}, False), ("groq/x", {}, False), ("scripted:x.yaml", {}, False),
])  # fmt: skip
def test_services_that_can(name: str, own: dict[str, str], can: bool) -> None:
    settings = Settings(providers={name.partition("/")[0]: ProviderSettings(**own)} if own else {})  # type: ignore[arg-type]
    env = {f"{service}_API_KEY": "k" for service in ("ANTHROPIC", "OPENAI", "GROQ")}
    choice = models.resolve(name, settings, env=env)
    assert models.can_search(choice, settings, env=env) is can
