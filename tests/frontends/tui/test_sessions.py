"""Sessions: going on with one, choosing one, a new one; the first run; the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli import __version__
from friday_cli.core.protocol.events import AgentStarted, MessageAdded, Notice
from friday_cli.core.protocol.messages import user
from friday_cli.core.protocol.tool_info import MAP_CALLER, OF_ITEM
from friday_cli.frontends.tui.app import FridayApp
from friday_cli.frontends.tui.commands import slash_commands
from friday_cli.frontends.tui.widgets.session_picker import Picker
from friday_cli.frontends.tui.widgets.welcome import Welcome
from friday_cli.session.open_context import Options
from friday_cli.store.store import Store
from friday_cli.system.paths import store_path
from tests.frontends.tui.chat import opened, running
from tests.scenarios import numbered

HELLO = {"a": [{"text": "First answer."}, {"text": "Second answer."}]}


async def test_a_session_is_gone_on_with_and_shows_what_was_said(tmp_path: Path) -> None:
    async with opened(tmp_path, HELLO, mode="plan") as chat:
        await chat.ask("remember me")
        session = chat.session.id
    async with opened(tmp_path, HELLO, resume=session) as chat:
        await chat.shows("› remember me")
        assert "First answer." in chat.frame
        assert chat.frame.splitlines()[-1].startswith(" ask ")  # what holds now, not what held in the last run
        await chat.say("more", shows="› more")
        await chat.idle()
        await chat.say("/resume")
        await chat.until(lambda: isinstance(chat.app.screen, Picker) and "│ › more" in chat.frame)  # no harness's note


async def test_the_picker_finds_a_session_by_its_words_and_opens_it(tmp_path: Path) -> None:
    for words in ("alpha task", "beta task"):
        async with opened(tmp_path, HELLO) as chat:
            await chat.ask(words)
    async with opened(tmp_path, HELLO) as chat:
        await chat.say("/resume")
        await chat.until(lambda: isinstance(chat.app.screen, Picker) and "beta task" in chat.frame)
        await chat.type("alpha")
        await chat.until(lambda: "beta task" not in chat.frame and "First answer." in chat.frame)
        await chat.press("enter")
        await chat.until(lambda: not isinstance(chat.app.screen, Picker) and "› alpha task" in chat.frame)


async def test_a_failed_change_of_model_leaves_the_session_as_it_was(tmp_path: Path) -> None:
    async with opened(tmp_path, HELLO) as chat:
        await chat.ask("keep this")
        opened_first = chat.app.controller.session
        await chat.say("/model nowhere/none", shows="Unknown provider")
        await chat.until(lambda: chat.app.controller.session is not None and "› keep this" in chat.frame)
        assert "continues with" not in chat.frame
        await chat.say("/model anthropic/claude-sonnet-5-5")  # for which there is no key
        await chat.shows("ANTHROPIC_API_KEY")
        assert not chat.app.query(Welcome)
        assert chat.app.controller.session is opened_first
        await chat.say("and go on")
        await chat.until(lambda: "Second answer." in chat.frame or "First answer." in chat.frame.split("and go on")[-1])


async def _look_around(folder: Path, title: str = "Look around", *, batch: bool = False) -> None:
    """Store a session of a folder, or one with an item of a batch."""
    store = Store(store_path())
    made = await store.create_session(folder, title=title)
    log = AgentStarted(1, "friday", "Look around", "demo/demo"), MessageAdded(user("Look around"))
    item = AgentStarted(1, "summarizer", "x", "demo/demo", parent="a", call_id=f"{MAP_CALLER}{OF_ITEM}x")
    with await store.own(made):
        await store.journal(made).append(
            numbered(*(("a", event) for event in log), *([("a.1", item)] if batch else []))
        )
    await store.close()


async def test_without_a_model_a_session_that_has_one_is_chosen_and_opened(tmp_path: Path) -> None:
    await _look_around(tmp_path)
    async with running(FridayApp(lambda: Options(tmp_path, attended=True), cwd=tmp_path, pick=True)) as chat:
        await chat.until(lambda: isinstance(chat.app.screen, Picker) and "Look around" in chat.frame)
        await chat.press("enter")
        await chat.until(lambda: "› Look around" in chat.frame and not chat.app.query(Welcome))


@pytest.mark.parametrize(
    "name", [c.name for c in slash_commands.COMMANDS if c.name not in ("quit", "init", "resume", "find", "theme")]
)
async def test_every_command_does_something_that_is_seen(tmp_path: Path, name: str) -> None:
    rest = {"rename": " A title", "add-dir": f" {tmp_path.parent}"}.get(name, "")
    async with opened(tmp_path, HELLO, size=(110, 40)) as chat:
        await chat.ask("hello")
        before = chat.frame
        await chat.say(f"/{name}{rest}")
        await chat.until(lambda: chat.frame.split("╭")[0] != before.split("╭")[0] or chat.frame[-200:] != before[-200:])
        assert "No such command" not in chat.frame
        assert "Friday itself failed" not in chat.frame


async def test_an_export_is_headed_by_the_title_of_the_session(tmp_path: Path) -> None:
    async with opened(tmp_path, HELLO, size=(110, 40)) as chat:
        await chat.ask("hello")
        await chat.say("/rename A title", shows="Renamed.")
        await chat.say("/export", shows="Where should the session be written")
        await chat.press("1", shows="Written to")
        path = tmp_path / f"friday-{chat.session.id[:8]}.md"
        assert path.read_text().startswith("# A title\n")
        await chat.say("/export", shows="Where should the session be written")
        await chat.press("3", shows="Copied")
        await chat.say("/export", shows="Where should the session be written")
        await chat.press("4")
        await chat.until(lambda: chat.composer.text == "/export md ")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("json", '"events"'),
        ("html", "<!doctype html>"),
        ("perfetto", '"traceEvents"'),
        ("atif", '"steps"'),
        ("otlp", '"resourceSpans"'),
    ],
)
async def test_an_export_has_the_format_that_is_named(tmp_path: Path, form: str, words: str) -> None:
    async with opened(tmp_path, HELLO, size=(110, 40)) as chat:
        await chat.ask("hello")
        await chat.say(f"/export {form}", shows="Written to")
        path = tmp_path / f"friday-{chat.session.id[:8]}.{'html' if form == 'html' else 'json'}"
    assert words in path.read_text()


def test_the_table_of_commands_has_no_two_of_a_name() -> None:
    names = [name for c in slash_commands.COMMANDS for name in (c.name, *c.aliases)]
    assert len(names) == len(set(names))


async def test_an_empty_chat_shows_where_it_is_until_the_first_message(tmp_path: Path) -> None:
    async with opened(tmp_path, HELLO, size=(60, 20)) as chat:
        await chat.shows(f"Friday {__version__}")
        chat.has("/ commands", "mode ask", "F1 help")
        assert "Last here" not in chat.frame
        await chat.press("shift+tab", shows="mode edits")
        assert "waits" not in chat.frame
        await chat.ask("hello")
        assert "Friday " not in chat.frame


async def test_an_empty_chat_names_the_last_session_here_as_long_as_what_is_shown_fits_below(tmp_path: Path) -> None:
    await _look_around(tmp_path, "Look at all that is around here, and say what there is")
    await _look_around(tmp_path, "map summarizer", batch=True)
    async with opened(tmp_path, HELLO, size=(60, 20)) as chat:
        await chat.shows("Last here")
        row = next(number for number, row in enumerate(chat.frame.splitlines()) if "Last here" in row)
        assert "Look at" in chat.frame.splitlines()[row]
        assert not chat.frame.splitlines()[row + 1].strip(), "a long title takes one row"
        await chat.session._log.emit("a", Notice("The sandbox is old.", "warning"))
        await chat.shows("! The sandbox is old.")
        await chat.say("/todo", shows="There is no list of steps.")
        await chat.type("/", shows="/add-dir")
        await chat.press("backspace", shows="! The sandbox is old.")
        chat.has("Last here", "There is no list of steps.")
        await chat.say("/help")
        await chat.until(lambda: "Last here" not in chat.frame)
        chat.has("@ names a file")
