"""The person's own commands in the chat: listed with Friday's, sent as a prompt, narrower and never wider."""

from __future__ import annotations

from pathlib import Path

from friday_cli.extensions.commands import CustomCommands
from friday_cli.frontends.tui.commands import slash_commands
from tests.frontends.tui.chat import does, opened

TWO = {"a": [{"text": "I read: {task}"}, {"text": "Second."}]}


def put(home: Path, name: str, text: str) -> None:
    path = home / "friday" / "commands" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_an_own_command_is_offered_and_sent_and_one_written_meanwhile_is_found(
    tmp_path: Path, home: Path
) -> None:
    head = "---\ndescription: Says it loudly\nargument-hint: WORD\n---\n"
    put(home, "shout", f"{head}Shout $1 loudly, all of: $ARGUMENTS")
    async with opened(tmp_path, TWO, size=(100, 90)) as chat:  # so high that all of /help is seen
        await chat.until(lambda: chat.app.input.customs.found)
        await chat.type("/sho")
        chat.has("/shout WORD", "Says it loudly")
        await chat.press("enter")
        await chat.type("hey you")
        await chat.press("enter")
        await chat.idle()
        assert "› Shout hey loudly, all of: hey you" in chat.frame
        await chat.say("/help", shows="/shout WORD")
        put(home, "late", "Better late.")
        await chat.say("/late", shows="› Better late.")


async def test_a_shell_command_in_a_text_is_not_run_and_that_is_shown(tmp_path: Path, home: Path) -> None:
    put(home, "changes", "Changes: !`touch made`")
    async with opened(tmp_path, TWO) as chat:
        await chat.until(lambda: chat.app.input.customs.found)
        await chat.say("/changes", shows="/changes: not run, sent as text: touch made.")
        await chat.idle()
    assert not (tmp_path / "made").exists()


def test_a_whole_name_comes_first() -> None:
    assert next(c.text for c in slash_commands.choices("mode", CustomCommands())) == "/mode"
    assert next(c.text for c in slash_commands.choices("clear", CustomCommands())) == "/new"


async def test_a_built_in_name_stays_friday_s_and_a_bad_file_is_said(tmp_path: Path, home: Path) -> None:
    put(home, "cost", "Mine.")
    put(home, "bad", "---\nwhat: 1\n---\nText.")
    async with opened(tmp_path, TWO, size=(200, 60)) as chat:
        await chat.shows("built-in command")
        await chat.say("/help")
        await chat.until(lambda: "Not used" in chat.frame and "unknown key." in chat.frame)
        await chat.say("/cost", shows="Nothing has run yet.")


async def test_allowed_tools_hold_for_the_run_and_no_longer(tmp_path: Path, home: Path) -> None:
    put(home, "look", "---\nallowed-tools: Read\n---\nLook.")
    write = does("write_file", path="out.txt", content="x")
    agents = {"a": [write, {"text": "Refused."}, write, {"text": "Written."}]}
    async with opened(tmp_path, agents, mode="edits") as chat:
        await chat.ask("/look")
        assert not (tmp_path / "out.txt").exists()
        assert "not in this agent's list of allowed tools" in chat.frame
        await chat.ask("now write")
        assert (tmp_path / "out.txt").exists()


async def test_a_narrower_command_waits_for_its_own_run(tmp_path: Path, home: Path) -> None:
    put(home, "look", "---\nallowed-tools: Read\n---\nLook here.")
    slow = does("bash", command="until [ -e go ]; do sleep 0.05; done")
    async with opened(tmp_path, {"a": [slow, {"text": "Done."}, {"text": "Looked."}]}, mode="yolo") as chat:
        await chat.say("first")
        await chat.until(lambda: chat.app.controller.working)
        await chat.say("/look", shows="queued: /look")
        await chat.press("enter")  # what narrows cannot join a run that has begun
        await chat.until(lambda: "restricts tools" in chat.frame and "queued: /look" in chat.frame)
        (tmp_path / "go").touch()
        await chat.shows("Looked.")
        assert "› Look here." in chat.frame
