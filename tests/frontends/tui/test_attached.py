"""Every slash command in a chat that is attached to a session of another owner: it does what it does at home."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from friday_cli.agents.isolation import WorktreeIsolation
from friday_cli.core.protocol.errors import UsageError
from friday_cli.frontends.host.owner import BackgroundOwner
from friday_cli.frontends.tui.app import FridayApp
from friday_cli.frontends.tui.commands import slash_commands  # noqa: F401 - fills the table
from friday_cli.frontends.tui.commands.command_table import COMMANDS
from friday_cli.session import session as session_module
from friday_cli.session.commands import SetMode
from friday_cli.session.open_context import Options
from friday_cli.session.remote import RemoteSession
from friday_cli.session.session import Session
from friday_cli.session.wire import Reopening
from tests.frontends.tui.chat import Chat, delegates, does, running

ESC = "escape"
ROWS = [
    ("/help", "/doctor", ()),
    ("/keys", "Ctrl+", ()),
    ("/status", "session", ()),
    ("/context", "free", ()),
    ("/cost", "a.1 general", ()),
    ("/todo", "[ ] step one", ()),
    ("/copy", "opied", ()),
    ("/rename Other title", "Renamed", ()),
    ("/export md out.md", "Written to", ()),
    ("/mode edits", " edits ", ()),
    ("/plan", " plan ", ()),
    ("/mode ask", " ask ", ()),
    ("/permissions", "ask", ()),
    ("/budget", "cap", ()),
    ("/memory", "note", ()),
    ("/skills", "skill", ()),
    ("/hooks", "hook", ()),
    ("/lsp", "server", ()),
    ("/doctor", "Python", ()),
    ("/mcp", "MCP servers", ()),
    ("/profiles general", "Sub-agents of the main agent: general", ()),
    ("/theme nord", "nord", ()),
    ("/vim", "Vim", ()),
    ("/vim", "Vim", ()),
    ("/config show", 'theme = "nord"', ()),
    ("/loop stop", "", ()),
    ("/takeover a.1", "You have taken over a.1", ()),
    ("/handback a.1", "a.1 was handed back", ()),
    ("/undo", "Went back", ()),
    ("/rewind undo", "The rewind was undone", ()),
    ("/rewind 2 conversation", "Went back: the conversation", ()),
    ("/rewind undo", "The rewind was undone", ()),
    ("/review", "Third answer.", ()),
    ("/init", "Fourth answer.", ()),
    ("/compact", "The context was compacted", ()),
    ("/config limits.max_turns 50", "saved in", ()),
    ("/effort high", "The effort is now high", ()),
    ("/add-dir {more}", "workspace.", ()),  # the words before it wrap with the length of the path
    ("/model demo", "The session continues with demo", ()),
    ("/timeline", "a.1", (ESC,)),
    ("/diff", "made.txt", (ESC,)),
    ("/agents", "general", (ESC,)),
    ("/find answer", "of ", (ESC,)),
]
LEAVE = ("detach", "quit", "stop", "new", "resume", "fork")
"""Commands that leave the session."""
PLAY = {
    "a": [
        does("todo", items=[{"text": "step one", "status": "pending"}]),
        does("write_file", path="made.txt", content="made"),
        delegates("look"),
        {"text": "First answer."},
        {"text": "Second answer."},
        {"text": "Third answer."},
        {"text": "Fourth answer."},
        {"text": "A summary."},
    ],
    "a.1": [{"text": "Looked."}, {"text": "Looked again."}],
}


@asynccontextmanager
async def attached(
    folder: Path, play: dict[str, Any] = PLAY, *, listens: bool = True
) -> AsyncIterator[tuple[Chat, BackgroundOwner]]:
    """A chat on a session that answered two messages, and that something else in this process owns. Unless it `listens`, the chat
    can only look at it."""
    (folder / ".scenario.json").write_text(json.dumps({"agents": play, "badge": ""}))
    options = Options(folder, model=f"scripted:{folder}/.scenario.json", mode="edits", attended=True)
    session = await Session.open(options)
    if play is PLAY:
        await session.prompt("one")
        await session.prompt("two")
    owner = BackgroundOwner(session, options)
    if listens:
        owner.open()
    serving = asyncio.create_task(owner.until_unused())
    own = msgspec.structs.replace(options, resume=session.id)
    app = FridayApp(lambda: own, cwd=folder)
    try:
        async with running(app, size=(120, 50)) as chat:
            await chat.until(lambda: (app.controller.remote if listens else app.controller.observer) is not None)
            await chat.shows("Second answer." if play is PLAY else "Ask, or /")
            yield chat, owner
    finally:
        owner.end()
        await serving
        await owner.close()


def test_the_table_has_every_command() -> None:
    assert {row[0][1:].split()[0] for row in ROWS} | set(LEAVE) == {command.name for command in COMMANDS}


async def test_commands_work_as_at_home(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    (tmp_path / "more").mkdir()
    async with attached(project) as (chat, owner):
        for words, shows, keys in ROWS:
            assert not words.startswith("/add-dir") or shows not in chat.frame
            await chat.say(words.format(more=tmp_path / "more"), shows=shows)
            await chat.press(*keys)
            await chat.until(lambda: not chat.app.controller.working and chat.app.refresher.quiet)
        assert (owner.session.facts.model, owner.session.facts.mode) == ("demo/demo", "ask")
        assert (project / "out.md").exists()
        chat.has("Second answer.")
        assert chat.app.controller.remote is not None


@pytest.mark.parametrize("name", LEAVE)
async def test_commands_that_leave_the_session(tmp_path: Path, name: str) -> None:
    async with attached(tmp_path) as (chat, owner):
        first, controller = owner.session.id, chat.app.controller
        await chat.say(f"/{name} all" if name == "fork" else f"/{name} {first}" if name == "resume" else f"/{name}")
        if name in ("detach", "quit", "stop"):
            await chat.until(lambda: chat.app.return_code is not None)
            assert owner.ending == (name == "stop")
        elif name == "resume":  # itself: opened again by its owner
            await chat.until(lambda: owner.session is not first)
            assert controller.remote is not None
        else:
            await chat.until(lambda: controller.remote is None and controller.session is not None)
            assert chat.session.id != first
        assert owner.session.facts.idle


async def test_a_model_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    async with attached(tmp_path) as (chat, owner):
        await chat.say("/model nowhere/x", shows="Unknown provider")
        assert owner.session.facts.model.startswith("scripted/")
        await chat.ask("three", shows="The session was resumed")


@pytest.mark.parametrize("where", ["close", "open"])
async def test_a_session_that_fails_while_it_is_reopened_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """As where the system starts no more threads for a moment: with the new model, or the one that it had."""
    failures = 1

    async def fails(*given: object, **more: object) -> Any:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise RuntimeError("can't start new thread")
        return await well(*given, **more)

    async with attached(tmp_path) as (chat, _):
        place = (WorktreeIsolation, "close") if where == "close" else (session_module, "open_session")
        well = getattr(*place)
        with monkeypatch.context() as patch:
            patch.setattr(*place, fails)
            await chat.say(
                "/model demo", shows="continues with demo" if where == "close" else "does not start any more"
            )
        if where == "open":
            await chat.ask("three", shows="The session was resumed")
    assert failures < 1


async def test_what_another_frontend_changes_is_seen(tmp_path: Path) -> None:
    async with attached(tmp_path) as (chat, owner):
        other = await RemoteSession.connect(owner.session.id)
        assert other is not None
        await other.reopen(Reopening(model="demo"))
        await chat.shows("demo: scripted, no AI model")
        assert chat.app.controller.remote is not None
        await other.do(SetMode("plan"))
        await chat.shows(" plan ")
        await chat.say("/effort low", shows="The effort is now low")
        assert (owner.session.facts.mode, owner.session.facts.model) == ("plan", "demo/demo")
        await other.close()


async def test_a_chat_that_only_looked_is_attached_when_the_owner_lets_go_of_its_terminal(tmp_path: Path) -> None:
    async with attached(tmp_path, listens=False) as (chat, owner):
        chat.has("detach or quit it there")
        owner.open()
        await chat.until(lambda: chat.app.controller.remote is not None)
        await chat.ask("three", shows="Third answer.")
        chat.has("Second answer.")


async def test_a_message_in_the_queue_is_sent_when_the_chat_leaves(tmp_path: Path) -> None:
    play = {"a": [{"text": "First.", "delay_s": 3.0}, {"text": "Second."}]}
    async with attached(tmp_path, play) as (chat, owner):
        await chat.say("go", shows="Esc stops")
        await chat.say("and this", shows="queued: and this")
        await chat.press("ctrl+d")
        await chat.until(lambda: chat.app.return_code is not None)
        async with asyncio.timeout(30):
            while "and this" not in str(await owner.session.history()):  # noqa: ASYNC110 - read by an agent
                await asyncio.sleep(0.1)


async def test_agents_at_work_are_not_stopped_by_another_model(tmp_path: Path) -> None:
    async with attached(tmp_path, {"a": [does("bash", command="touch asked"), {"text": "end"}]}) as (chat, owner):
        other = await RemoteSession.connect(owner.session.id)
        assert other is not None
        await chat.say("go", shows="wants to run a command")
        with pytest.raises(UsageError, match="1 agent at work; this would stop"):
            await other.reopen(Reopening(model="demo"))
        await other.close()
        chat.has("wants to run a command")
