"""`friday --plain` in a real pseudo-terminal: the same chat as lines, and nothing but lines."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from friday_cli.core.protocol.events import AgentStarted, TextDelta, TurnStarted
from friday_cli.core.protocol.messages import Usage
from friday_cli.frontends.tui.plain.writer import PlainWriter
from friday_cli.system.paths import store_path
from friday_cli.view import SessionView
from tests.frontends.tui.terminal_fixture import Terminal, scripted
from tests.scenarios import completed, numbered

ASKING = {
    "a": [
        {"calls": [{"name": "bash", "arguments": {"command": "touch made"}}]},
        {"calls": [{"name": "ask_user", "arguments": {"question": "Which colour?", "choices": ["red", "blue"]}}]},
        {
            "text": "It is: {results}",
            "calls": [{"name": "delegate_task", "arguments": {"profile": "general", "task": "Look at \u001b[31mit"}}],
        },
        {"text": "First paragraph.\n\nThe \u001b[2Jend."},
    ],
    "a.1": [
        {"calls": [{"name": "write_file", "arguments": {"path": "new.txt", "content": "one\ntw\u202eo\n"}}]},
        {"text": "Seen."},
    ],
}


def test_a_dumb_terminal_gets_the_whole_chat_as_lines(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", scripted(tmp_path, ASKING), TERM="dumb") as terminal:
        terminal.until(b"no screen to draw on: plain text, as with --plain", b"/help lists the commands")
        terminal.type(b"begin\n1\n1\n")  # what is typed ahead answers nothing
        terminal.until(b"wants to run a command", b"touch made", b"Type y, n or a number.")
        terminal.until_quiet()
        assert not (tmp_path / "made").exists()
        terminal.type(b"1\n", until=b"Which colour?")
        terminal.until(b"3. In my own words")
        terminal.until_quiet()
        terminal.type(b"3\n", until=b"Your words:")
        terminal.type(b"2\n", until=b"Agent a.1 (general) starts: Look at it")
        terminal.until(b"It is: The user answered: 2")  # a number is words here, and not the second choice
        terminal.until(b"wants to write a file", b"New file: 2 lines", b"+one\r\n+tw\\u202eo\r\n", b"y 1. Yes")
        terminal.until(b"Type y, n or a number.", after=b"+one")
        terminal.until_quiet()
        terminal.type(b"1\n", until=b"Agent a.1 (general) has ended: completed")
        terminal.until(b"First paragraph.\r\n\r\nThe end.", b"Done: completed")
        assert (tmp_path / "made").exists()
        terminal.type(b"/mode\n/nonsense\n!echo from the shell\n", until=b"No such command: /nonsense")
        terminal.until(b"from the shell\r\nExit code 0.")
        terminal.type(b"exit\n")
        assert terminal.end() == 0
        assert b" saved. Resume: `friday -r " in terminal.out
        assert b"\x1b" not in terminal.out


def test_a_long_command_is_folded_and_a_yes_prints_it_first(tmp_path: Path) -> None:
    command = "touch first\n" + "\n".join(f"echo {number} > out.txt" for number in range(40)) + "\ntouch l\u0430st"
    calls = {"a": [{"calls": [{"name": "bash", "arguments": {"command": command}}]}, {"text": "Finished."}]}
    with Terminal(tmp_path, "--plain", "-i", "begin", "-m", scripted(tmp_path, calls)) as terminal:
        terminal.until(b"mode ask:", b"spelled out here: \\u0430 CYRILLIC SMALL LETTER A")
        terminal.until(
            b"  | touch first\r\n",
            b"folded: runs echo",
            b"  | touch l\\u0430st\r\n",
            b"Type y, n or a number.",
        )
        assert b"| echo 20 >" not in terminal.out
        terminal.until_quiet()
        terminal.type(b"1\n", until=b"| echo 20 >")
        terminal.until(b"Type y, n or a number.", after=b"| echo 20 >")
        terminal.until_quiet()
        assert not (tmp_path / "out.txt").exists()
        terminal.type(b"1\n", until=b"Finished.")
        assert (tmp_path / "out.txt").exists()
        terminal.type(b"\x04")
        assert terminal.end() == 0


def test_the_end_of_a_sub_agent_stands_before_the_reply_that_follows() -> None:
    lines: list[str] = []
    seen = numbered(
        ("a", AgentStarted(1, "general", "go", "m")),
        ("a.1", AgentStarted(1, "general", "look", "m", "a")),
        ("a.1", completed("Seen.", Usage(1), 1.0)),
        ("a", TurnStarted(2)),
        ("a", TextDelta(2, 1, 0, "First.\n\nSec")),
    )
    PlainWriter(lines.append).follow(SessionView.of(seen))
    assert lines[1].startswith("Agent a.1 (general) has ended")
    assert lines[-1] == "First.\n"


def test_steps_are_printed_in_the_order_of_events_and_a_sign_shows_whose_turn_it_is(tmp_path: Path) -> None:
    steps = [{"text": "Read it", "status": "done"}, {"text": "Change it", "status": "active"}, {"text": "Test it"}]
    task = {"profile": "general", "task": "look"}
    plays = {
        "a": [
            {"calls": [{"name": "delegate_task", "arguments": task}]},
            {"calls": [{"name": "todo", "arguments": {"items": steps}}]},
            {"text": "Over."},
        ],
        "a.1": [{"text": "Seen."}],
    }
    with Terminal(tmp_path, "--plain", "-m", scripted(tmp_path, plays)) as terminal:
        terminal.until(b"Ctrl+D quits.\r\n> ")
        terminal.type(b"begin\n", until=b"Done: completed")
        terminal.until(b"> ", after=b"Done: completed")
        in_order = (
            b"has ended: completed",
            b"Tool todo 1 of 3",
            b"  [x] Read it\r\n  [>] Change it\r\n  [ ] Test it",
            b"Over.",
        )
        found = [terminal.out.find(text) for text in in_order]
        assert found == sorted(found)
        assert found[0] > 0
        terminal.type(b"\x04")
        assert terminal.end() == 0


def test_ctrl_c_interrupts_and_twice_quits(tmp_path: Path) -> None:
    look = {"name": "list_dir", "arguments": {"path": "."}}
    slow = {"a": [{"calls": [look]}, {"text": "one two three four", "chunk_delay_s": 200.0}]}
    with Terminal(tmp_path, "--plain", "-i", "begin", "-m", scripted(tmp_path, slow)) as terminal:
        terminal.until(b"/help lists the commands")
        terminal.until(b"Tool list_dir")  # it is at work
        terminal.type(b"\x03", until=b"Stopped. Press Ctrl+C again to quit.")
        terminal.until(b"Done: stopped")
        said = -1
        while terminal.read(0.1):  # two presses are one wish where little time is between them
            if said < (said := terminal.out.count(b"Press Ctrl+C again to quit.")):
                terminal.type(b"\x03")
        assert terminal.end() == 0
        assert b"\x1b" not in terminal.out


SPENT = {
    "a": [
        {"calls": [{"name": "delegate_task", "arguments": {"profile": "general", "task": "first"}}]},
        {"text": "Done."},
    ],
    "a.1": [
        {"text": "found it", "usage": {"input": 99_000}},
        {"fail": {"kind": "auth", "message": "no key"}},
        {"text": "and more"},
    ],
}


def test_a_sub_agent_is_written_to_by_its_path_and_is_given_more_tokens(tmp_path: Path) -> None:
    with Terminal(tmp_path, "--plain", "-i", "begin", "-m", scripted(tmp_path, SPENT)) as terminal:
        terminal.until(b"Done: completed")
        terminal.type(b"@a.1 once more\n", until=b"How many more tokens? Type a number, such as ")
        assert b"a.1 was not continued: " in terminal.out
        terminal.type(b"\n", until=b"Type a number of tokens, or no.")
        terminal.type(b"no\n", until=b"Your message was:\r\n@a.1 once more")
        terminal.type(b"@a.1 once more\n")
        terminal.until(b"How many more tokens?", after=b"Your message was:")
        terminal.type(b"20000\n", until=b"Sent to a.1.")
        terminal.until(b"Agent a.1 (general) has ended: failed", b"  Earlier result: found it")
        terminal.type(b"@a.9 nobody\n", until=b"Done: ")  # no agent: a message to the main agent
        terminal.type(b"\x04")
        assert terminal.end() == 0


def test_notices_about_sub_agents_and_tasks_that_were_not_started_are_printed(tmp_path: Path) -> None:
    tasks = [{"profile": "nobody", "task": "x"}, {"profile": "researcher", "task": "y"}]
    agents = {
        "a": [{"calls": [{"name": "delegate_tasks", "arguments": {"tasks": tasks}}]}, {"text": "Over."}],
        "a.1": [{"text": "fine"}],
    }
    with Terminal(tmp_path, "--plain", "-i", "begin", "-m", scripted(tmp_path, agents)) as terminal:
        terminal.until(b"Done: completed")
        assert terminal.out.count(b"Warning: a.1 (researcher) cannot use web_search: no search service") == 1
        assert b"Warning: Task 1 of 2 was not started: There is no profile 'nobody'." in terminal.out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_it_with_their_code(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with Terminal(tmp_path, "--plain", "-m", scripted(tmp_path, {"a": [{"text": "Hi."}]})) as terminal:
        terminal.until(b"/help lists the commands")
        os.kill(terminal.pid, number)
        assert terminal.end() == code


def test_what_is_said_after_a_rewind_is_printed(tmp_path: Path) -> None:
    agents = {"a": [{"text": "One."}, {"text": "Two."}, {"text": "Three."}]}
    with Terminal(tmp_path, "--plain", "-i", "first", "-m", scripted(tmp_path, agents)) as terminal:
        terminal.until(b"One.")
        terminal.until_quiet()
        terminal.type(b"second\n", until=b"Two.")
        terminal.until_quiet()
        terminal.type(b"/rewind\n", until=b"Write the command again, followed by one of them.")
        assert b"1: " in terminal.out
        terminal.type(b"/rewind 1\n", until=b"Note: Rewound the conversation.")
        terminal.until(b"Your message was:\r\nfirst")
        terminal.until_quiet()
        terminal.type(b"third\n", until=b"Three.")
        terminal.type(b"\x04")
        assert terminal.end() == 0


@pytest.mark.parametrize("when", ["never", "first"])
def test_a_session_that_is_not_saved_is_not_said_to_be(tmp_path: Path, when: str) -> None:
    """As on a full disk, from its beginning or later."""
    store = store_path()
    store.parent.parent.mkdir(parents=True, exist_ok=True)
    if when == "never":
        store.parent.write_text("a file where a folder belongs")
    with Terminal(tmp_path, "--plain", "-m", scripted(tmp_path, {"a": [{"text": "Well."}] * 2})) as terminal:
        terminal.until(b"/help lists the commands")
        terminal.type(b"begin\n", until=b"Done: completed")
        if when == "first":
            store.rename(tmp_path / "moved.db")
            terminal.type(b"go on\n", until=b"This session is no longer saved")
            terminal.until_quiet()
        terminal.type(b"\x04")
        assert terminal.end() == 0
        assert re.search(rb"session \w+ was not saved, or only its beginning\.\r\n", terminal.out)
        assert b"Resume: `" not in terminal.out
