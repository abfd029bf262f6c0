"""The offline demo in the chat: it begins at once, and one of its sub-agents asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.frontends.tui.app import FridayApp
from friday_cli.frontends.tui.widgets import approval_panel
from friday_cli.frontends.tui.widgets.welcome import Welcome
from friday_cli.llm.providers.demo import provider
from friday_cli.session.open_context import Options
from tests.frontends.tui.chat import running


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (("1",), "the command was allowed and counted 1 name at the top level"),
        (("2", "n", "o", "enter"), "the permission was refused"),
    ],
)
async def test_it_begins_at_once_and_its_question_is_answered_in_the_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], expected: str
) -> None:
    monkeypatch.setattr(approval_panel, "GRACE_S", 0.0)
    monkeypatch.setattr(provider, "BEGIN_S", 0.0)
    monkeypatch.setattr(provider, "PIECE_S", 0.0)
    (tmp_path / "notes.txt").write_text("hello\n")
    app = FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)
    async with running(app, size=(120, 60)) as chat:
        await chat.until(lambda: bool(app.query(Welcome)))
        chat.has("ANTHROPIC_API_KEY", "offline demo")
        await chat.press("enter", shows="› What is in this folder?")
        assert not app.query(Welcome)
        await chat.until(lambda: [ask.agent for ask in chat.state.asks.values()] == ["a.3"])
        await chat.shows("Sub-agent a.3 (analyst) wants to run a command")
        await chat.press(*keys)
        await chat.idle()
        assert [a.profile for a in chat.state.agents.values()] == ["friday", "researcher", "coder", "analyst"]
        assert chat.state.root is not None
        assert expected in chat.state.root.result
        chat.has("demo: scripted", "└─ a.3 analyst: completed", "Three things to try next")
        await chat.say("/cost", shows="tokens that count toward limits, no cost (demo).")
        await chat.say("/model", shows="* demo")
        assert "demo/demo" not in chat.frame, "it is listed once"


async def test_the_output_of_a_command_of_the_person_is_no_part_of_the_request(tmp_path: Path) -> None:
    app = FridayApp(lambda: Options(tmp_path, model="demo", attended=True), cwd=tmp_path)
    async with running(app, size=(120, 60)) as chat:
        await chat.until(lambda: app.controller.session is not None)
        await chat.say("!echo hello", shows="! echo hello · exit 0")
        await chat.say("run `touch made`", shows="Friday wants to run a command")
        (ask,) = chat.state.asks.values()
        assert ask.event.subject == "touch made"  # type: ignore[union-attr]
        await chat.stop()
