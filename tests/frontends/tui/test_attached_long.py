"""A chat that attaches to a long session: its end is on the screen before all of it is read, and then nothing is missing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from friday_cli.core.permissions.approvals import ApprovalAnswer
from friday_cli.core.protocol.events import (
    SCHEMA,
    AgentFinished,
    AgentStarted,
    Envelope,
    MessageAdded,
    PermissionAsked,
    Rewound,
    SessionStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from friday_cli.core.protocol.messages import Message, Text, ToolCall, ToolResult, Usage, user
from friday_cli.frontends.host.owner import BackgroundOwner
from friday_cli.frontends.tui.app import FridayApp
from friday_cli.frontends.tui.widgets import approval_panel
from friday_cli.session import lists
from friday_cli.session.open_context import Options
from friday_cli.session.remote import RemoteSession
from friday_cli.session.session import Session
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from tests.frontends.tui.chat import Chat, does, running

TURNS, END = 60, 30
USED = Usage(input=100, output=10)


def happenings() -> Iterator[tuple[str, Any]]:
    """A session with a sub-agent that ended long ago, and a main agent that replied often since."""
    yield "a", AgentStarted(1, "friday", "the very first message", "demo")
    yield "a", MessageAdded(user("the very first message"))
    yield "a.1", AgentStarted(1, "general", "an old part", "demo", "a", "call-1")
    yield from turns("a.1", "old reply", 3)
    yield "a.1", AgentFinished(1, "completed", "done", "old reply 2", usage=USED, tree_usage=USED)
    yield from turns("a", "reply", TURNS)
    yield "a", AgentFinished(1, "completed", "done", f"reply {TURNS - 1}", usage=USED, tree_usage=USED)


def turns(agent: str, words: str, count: int) -> Iterator[tuple[str, Any]]:
    for turn in range(count):
        call = ToolCall(f"{agent}-{turn}", "read_file", {"path": f"{words.replace(' ', '-')}-{turn}.py"})
        yield agent, TurnStarted(turn + 1)
        yield agent, MessageAdded(Message("assistant", (Text(f"{words} {turn}"), call)))
        yield agent, ToolStarted(call.id, "read_file", call.arguments["path"])
        yield agent, ToolFinished(call.id, "read_file", "ok", 0.002)
        yield agent, MessageAdded(Message("tool", (ToolResult(call.id, "text"),), "harness"))
        yield agent, TurnFinished(turn + 1, USED, "tool_use", 5000)


async def stored(folder: Path, *more: tuple[str, Any]) -> str:
    """The id of such a session of the folder."""
    async with Store(store_path()) as store:
        session = await store.create_session(folder)
        events = [("a", SessionStarted(SCHEMA, session, str(folder), "0")), *happenings(), *more]
        with await store.own(session):
            await store.journal(session).append(
                [Envelope(n, 1.0, path, event) for n, (path, event) in enumerate(events, 1)]
            )
    return session


@asynccontextmanager
async def attached(
    folder: Path, turns: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Chat, Session, asyncio.Event]]:
    """A chat that shows the end of such a session, whose main agent goes on with `turns`, and what lets it read all of it."""
    monkeypatch.setattr(lists, "END", END)
    (folder / ".scenario.json").write_text(json.dumps({"agents": {"a": turns}, "badge": ""}))
    options = Options(folder, model=f"scripted:{folder}/.scenario.json", attended=True, resume=await stored(folder))
    session = await Session.open(options)
    owner = BackgroundOwner(session, options)
    owner.open()
    serving = asyncio.create_task(owner.until_unused())
    go_on, connect = asyncio.Event(), RemoteSession.connect

    async def connect_later(name: str, **more: Any) -> RemoteSession | None:
        await go_on.wait()
        return await connect(name, **more)

    monkeypatch.setattr(RemoteSession, "connect", connect_later)
    app = FridayApp(lambda: msgspec.structs.replace(options, resume=session.id), cwd=folder, joins=session.id)
    try:
        async with running(app, size=(120, 50)) as chat:
            await chat.shows(f"reply {TURNS - 1}")
            yield chat, session, go_on
    finally:
        owner.end()
        await serving
        await owner.close()


async def test_its_end_is_shown_first_and_then_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with attached(tmp_path, [{"text": "Went on."}], monkeypatch) as (chat, _, go_on):
        assert chat.app.controller.session is None
        chat.has("a.1", "an old part")
        assert chat.state.root is not None
        assert "very first" not in str(chat.state.root.transcript)
        await chat.type("go on")
        await chat.press("enter")
        assert "go on" not in chat.frame  # what is typed waits
        go_on.set()
        await chat.shows("Went on.")
        assert chat.app.controller.remote is not None
        await chat.say("/find very first", shows="1 of 1")
        chat.has("the very first message")
        await chat.press("escape")
        await chat.say("/rewind", shows="the very first message")
        await chat.press("escape")
        await chat.say("/export md out.md", shows="Written to")
        text = (tmp_path / "out.md").read_text()
        assert all(words in text for words in ("reply 0", "old reply 0", f"reply {TURNS - 1}"))
        await chat.press("ctrl+t", "down", "enter", shows="old reply 0")


@asynccontextmanager
async def asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *commands: str
) -> AsyncIterator[tuple[Chat, Session, asyncio.Event]]:
    """A chat with its first picture, the question about the first command; the event lets it open the session."""
    run = [*(does("bash", command=command) for command in commands), {"text": "Made it."}]
    async with attached(tmp_path, run, monkeypatch) as (chat, session, go_on):
        go_on.set()
        await chat.say("go on", shows=commands[0])
        again = FridayApp(lambda: Options(tmp_path, resume=session.id), cwd=tmp_path, joins=session.id)
        go_on.clear()
        await chat.app.controller.close()
        async with running(again, size=(120, 50)) as second:
            await second.shows(commands[0])
            assert again.controller.session is None
            yield second, session, go_on


async def test_a_question_that_is_shown_first_is_answered_by_a_key_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(tmp_path, monkeypatch, "touch made") as (chat, _, go_on):
        await chat.pilot.pause(1.0)
        await chat.press("1")
        go_on.set()
        await chat.shows("Made it.")


async def test_a_key_for_a_question_that_was_answered_meanwhile_answers_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_panel, "GRACE_S", 0.0)  # as on a machine that is slow just then
    async with asked(tmp_path, monkeypatch, "touch first", "touch second") as (chat, session, go_on):
        await chat.press("1")
        (ask,) = [e.event.id for e in await session.history() if isinstance(e.event, PermissionAsked)]
        await session.answer(ask, ApprovalAnswer("deny"))
        go_on.set()
        await chat.shows("touch second")
        await chat.press("question_mark", shows="What it reaches")  # it is still open
        await chat.press("1", shows="Made it.")
    assert ((tmp_path / "first").exists(), (tmp_path / "second").exists()) == (False, True)


async def test_what_is_typed_before_a_question_is_shown_does_not_answer_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = [does("bash", command="touch made"), {"text": "Made it."}]
    monkeypatch.setattr(approval_panel, "GRACE_S", 0.0)  # as on a machine that is slow just then
    async with attached(tmp_path, run, monkeypatch) as (chat, session, go_on):
        await chat.press("1", "y", "enter")
        working = asyncio.create_task(session.prompt("go on"))
        async for envelope in session.events():
            if isinstance(envelope.event, PermissionAsked):
                break
        go_on.set()
        await chat.shows("wants to run a command")
        await chat.press("question_mark", shows="What it reaches")  # it is still open
        await chat.press("n", shows="Why not?")
        await chat.press("enter", shows="Made it.")
        await working
    assert not (tmp_path / "made").exists()


async def test_the_end_of_a_session_that_is_short_or_was_rewound_is_not_shown_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await stored(tmp_path)
    assert await lists.end_of(whole) is None
    monkeypatch.setattr(lists, "END", END)
    view = await lists.end_of(whole)
    assert view is not None
    assert view.root is not None
    assert (view.root.ended, view.root.usage, view.agents["a.1"].usage) == (True, USED, USED)
    assert await lists.end_of(await stored(tmp_path, ("a", Rewound(3, "conversation")))) is None
