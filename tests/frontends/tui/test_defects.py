"""No failure of a part ends the chat: a defect is logged and told, and the session goes on."""

from __future__ import annotations

import asyncio
import builtins
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from friday_cli.frontends.tui.app import FridayApp
from friday_cli.frontends.tui.widgets import welcome
from friday_cli.frontends.tui.widgets.composer import Composer
from friday_cli.frontends.tui.widgets.status_bar import StatusLine
from friday_cli.frontends.tui.widgets.welcome import Welcome
from friday_cli.session.open_context import Options
from friday_cli.session.session import Session
from friday_cli.system.paths import state_dir
from tests.frontends.tui.chat import Chat, opened, running

ANSWER = {"a": [{"text": "Here I am."}, {"text": "And again."}]}


def fails(*_: object, **__: object) -> None:
    raise ValueError("broken part")


def in_a_worker(chat: Chat) -> None:
    async def work() -> None:
        fails()

    chat.app.run_worker(work())


FAILURES: dict[str, Callable[[Chat], object]] = {
    "worker": in_a_worker,
    "callback of the app": lambda chat: chat.app.call_later(fails),
    "callback of a widget": lambda chat: chat.composer.call_later(fails),
    "timer": lambda chat: chat.app.query_one(StatusLine).set_timer(0.01, fails),
    "next": lambda chat: chat.composer.area.call_next(fails),
}


@pytest.mark.parametrize("part", FAILURES)
async def test_a_defect_of_a_part_is_logged_and_told_and_the_chat_goes_on(tmp_path: Path, part: str) -> None:
    async with opened(tmp_path, ANSWER, survives=True) as chat:
        FAILURES[part](chat)
        await chat.shows("Friday itself failed: ValueError: broken part.")
        assert "The session continues" in " ".join(chat.frame.replace("▌", " ").split())
        (log,) = (state_dir() / "logs").glob("*.log")
        assert "Traceback" in log.read_text()
        await chat.ask("Are you there?", shows="Here I am.")
        await chat.type("typed", shows="typed")


async def test_a_limit_of_open_files_is_said_and_needs_no_file_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = builtins.__import__

    def full(name: str = "friday_cli.diagnostics", *given: Any, **more: Any) -> Any:
        if name.startswith("friday_cli.diagnostics"):
            raise OSError(errno.EMFILE, "Too many open files")
        return known(name, *given, **more)

    async with opened(tmp_path, ANSWER, survives=True) as chat:
        monkeypatch.setattr("builtins.__import__", full)
        chat.composer.call_later(full)
        await chat.shows("No more files can be opened. Raise the limit (ulimit -n).")


async def test_so_many_defects_that_the_screen_is_unusable_end_the_chat_with_the_session_saved(tmp_path: Path) -> None:
    async def many() -> Chat:
        async with opened(tmp_path, ANSWER, survives=True) as chat:
            chats.append(chat)
            await chat.ask("Are you there?", shows="Here I am.")
            for _ in range(20):
                chat.composer.call_later(fails)
            await asyncio.wait_for(chat.app._exception_event.wait(), 20)
        return chat

    chats: list[Chat] = []
    with pytest.raises(ValueError, match="broken part"):
        await many()
    assert chats[0].app.controller.last


def stops_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Event]:
    """Each place at which the search for servers waits, as an event that lets it go on."""
    for name in ("answer", "pause"):
        gate = asyncio.Event()

        async def search(seconds: float, gate: asyncio.Event = gate, name: str = name) -> list[str]:
            if name == "answer":
                await gate.wait()
            return ["ollama/qwen"]

        monkeypatch.setattr(welcome, "_local_models", search)
        monkeypatch.setattr(welcome, "PAUSE_S", 0.01)
        yield gate


async def test_the_search_for_servers_outlives_its_card_at_each_of_its_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for gate in stops_at(monkeypatch):
        async with running(FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)) as chat:
            await chat.until(lambda: chat.app.query(Welcome))
            await chat.app.query_one(Welcome).remove()
            gate.set()
            await asyncio.sleep(0.05)
            await chat.type("still here", shows="still here")


async def test_servers_are_looked_for_as_long_as_the_card_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    async def search(seconds: float) -> list[str]:
        return list(found)

    monkeypatch.setattr(welcome, "_local_models", search)
    monkeypatch.setattr(welcome, "PAUSE_S", 0.02)
    async with running(FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path)) as chat:
        await chat.shows("No local server answers yet; still looking.")
        found.append("ollama/qwen")
        await chat.shows("Use ollama/qwen, on this machine")
        found.append("lmstudio/phi")
        await chat.shows("Use lmstudio/phi, on this machine")
        assert chat.frame.count("ollama/qwen") == 1


@pytest.mark.parametrize("removed", ["#chat", "#strip", "#composer", "#status"])
async def test_a_widget_that_is_removed_while_its_tasks_run_ends_nothing(tmp_path: Path, removed: str) -> None:
    agents: dict[str, Any] = {"a": [{"text": "one two three four " * 20, "chunk_delay_s": 0.002}, {"text": "Next."}]}
    async with opened(tmp_path, agents, survives=True) as chat:
        await chat.say("go")
        await chat.until(lambda: chat.state.root is not None and chat.state.root.reply is not None)
        for widget in chat.app.query(removed):
            await widget.remove()
        await chat.until(lambda: chat.state.root is not None and chat.state.root.ended)
        assert chat.app.is_running
        assert chat.app.query(Composer) or removed == "#composer"


async def test_an_enter_before_the_card_is_there_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path), size=(100, 40)) as chat:
        await chat.press("enter")
        await chat.shows("› What is in this folder?")


async def test_a_chat_whose_session_cannot_be_opened_ends_and_keeps_what_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also because of a defect: there is nothing to continue, and what is sent would wait for ever."""
    opens = asyncio.Event()

    async def fails_later(*_: object, **__: object) -> None:
        await opens.wait()
        fails()

    with monkeypatch.context() as patch:
        patch.setattr(Session, "open", fails_later)
        async with opened(tmp_path, ANSWER, ready=False) as chat:
            await chat.say("a long message", shows="queued: a long message")
            await chat.type("and more")
            opens.set()
            await chat.until(lambda: not chat.app.is_running)
        assert "broken part" in str(chat.app.services.failure)
    async with opened(tmp_path, ANSWER) as chat:
        assert chat.composer.text == "a long message\nand more"


async def test_a_session_that_cannot_be_opened_again_because_of_a_defect_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, ANSWER, survives=True) as chat:
        await chat.ask("Are you there?", shows="Here I am.")
        known, failed = Session.open, list[object]()

        async def fails_once(*given: Any, **more: Any) -> Session:
            if not failed:
                failed.append(given)
                fails()
            return await known(*given, **more)

        monkeypatch.setattr(Session, "open", fails_once)
        await chat.say("/new", shows="Friday itself failed: ValueError: broken part.")
        await chat.ask("Are you there?")
        assert chat.frame.count("Here I am.") == 2
