"""Messages that wait, pictures, and commands of the person's shell."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
from textual import events

from friday_cli.core.protocol.messages import Image
from friday_cli.frontends.tui.chat_screen import ChatScreen
from friday_cli.frontends.tui.controller import SessionController
from friday_cli.frontends.tui.widgets.message_queue import Draft
from tests.frontends.tui.chat import Chat, does, opened

TWO = {"a": [{"text": "One."}, {"text": "Two."}, {"text": "Three."}]}
BUSY = {"a": [{"text": "one two three", "chunk_delay_s": 60.0}, {"text": "Next."}]}
WAITS = {"a": [does("bash", command="until [ -e go ]; do sleep 0.05; done"), {"text": "Done."}, {"text": "Next."}]}
"""At work until the file `go` is there."""
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def pictures(chat: Chat) -> list[Image]:
    """The pictures that the model was sent."""
    return [
        part
        for message in chat.session._main.agent.conversation.history
        for part in message.parts
        if isinstance(part, Image)
    ]


async def queued(chat: Chat, *texts: str) -> None:
    await chat.say("go")
    await chat.until(lambda: chat.app.controller.working)
    for text in texts:
        await chat.say(text)
        await chat.until(lambda text=text: f"queued: {text}" in chat.frame)


async def test_messages_wait_are_shown_and_go_as_one(tmp_path: Path) -> None:
    async with opened(tmp_path, WAITS, mode="yolo") as chat:
        await queued(chat, "first", "second")
        (tmp_path / "go").touch()
        await chat.shows("Next.")
        chat.has("› first", "second")
        assert "queued:" not in chat.frame


async def test_what_waits_when_the_agent_is_free_comes_before_what_is_typed_now(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as chat:
        chat.composer.queue.put(Draft("first"))
        await chat.ask("second", shows="second")
        assert chat.frame.index("first") < chat.frame.index("second")


async def test_esc_again_and_again_while_it_stops_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, interrupt = asyncio.Event(), SessionController.interrupt

    async def slowly(controller: SessionController) -> None:
        await ends.wait()
        await interrupt(controller)

    monkeypatch.setattr(SessionController, "interrupt", slowly)
    async with opened(tmp_path, BUSY) as chat:
        await chat.say("go")
        await chat.until(lambda: chat.app.controller.working)
        await chat.press("escape", "escape", "escape", "escape")
        ends.set()
        await chat.until(lambda: not chat.app.controller.working)
        assert isinstance(chat.app.screen, ChatScreen), "no dialog is open"


@pytest.mark.parametrize("key", ["escape", "ctrl+c", "x"])
async def test_a_stop_sends_nothing_and_puts_the_queue_back_into_the_prompt(tmp_path: Path, key: str) -> None:
    async with opened(tmp_path, BUSY) as chat:
        await queued(chat, "first", "second")
        await chat.type("a draft")
        if key == "x":  # in the tree, or from another program
            await chat.session.stop("a", level="abort")
        else:
            await chat.press(key)
        await chat.until(lambda: not chat.app.controller.working and chat.composer.queue.empty)
        assert chat.composer.text == "first\n\nsecond\na draft"
        assert chat.state.agents["a"].status == "cancelled"
        await chat.press("ctrl+c")
        assert chat.composer.text == ""
        await chat.press("up")
        assert chat.composer.text == "first\n\nsecond\na draft"
        assert "› first" not in chat.frame
        await chat.press("enter")
        await chat.shows("Next.")


@pytest.mark.parametrize("key", ["ctrl+d", "ctrl+q"])
async def test_quitting_names_the_agents_at_work_and_wants_a_second_press(tmp_path: Path, key: str) -> None:
    async with opened(tmp_path, BUSY) as chat:
        await queued(chat)
        await chat.press(
            key, shows=f"1 agent at work. Press {key.capitalize().replace('+d', '+D').replace('+q', '+Q')} again"
        )
        assert chat.app.is_running
        await chat.press(key)
        await chat.until(lambda: chat.app.return_code is not None)
        assert chat.app.return_value == 0


async def test_exit_asks_where_agents_are_at_work(tmp_path: Path) -> None:
    async with opened(tmp_path, BUSY) as chat:
        await queued(chat)
        await chat.say("/exit", shows="1 agent at work. Quit and stop it?")
        await chat.press("enter")  # the first choice is to stay
        await chat.until(lambda: "Quit and stop it?" not in chat.frame)
        assert chat.app.controller.working


async def test_marked_text_is_copied_and_the_run_stops_all_the_same(tmp_path: Path) -> None:
    async with opened(tmp_path, BUSY) as chat:
        await queued(chat)
        await chat.type("mark me")
        chat.composer.area.select_all()
        await chat.press("ctrl+c", shows="Copied 7 characters.")
        await chat.idle()
        assert chat.composer.text == "mark me"
        assert chat.state.agents["a"].status == "cancelled"


async def test_what_is_sent_while_the_run_is_being_stopped_is_sent_after_it(tmp_path: Path) -> None:
    async with opened(tmp_path, BUSY) as chat:
        await queued(chat, "first")
        await chat.press("escape", "ctrl+u", "d", "o", "enter")
        await chat.shows("Next.")
        chat.has("› do")


async def test_up_takes_the_last_one_back_and_a_click_the_one_under_the_mouse(tmp_path: Path) -> None:
    async with opened(tmp_path, BUSY) as chat:
        await queued(chat, "first", "second")
        await chat.press("up")
        assert chat.composer.text == "second"
        assert "queued: second" not in chat.frame
        assert chat.app.controller.working
        chat.composer.clear()
        await chat.press("up")
        assert chat.composer.text == "first"
        assert chat.app.controller.working
        chat.composer.clear()
        for text in ("first", "second"):
            await chat.say(text)
            await chat.until(lambda text=text: f"queued: {text}" in chat.frame)  # type: ignore[misc]
        await chat.pilot.click("#queue", offset=(4, 0))
        assert chat.composer.text == "first"
        assert chat.composer.area.has_focus
        assert "queued: second" in chat.frame


@pytest.mark.parametrize("form", ["{}", "'{}'", "file://{}", "{} "])
async def test_a_pasted_path_of_a_picture_is_a_chip_and_is_sent(tmp_path: Path, form: str) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(PNG)
    async with opened(tmp_path, TWO) as chat:
        await chat.type("see ")
        chat.composer.area.post_message(events.Paste(form.format(path)))
        await chat.shows("see [Image #1 cat.png]")
        await chat.press("enter")
        await chat.idle()
        assert [image.data for image in await pictures(chat)] == [base64.b64encode(PNG).decode()]
        assert chat.frame.count("[Image #1 cat.png]") == 1
        assert "[1 picture]" not in chat.frame  # it is named already
        await chat.press("up")
        assert chat.composer.text == "see"  # its picture is not sent twice


async def test_neither_a_deleted_chip_nor_a_path_of_something_else_sends_a_picture(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(PNG)
    async with opened(tmp_path, TWO) as chat:
        chat.composer.area.post_message(events.Paste(str(tmp_path / "cat.png")))
        await chat.shows("[Image #1 cat.png]")
        await chat.ask("only words")
        assert await pictures(chat) == []
        (tmp_path / "cat.png").write_text("not a picture")
        chat.composer.area.post_message(events.Paste(str(tmp_path / "cat.png")))
        await chat.shows("is not a PNG")
        assert chat.composer.text == str(tmp_path / "cat.png")


@pytest.mark.usefixtures("programs_in_temporary_folders")
async def test_a_picture_on_the_clipboard_is_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cat").write_bytes(PNG)
    program = tmp_path / "bin" / "wl-paste"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncase $1 in --list-types) echo image/png;; *) cat {tmp_path}/cat;; esac\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    async with opened(tmp_path, TWO) as chat:
        await chat.press("ctrl+v", shows="[Image #1]")
        chat.composer.area.post_message(events.Paste(""))  # what some terminals send for it
        await chat.shows("[Image #2]")
        await chat.press("enter")
        await chat.idle()
        assert len(await pictures(chat)) == 2


async def test_a_picture_waits_for_a_beginning(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(PNG)
    async with opened(tmp_path, WAITS, mode="yolo") as chat:
        await queued(chat)
        chat.composer.area.post_message(events.Paste(str(tmp_path / "cat.png")))
        await chat.shows("[Image #1 cat.png]")
        await chat.press("enter", "enter")
        await chat.until(lambda: "A picture waits" in chat.frame and "queued: [Image #1 cat.png]" in chat.frame)
        (tmp_path / "go").touch()
        await chat.shows("Next.")
        assert len(await pictures(chat)) == 1


async def test_output_of_a_command_is_shown_while_it_comes_and_esc_stops_it(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as chat:
        await chat.say("!echo started; sleep 600")
        await chat.until(lambda: "  started" in chat.frame and "running; Esc stops it" in chat.frame)
        await chat.press("escape", shows="stopped by you")
        assert "  started" in chat.frame


async def test_a_message_that_cannot_be_sent_is_in_the_prompt_again(tmp_path: Path) -> None:
    async with opened(tmp_path, TWO) as chat:
        await chat.say("@researcher ", shows="the task is missing")
        assert chat.composer.text == "@researcher "
