"""Q37: no widget of the chat reads foreign text as markup. Every screen is walked with text that would do harm if one did."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual import markup as textual_markup
from textual.content import Content

from friday_cli.frontends.tui.commands.cards import rules_card
from friday_cli.view import SessionView
from friday_cli.view.items import DeniedCall
from tests.frontends.tui.chat import Chat, does, opened

EVIL = "[@click=app.quit]x[/] [/x] a[b]c \x1b]52;c;eA==\x07"
SHOWN = "[@click=app.quit]x[/] [/x] a[b]c"
TABLE = f"| a | b |\n|---|---|\n| {EVIL} | [y](http://x.example/{SHOWN}) |"
CARDS = "help profiles context cost permissions diff memory config keys tree doctor mcp"


PLAY = {
    "a": [
        {"text": f"{EVIL}\n\n- {EVIL}\n\n```\n{EVIL}\n```\n\n{TABLE}"},
        does("read_file", path=f"no-{SHOWN}"),
        does("grep", pattern=r"\[@click"),
        does("todo", items=[{"text": EVIL, "status": "doing"}]),
        does("ask_user", question=EVIL, choices=[EVIL, "no"]),
        does("bash", command=f"echo '{SHOWN}' > out.txt"),
        does("write_file", path="new.txt", content=f"{SHOWN}\n"),
        does("delegate_task", profile="general", task=EVIL),
        {"text": f"end {EVIL}"},
    ],
    "a.1": [{"text": EVIL}, does("task_result", result=EVIL, success=False)],
}


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What anybody gives to Textual's reader of markup, where it is foreign and not escaped."""
    found: list[str] = []
    to_content = textual_markup.to_content

    def watched(text: str, *args: object, **more: object) -> Content:
        if re.search(r"(?<!\\)\[(?:@click|/x\]|b\]c)", text):
            found.append(text)
        return to_content(text, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(textual_markup, "to_content", watched)
    return found


def look(chat: Chat) -> None:
    """No cell of the screen would run what foreign text says, and none holds an escape."""
    for strip in chat.app.screen._compositor.render_strips():
        for segment in strip:
            assert "quit" not in str(segment.style.meta if segment.style else ""), segment
            assert "\x1b" not in segment.text


def test_the_watch_sees_markup(parsed: list[str]) -> None:
    assert Content.from_markup(SHOWN.replace("[/x] ", "")).plain == "x ac"
    assert len(parsed) == 1


async def test_q37_no_widget_reads_foreign_text_as_markup(tmp_path: Path, home: Path, parsed: list[str]) -> None:
    (tmp_path / "file-[@click=app.quit]x[b]c.txt").write_text(f"{SHOWN}\n")
    commands = home / "friday/commands"
    commands.mkdir(parents=True)
    (commands / "own.md").write_text(f"---\ndescription: '{SHOWN}'\nargument-hint: '{SHOWN}'\n---\nx\n")
    (commands / "bad.md").write_text(f"---\n'{SHOWN}': 1\n---\nx\n")
    async with opened(tmp_path, PLAY, size=(120, 45)) as chat:
        await chat.ask(EVIL)
        assert SHOWN in chat.frame
        look(chat)
        await chat.say(f"go on {EVIL}")
        asked: list[str] = []
        for _ in range(40):  # questions come one after the other, until it is done
            await chat.until(lambda: chat.state.asks or not chat.app.controller.working)
            look(chat)
            if not chat.state.asks:
                break
            assert SHOWN in chat.frame
            ask_id = next(iter(chat.state.asks))
            asked.append(ask_id[0])
            answer: object = EVIL
            if ask_id.startswith("p"):
                from friday_cli.core.permissions.approvals import ApprovalAnswer

                answer = ApprovalAnswer("allow") if "out.txt" in chat.frame else ApprovalAnswer("deny", reason=EVIL)
            await chat.app.controller.require_session().answer(ask_id, answer)  # type: ignore[arg-type]
            await chat.until(lambda ask=ask_id: ask not in chat.state.asks)  # type: ignore[misc]
        assert sorted(asked) == ["p", "p", "q"]
        assert chat.state.agents["a.1"].ended
        for name in CARDS.split():
            await chat.say(f"/{name}")
            await chat.pilot.pause(0.05)
            look(chat)
        for keys in ("ctrl+p", "f1", "ctrl+t"):
            await chat.press(keys)
            await chat.pilot.pause(0.1)
            look(chat)
            await chat.press("escape")
        for typed in ("@file", "/own", "/resume", "/model"):
            chat.composer.clear()
            await chat.type(typed)
            await chat.pilot.pause(0.2)
            look(chat)
            if typed == "/resume":
                await chat.press("enter")
                await chat.pilot.pause(0.3)
                look(chat)
                await chat.press("escape")
        chat.app.services.say_note(EVIL, "error")
        await chat.pilot.pause(0.1)
        assert chat.app.is_running
    assert parsed == []


def test_the_reason_of_a_denial_is_no_markdown_of_the_card() -> None:
    state = SessionView()
    state.denials.append(DeniedCall("a.1", "c1", "bash", "x", "**no** [a](http://x.example/)", "person"))
    assert rules_card("ask", state, []).endswith("- `bash` `x` (`**no** [a](http://x.example/)`)")
