"""The first run: a key is tried and kept, the service is chosen, and what is typed elsewhere goes to the prompt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual import events

from friday_cli.frontends.tui.app import FridayApp
from friday_cli.frontends.tui.widgets.welcome import Welcome
from friday_cli.session.open_context import Options
from tests.frontends.tui.chat import Chat, running
from tests.servers.site import page, site

KEY = "sk-ant-secret1234567890"
MODELS = page("application/json", json.dumps({"data": [{"id": "large"}, {"id": "small"}]}).encode())
REFUSED = page("application/json", b'{"error": {"message": "invalid x-api-key"}}', status="401 Unauthorized")


async def paste(chat: Chat, key: str) -> None:
    """Paste a key, wherever the focus is."""
    chat.app.post_message(events.Paste(f"{key}\n"))
    await chat.until(lambda: chat.app.query_one(Welcome).key.has_focus and "•••" in chat.frame)
    assert "secret" not in chat.frame
    await chat.press("enter")


async def test_a_pasted_key_is_tried_kept_and_never_shown(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)
    async with site({"/v1/models": MODELS}) as web, running(app) as chat:
        await chat.until(lambda: bool(app.query(Welcome)))
        monkeypatch.setenv("ANTHROPIC_BASE_URL", web.url(""))
        await chat.shows("paste an API key to use it")
        told: list[str] = []
        monkeypatch.setattr(app.query_one(Welcome), "notify", lambda words, **_: told.append(words))
        await chat.type("how")
        assert chat.composer.text == "how"
        await paste(chat, KEY)
        await chat.until(lambda: app.controller.session is not None)
        kept = home / "friday" / "auth.toml"
        assert told == [f"The key works: 2 models. Key for anthropic saved in {kept}."]
        assert KEY in web.requests[0].headers.get("x-api-key", web.requests[0].headers.get("authorization", ""))
        assert KEY in kept.read_text()
        assert kept.stat().st_mode & 0o077 == 0
        assert chat.composer.text == "how"


async def test_a_key_that_is_refused_is_not_kept(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)
    async with site({"/v1/models": REFUSED}) as web, running(app) as chat:
        await chat.until(lambda: bool(app.query(Welcome)))
        monkeypatch.setenv("ANTHROPIC_BASE_URL", web.url(""))
        await paste(chat, KEY)
        await chat.shows("invalid x-api-key")
        assert app.query(Welcome)
        assert not (home / "friday" / "auth.toml").exists()


async def test_another_service_is_named_by_its_address_and_one_of_its_models(tmp_path: Path, home: Path) -> None:
    app = FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)
    async with site({"/v1/models": MODELS}) as web, running(app) as chat:
        await chat.until(lambda: bool(app.query(Welcome)))
        await paste(chat, "sk-of-a-secret-gateway")
        await chat.shows("Which service is this key for?")
        await chat.press("end")
        await chat.press("enter", shows="Its address")
        chat.app.query_one(Welcome).key.value = web.url("/v1")
        await chat.press("enter", shows="Which of its models?")
        await chat.press("2")
        await chat.until(lambda: app.controller.session is not None)
        assert app.controller.session is not None
        assert app.controller.session.facts.model == "custom/small"
        assert web.url("/v1") in (home / "friday" / "config.toml").read_text()
