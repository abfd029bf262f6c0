"""The first run: a key is tried and kept, the service is chosen, and what is typed elsewhere goes to the prompt."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widgets import Input, OptionList

from friday_cli.core.protocol.errors import FridayError
from friday_cli.frontends.tui.app import FridayApp
from friday_cli.frontends.tui.controller import SessionController
from friday_cli.frontends.tui.widgets.welcome import Welcome
from friday_cli.session.open_context import Options
from tests.frontends.tui.chat import Chat, running
from tests.servers.site import page, site

KEY = "sk-ant-secret1234567890"
MODELS = page("application/json", json.dumps({"data": [{"id": "large"}, {"id": "small"}]}).encode())
REFUSED = page("application/json", b'{"error": {"message": "invalid x-api-key"}}', status="401 Unauthorized")


def late(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let nothing be opened before the event is set."""
    opens, switch = asyncio.Event(), SessionController.switch

    async def switch_late(controller: SessionController, **changes: Any) -> FridayError | None:
        await opens.wait()
        return await switch(controller, **changes)

    monkeypatch.setattr(SessionController, "switch", switch_late)
    return opens


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


async def test_without_a_model_nothing_typed_is_lost_or_queued(tmp_path: Path, home: Path) -> None:
    app = FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)
    async with running(app) as chat:
        await chat.until(lambda: bool(app.query(Welcome)))
        await chat.type("hello")
        await chat.press("enter", shows="Choose a model above first")
        await chat.press("enter")
        assert chat.composer.text == "hello"
        assert chat.composer.queue.empty
        await chat.press("escape")
        assert app.query_one(OptionList).has_focus


async def test_an_enter_right_behind_letters_is_for_the_prompt_and_chooses_nothing(tmp_path: Path, home: Path) -> None:
    app = FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)
    async with running(app) as chat:
        await chat.until(lambda: bool(app.query(Welcome)) and app.query_one(OptionList).has_focus)
        for key in "hello":
            app.post_message(events.Key(key, key))
        app.post_message(events.Key("enter", "\r"))  # before the prompt has the keys
        await chat.shows("Choose a model above first")
        assert chat.composer.text == "hello"
        assert app.query(Welcome)


async def test_the_arrows_reach_the_key_and_even_a_short_key_is_never_shown(tmp_path: Path, home: Path) -> None:
    app = FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)
    async with running(app) as chat:
        await chat.until(lambda: bool(app.query(Welcome)))
        card = app.query_one(Welcome)
        await chat.until(lambda: card.query_one(OptionList).has_focus)
        await chat.press("down")
        assert card.key.has_focus
        await chat.press("up")
        assert card.query_one(OptionList).has_focus
        chat.app.post_message(events.Paste("sk-ant-ab1"))
        await chat.until(lambda: card.key.value == "sk-ant-ab1")


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


async def test_what_is_pressed_before_the_card_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opens = late(monkeypatch)
    app = FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)
    async with running(app) as chat:
        await chat.press("enter", "enter")
        assert not app.query(Welcome)
        opens.set()
        await chat.until(lambda: app.controller.session is not None)
        assert app.controller.session is not None
        assert app.controller.session.facts.model == "demo/demo"


async def test_a_click_where_the_card_will_be_chooses_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = await _place_of_the_demo(tmp_path)
    opens = late(monkeypatch)
    app = FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)
    async with running(app) as chat:
        for kind in (events.MouseDown, events.MouseUp):  # as the terminal sends them
            app.post_message(kind(None, *place, 0, 0, 1, False, False, False))
        await chat.pilot.pause()
        assert not app.query(Welcome)
        opens.set()
        await chat.until(lambda: app.controller.session is not None)


async def test_a_key_that_is_pasted_before_the_card_is_not_left_in_the_prompt(tmp_path: Path, home: Path) -> None:
    app = FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)
    async with running(app) as chat:
        app.post_message(events.Paste(KEY))
        await chat.until(lambda: any(field.value == KEY for field in app.query("#key").results(Input)))
        assert not chat.composer.text
        assert "secret" not in chat.frame


async def _place_of_the_demo(folder: Path) -> tuple[int, int]:
    """Where the choice of the demo is drawn."""
    app = FridayApp(lambda: Options(folder, attended=True), cwd=folder)
    async with running(app) as chat:
        await chat.shows("Try the offline demo")
        region = app.query_one(OptionList).region
        return region.x + 3, region.y
