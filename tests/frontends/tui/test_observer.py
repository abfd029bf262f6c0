"""A second chat: it shows the session that another process has open, and resumes it when that has ended."""

from __future__ import annotations

from pathlib import Path

from friday_cli.frontends.tui.widgets.session_picker import Picker
from tests.frontends.tui.chat import opened
from tests.session.harness import Harness, does, says
from tests.session.test_observer import driven
from tests.session.test_rewind import writes

HERE = {"a": [{"text": "From here."}]}


def harness(folder: Path) -> Harness:
    (folder / "project").mkdir()
    return Harness(folder / "project", {"a": [does(writes("a.txt", "1\n")), says("one"), says("two")]})


async def test_it_is_live_sends_nothing_and_takes_over_with_what_was_typed(tmp_path: Path) -> None:
    there = harness(tmp_path)
    async with driven(there) as other, opened(there.project, HERE, ready=False, resume=other.session) as chat:
        number = other.process.pid
        await chat.shows(f"Read only: open in process {number}; /detach or quit it there")
        await chat.shows("one")
        assert "read only" in chat.frame.splitlines()[-1]
        other.say("second words")
        await chat.until(lambda: "› second words" in chat.frame and "two" in chat.frame)
        await chat.say("not yet", shows="this window is read-only")
        assert chat.composer.text == "not yet"
        await chat.say("/timeline", shows="Timeline: all of it")
        await chat.press("escape")
        await chat.say("/export html out.html")
        await chat.until((there.project / "out.html").is_file)
        for command, seen in (("/cost", "cached"), ("/diff", "a.txt")):
            await chat.say(command)
            await chat.until(lambda seen=seen: seen in chat.frame)
        await chat.press("a", shows="this window is read-only")
        await chat.press("escape")
        chat.composer.put("not yet")
        await other.end()
        await chat.until(lambda: chat.app.controller.session is not None and "Read only" not in chat.frame)
        assert "› second words" in chat.frame
        await chat.press("enter")
        await chat.until(lambda: "› not yet" in chat.frame and "From here." in chat.frame)


async def test_a_terminal_without_a_model_shows_it_too(tmp_path: Path) -> None:
    """The key may be known in the other terminal only."""
    there = harness(tmp_path)
    async with (
        driven(there) as other,
        opened(there.project, HERE, ready=False, resume=other.session, model=None) as chat,
    ):
        await chat.shows(f"Read only: open in process {other.process.pid}")
        await chat.shows("one")
        await other.end()
        await chat.shows("The session cannot be resumed here: No model is configured")


async def test_commands_that_change_the_session_are_refused_meanwhile(tmp_path: Path) -> None:
    there = harness(tmp_path)
    async with driven(there) as other, opened(there.project, HERE, ready=False, resume=other.session) as chat:
        await chat.shows("Read only")
        for words in ("/mode auto", "/rewind", "/fork", "/compact", "/model demo", "!ls", "/effort low"):
            chat.app.clear_notifications()
            await chat.pilot.pause()
            chat.composer.clear()
            await chat.say(words, shows="this window is read-only")
        assert chat.app.controller.observer is not None


async def test_the_list_of_sessions_says_which_are_open(tmp_path: Path) -> None:
    there = harness(tmp_path)
    async with driven(there) as other, opened(there.project, HERE, size=(120, 30)) as chat:
        await chat.ask("mine")
        await chat.say("/resume")
        await chat.until(lambda: isinstance(chat.app.screen, Picker) and "open here" in chat.frame)
        assert f"open in process {other.process.pid}" in chat.frame
        await chat.type("first")
        await chat.until(lambda: "open here" not in chat.frame)
        await chat.press("enter", shows=f"Read only: open in process {other.process.pid}")
