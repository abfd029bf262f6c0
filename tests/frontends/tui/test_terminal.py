"""The real `friday` in a real pseudo-terminal: it starts, answers, and leaves the terminal as it was."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.tui.terminal_fixture import OFF, ON, STYLES, Terminal, scripted


def test_a_whole_day_in_one_terminal(tmp_path: Path) -> None:
    asking = {"name": "bash", "arguments": {"command": "touch made"}}
    slow = {"name": "delegate_task", "arguments": {"profile": "researcher", "task": "Look slowly"}}
    day = {
        "a": [{"calls": [asking]}, {"calls": [slow]}, {"text": "All is said."}],
        "a.1": [{"text": "First words, then nothing more", "chunk_delay_s": 30.0}],
    }
    with Terminal(tmp_path, "-m", scripted(tmp_path, day), COLORTERM="") as terminal:
        terminal.until(b"F1 help")
        terminal.type(b"begin\r", until=b"wants to run a command")
        terminal.until(b"? explains")
        terminal.until_quiet()
        terminal.type(b"1", until=b"Look slowly")
        assert (tmp_path / "made").exists()
        terminal.until(b"Enter queues")
        terminal.type(b"\x14")  # the tree
        terminal.until(b"running")
        terminal.until_quiet(seconds=0.3)
        terminal.type(b"\x1b[B\r")  # the sub-agent below, and its own transcript
        terminal.until("» ".encode())
        terminal.until_quiet(seconds=0.3)
        terminal.type(b"x")  # cancel it
        terminal.until(b"1 agent ended", b"All is said.")
        terminal.until_quiet(seconds=0.3)
        assert terminal.quit() == 0
        assert terminal.is_clean()
        assert b"48;5;235" in terminal.out  # the message, on a tint that 256 colours have
        assert b"48;5;17m" not in terminal.out
        said = re.search(rb"saved. Resume: `friday -r (\w+)`", terminal.out)
    assert said is not None
    model = scripted(tmp_path, {"a": [{"text": "Welcome back."}]})
    with Terminal(tmp_path, "-r", said[1].decode(), "-m", model) as terminal:
        terminal.until(b"All is said.", b"F1 help")
        terminal.type(b"again\r", until=b"Welcome back.")
        terminal.until_quiet(seconds=0.3)
        terminal.type(b"\x04")
        terminal.ends_clean(0)


SLOWLY = {"text": "First words, then nothing more", "chunk_delay_s": 30.0}
CLOSED: dict[str, tuple[dict[str, Any], list[tuple[bytes, bytes]]]] = {
    "idle": ({"a": [{"text": "x"}]}, []),
    "a draft": ({"a": [{"text": "x"}]}, [(b"half a sent", b"half a sent")]),
    "a reply": ({"a": [SLOWLY]}, [(b"go\r", b"First")]),
    "a command": (
        {"a": [{"calls": [{"name": "bash", "arguments": {"command": "echo $$ > pid; sleep 600"}}]}]},
        [(b"go\r", b"sleep 600")],
    ),
    "a child": (
        {
            "a": [{"calls": [{"name": "delegate_task", "arguments": {"profile": "general", "task": "Look"}}]}],
            "a.1": [SLOWLY],
        },
        [(b"go\r", b"a.1")],
    ),
    "a dialog": ({"a": [{"text": "x"}]}, [(b"/rewind\r", b"")]),
    "help": ({"a": [{"text": "x"}]}, [(b"/help\r", b"")]),
    "many keys": ({"a": [{"text": "x"}]}, [(b"k" * 90 + b"\x01", b""), (b"word \x7f" * 3_000, b"")]),
    "a paste": ({"a": [{"text": "x"}]}, [(b"line of a paste\r" * 5_000, b"")]),
    "20,000 typed characters": ({"a": [{"text": "x"}]}, [(b"ab c" * 5_000, b"")]),
    "quitting": ({"a": [SLOWLY]}, [(b"go\r", b"First"), (b"\x11\x11", b"")]),
}
"""What the chat does when its window is closed: the scenario, and what is typed with what it shows."""


@pytest.mark.parametrize("state", CLOSED)
def test_a_closed_window_ends_the_program_its_commands_and_its_hold_of_the_session(tmp_path: Path, state: str) -> None:
    agents, typed = CLOSED[state]
    with Terminal(tmp_path, "--yolo", "-m", scripted(tmp_path, agents)) as terminal:
        terminal.until(b"F1 help")
        for keys, shown in typed:
            terminal.type(keys)
            if shown:
                terminal.until(shown)
        if state == "a command":
            wait_for(tmp_path / "pid")
        terminal.hang_up(seconds=20.0)
    if state == "a command":
        pid = int((tmp_path / "pid").read_text())
        ended_by(pid)
    if state == "a draft":
        with Terminal(tmp_path, "-m", scripted(tmp_path, agents)) as terminal:
            terminal.until(b"half a sent")
    elif typed and typed[0][0] == b"go\r":
        with Terminal(tmp_path, "-c", "-m", scripted(tmp_path, {"a": [{"text": "Welcome back."}]})) as terminal:
            terminal.until(b"F1 help")
            terminal.type(b"again\r", until=b"Welcome back.")


@pytest.mark.parametrize("words", [["explain this folder"], ["--", "explain", "this folder"]])
def test_words_begin_the_chat(tmp_path: Path, words: list[str]) -> None:
    model = scripted(tmp_path, {"a": [{"text": "Explained."}]})
    argv = ["-m", model, *words] if words[0] == "--" else [*words, "-m", model]
    with Terminal(tmp_path, *argv) as terminal:
        terminal.until(b"explain this folder", b"Explained.")
    with Terminal(tmp_path, "-m", model, "explain this folder") as terminal:
        terminal.until(b"explain this folder", b"Explained.")


def test_a_paste_that_the_terminal_does_not_mark_is_one_chip_and_not_sent(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", scripted(tmp_path, {"a": [{"text": "Read."}]})) as terminal:
        terminal.until(b"F1 help")
        terminal.type(b"".join(b"line %d of a paste\r" % n for n in range(5_000)), until=b"[Pasted #1 +")
        terminal.until_quiet()
        assert b"queued" not in terminal.out
        terminal.type(b"\r", until=b"Read.")


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < end, f"{path.name} did not come"
        time.sleep(0.05)


def ended_by(pid: int) -> None:
    """Wait until no process of this number runs."""
    end = time.monotonic() + 20
    while (
        Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    ):
        assert time.monotonic() < end, "the command still runs"
        time.sleep(0.05)


def test_the_tree_is_in_sight_in_a_narrow_and_in_a_wide_window_and_profiles_are_shown(tmp_path: Path) -> None:
    tasks = [{"profile": "general", "task": "fix it"}, {"profile": "general", "task": "look slowly"}]
    returned = {"result": "I have fixed parser.py.", "checks": [{"command": "pytest -q"}]}
    agents = {
        "a": [{"calls": [{"name": "delegate_tasks", "arguments": {"tasks": tasks}}]}],
        "a.1": [{"calls": [{"name": "task_result", "arguments": returned}]}],
        "a.2": [{"text": "First words, then nothing more", "chunk_delay_s": 60.0}],
    }
    with Terminal(tmp_path, "-m", scripted(tmp_path, agents), size=(80, 24)) as terminal:
        terminal.until(b"F1 help")
        terminal.type(b"begin\r", until="2 sub-agents · 1 at work · 1 with warnings".encode())
        terminal.until(b"Ctrl+T agents", "a.2 general · writes".encode())  # the strip above the prompt
        terminal.until(b"! claims the check `pytest -q`, but that command was not run", "▸ tools: task_result".encode())
        assert b"general fix it" not in STYLES.sub(b"", terminal.out)
        terminal.resize(120, 40)
        terminal.until(
            b"! general fix it", b"general look slowly", b"I have fixed parser.py."
        )  # the panel beside the chat
        terminal.type(b"/profiles\r", until=b"delegates to: researcher")
        terminal.until(b"6 of 6 profiles", b"levels below it: ", b"[x] coder")
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.ends_clean(143)


def test_what_is_typed_before_the_screen_is_there_is_not_lost(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", "demo") as terminal:
        terminal.type(b"early bird")
        terminal.until(ON[0])
        terminal.out = terminal.out.partition(ON[0])[2]  # before it, the terminal itself shows what is typed
        terminal.until(b"early bird")


def test_a_message_with_enter_before_the_screen_is_there_is_sent(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", scripted(tmp_path, {"a": [{"text": "Good morning."}]})) as terminal:
        terminal.type(b"early bird\r")
        terminal.until(b"Good morning.")


def test_the_title_is_given_back_and_a_person_who_looks_elsewhere_is_told(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", "demo") as terminal:
        terminal.until(b"demo: scripted")
        terminal.type(b"run `make all`\r", until=b"wants to run a command")
        terminal.until(b"\x1b]0;? friday")
        assert b"\x1b]9;" not in terminal.out  # the window has the keys
        terminal.type(b"\x03")
        terminal.until(b"\x1b]0;friday", after=b"\x1b]0;? friday")
        terminal.type(b"run `make it`", until=b"run `make it`")
        terminal.type(b"\r\x1b[O")  # a key behind it would bring the window back
        terminal.until(b"\x1b]9;Friday needs you")
        terminal.type(b"\x11", until=b"Press Ctrl+Q again")
        terminal.type(b"\x11")
        terminal.end()
        assert terminal.out.rfind(b"\x1b[23;0t") > terminal.out.rfind(b"\x1b]0;") > terminal.out.find(b"\x1b[22;0t") > 0


def test_a_terminal_that_reads_reports_of_the_status_gets_them_and_another_gets_none(tmp_path: Path) -> None:
    asking = {"calls": [{"name": "bash", "arguments": {"command": "touch made"}}], "delay_s": 0.3}  # so that it works
    model = scripted(
        tmp_path, {"a": [asking, {"text": "All is said."}, {"fail": {"kind": "auth", "message": "no key"}}]}
    )
    with Terminal(tmp_path, "-m", model) as terminal:
        terminal.until(b"\x1b]7501;?\x1b\\", b"F1 help")
        assert b"7501;state" not in terminal.out
        terminal.type(b"\x1b]7501;?\x1b\\", until=b"\x1b]7501;state=idle:app=friday\x1b\\")
        terminal.type(b"begin\r", until=b"\x1b]7501;state=working:app=friday\x1b\\")
        terminal.until(b"\x1b]7501;state=blocked:kind=permission:app=friday\x1b\\", b"wants to run a command")
        terminal.until_quiet()
        terminal.type(b"1", until=b"\x1b]7501;state=done:app=friday\x1b\\")
        terminal.type(b"more\r", until=b"\x1b]7501;state=error:app=friday\x1b\\")
        terminal.type(b"\x11")
        terminal.end()
    states = re.findall(rb"7501;state=(\w+)", terminal.out)
    assert [state for state in states if state != b"working"] == [b"idle", b"blocked", b"done", b"error", b"clear"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_signal_leaves_a_clean_terminal(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with Terminal(tmp_path, "demo") as terminal:
        terminal.until(b"at work")
        os.kill(terminal.pid, number)
        terminal.ends_clean(code)


def test_a_chat_that_is_killed_leaves_a_clean_terminal(tmp_path: Path) -> None:
    with Terminal(tmp_path, "--model", "demo") as terminal:
        terminal.until(b"Ask, or / for commands")
        terminal.until_quiet()
        (chat,) = Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split()
        os.kill(int(chat), signal.SIGKILL)
        terminal.ends_clean(-signal.SIGKILL)


def test_a_window_that_is_closed_ends_the_program(tmp_path: Path) -> None:
    with Terminal(tmp_path, "demo") as terminal:
        terminal.until(b"at work")
        terminal.hang_up()


def test_what_was_suspended_leaves_a_clean_terminal_and_is_drawn_again(tmp_path: Path) -> None:
    with Terminal(tmp_path, "--model", "demo") as terminal:
        terminal.until(b"Ask, or / for commands")
        terminal.until_quiet()
        os.kill(terminal.pid, signal.SIGTSTP)
        for off in OFF:
            terminal.until(off, after=ON[0])
        terminal.until_stopped()
        assert terminal.is_clean()
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.until(ON[0], after=OFF[0])
        terminal.until(b"Ask, or / for commands", after=ON[0])
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.ends_clean(143)


def test_agents_work_on_while_the_person_writes_in_an_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    waiting = "for n in $(seq 200); do [ -e made ] && break; sleep 0.1; done"
    editor.write_text(
        f"#!/bin/sh\necho the editor; env >environment; touch open\n{waiting}\nprintf %s ' and more' >> \"$1\"\n"
    )
    editor.chmod(0o755)
    waits = {"name": "bash", "arguments": {"command": "until test -e open || test $SECONDS -ge 20; do sleep 0.1; done"}}
    makes = {"name": "write_file", "arguments": {"path": "made", "content": "by the agent"}}
    script = {"a": [{"calls": [waits]}, {"calls": [makes]}, {"text": "All is said."}]}
    with Terminal(
        tmp_path, "-m", scripted(tmp_path, script), "--yolo", VISUAL=str(editor), GROQ_API_KEY="a-plain-key"
    ) as terminal:
        terminal.until(b"F1 help")
        terminal.type(b"begin\r", until=b"until test -e open")
        terminal.type(b"some words\x07", until=b"some words and more")
        terminal.until(b"All is said.")
        drawn = terminal.out[terminal.out.rfind(b"the editor") :]
        assert not STYLES.sub(b"", drawn[: drawn.find(ON[0])]).strip().removeprefix(b"the editor").strip()
        environment = (tmp_path / "environment").read_text()
        assert "VISUAL=" in environment
        assert "a-plain-key" not in environment, "no key reaches a child process"
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.ends_clean(143)


def test_what_cannot_be_opened_is_one_line_on_a_clean_terminal(tmp_path: Path) -> None:
    with Terminal(tmp_path, "-m", "nonsense/x") as terminal:
        terminal.ends_clean(2)
        last = terminal.out[terminal.out.rfind(b"\x1b[?1006l") :]
        assert b"friday: Unknown provider 'nonsense'" in last
        assert b"Traceback" not in terminal.out


def test_a_defect_is_one_line_on_a_clean_terminal(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "import runpy, sys\nfrom friday_cli.view.state import SessionView\n"
        "known = SessionView.apply\ndef apply(self, envelope):\n"
        "    if type(envelope.event).__name__ == 'ToolStarted': raise RuntimeError('boom sk-ant-abcdefghijklmnopqrstuvwx')\n"
        "    return known(self, envelope)\nSessionView.apply = apply\n"
        "sys.argv = ['friday', 'demo']\nrunpy.run_module('friday_cli', run_name='__main__')\n"
    )
    with Terminal(tmp_path, script="broken.py") as terminal:
        terminal.ends_clean(1)
        assert b"Friday itself failed: " in terminal.out
        assert b"sk-ant" not in terminal.out
        assert b" saved. Resume: `friday -r " in terminal.out
        assert b"Traceback" not in terminal.out
