"""Real processes: work without a terminal, a chat that lets go of its terminal, and what ends with it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from friday_cli.cli.live_sessions import ScreenActions
from friday_cli.core.protocol.errors import PROCESS_LIMIT
from friday_cli.core.protocol.events import WorkspaceFound
from friday_cli.session.commands import TakeOver
from friday_cli.session.fleet import fleet
from friday_cli.session.remote import RemoteSession
from friday_cli.system import session_socket
from friday_cli.system.paths import store_path
from tests.frontends.tui.terminal_fixture import OFF, ON, Terminal, scripted
from tests.session.harness import Harness, delegates, does

ASKS = {"a": [does(("bash", {"command": "touch made"})), {"text": "all done"}]}
WAITS = "until test -e go || test $SECONDS -ge 60; do sleep 0.05; done; touch gone"


def friday(*words: str, cwd: Path, code: int = 0) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "friday_cli", *words], cwd=cwd, capture_output=True, text=True, timeout=60,
        stdin=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def rows(cwd: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(friday("agents", "--json", cwd=cwd))
    return found


def until(ready: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (found := ready()):
        assert time.monotonic() < end, "not reached"
        time.sleep(0.05)
    return found


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_work_without_a_terminal_is_listed_answered_and_ends(harness: Harness) -> None:
    model = scripted(harness.project, ASKS)
    said = friday("ask", "-b", "-m", model, "make it", cwd=harness.project)
    assert "runs in the background" in said
    (row,) = until(lambda: [row for row in rows(harness.project) if row["questions"]])
    assert (row["state"], row["title"], row["reachable"]) == ("needs you", "make it", True)
    question = row["questions"][0]
    assert (question["tool"], question["text"]) == ("bash", "touch made")
    assert "is not open" in friday("agents", "answer", row["id"], "p1", "yes", cwd=harness.project, code=2)
    friday("agents", "answer", row["id"][:8], question["id"], "yes", cwd=harness.project)
    until(lambda: gone(row["pid"]))
    assert (harness.project / "made").exists()
    assert [row["state"] for row in rows(harness.project)] == ["ended"]
    assert session_socket.sessions() == []
    assert "all done" in friday("agents", "logs", row["id"][:8], cwd=harness.project)
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[3])
    friday("config", "set", "model", model, cwd=harness.project)
    asyncio.run(ScreenActions().say(fleet(store_path())[0], "once more"))
    (row,) = until(lambda: [row for row in rows(harness.project) if row["questions"]])
    assert "once more" in friday("agents", "logs", row["id"], cwd=harness.project)
    assert "1 agent stopped" in friday("agents", "stop", row["id"], cwd=harness.project)


def test_a_script_is_told_what_it_can_answer(harness: Harness) -> None:
    """Also while another session is interrupted."""
    calls = (("bash", {"command": "touch $(echo a)"}), ("ask_user", {"question": "Which?", "choices": ["red", "blue"]}))
    play = {"a": [*(does(call) for call in calls), does(("bash", {"command": "touch made"}), text="{results}")]}
    for _ in range(2):
        friday("ask", "-b", "-m", scripted(harness.project, play), "make it", cwd=harness.project)
    dies, row = until(lambda: len(found := [row for row in rows(harness.project) if row["questions"]]) == 2 and found)

    def offered(words: str) -> str:
        """The id of the question that is answered with these words."""
        table = until(lambda: words in (said := friday("agents", cwd=harness.project)) and said)
        return str(table.partition(f" {words}")[0].rpartition(" ")[2])

    def answer(question: str, words: str, code: int = 0) -> str:
        return friday("agents", "answer", row["id"], question, words, cwd=harness.project, code=code)

    once = offered("yes | no\n")
    os.kill(dies["pid"], signal.SIGKILL)
    until(lambda: gone(dies["pid"]))
    assert f"{once} can be allowed for this call only" in answer(once, "always", 2)
    answer(once, "yes")
    answer(offered("NUMBER | TEXT"), "2")
    rule = offered("yes | no | session | always\n  session and always let pass: bash(touch made)")
    answer(rule, "session")
    until(lambda: gone(row["pid"]))
    assert "blue" in friday("agents", "logs", row["id"], cwd=harness.project)


def test_what_cron_started_is_reached_from_a_login(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime folder belongs to a login: cron has none, and it is removed with the last logout."""
    monkeypatch.delenv("FRIDAY_HOME")
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    friday("ask", "-b", "-m", scripted(harness.project, ASKS), "make it", cwd=harness.project)
    (tmp_path / "login").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "login"))
    (row,) = until(lambda: [row for row in rows(harness.project) if row["questions"]])
    assert row["reachable"]
    friday("agents", "answer", row["id"], row["questions"][0]["id"], "yes", cwd=harness.project)
    until(lambda: gone(row["pid"]))


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("ask", "-b", "-m", "nope/x", "hello"), "Unknown provider"),
        (("ask", "-b", "-f", "json", "hello"), "--background"),
        (("-b", "-m", "demo"), "No prompt"),
        (("agents", "stop", "abcdef"), "no session"),
        (("agents", "--host", "-oProxyCommand=x"), "name of a machine"),
    ],
)
def test_what_cannot_begin_says_why(harness: Harness, words: tuple[str, ...], error: str) -> None:
    assert error in friday(*words, cwd=harness.project, code=2)


def test_the_list_does_not_hide_why_a_session_cannot_be_opened(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    friday("ask", "-m", "demo", "hello", cwd=tmp_path / "other")
    (tmp_path / "other").rmdir()
    with Terminal(harness.project, "agents") as terminal:
        terminal.until(b"0 agents at work")
        terminal.type(b"\r", until=b"Press Enter for the list.")
        assert f"friday: {tmp_path / 'other'} is not a folder." in terminal.out.decode()
        os.kill(terminal.pid, signal.SIGSTOP)  # as Ctrl+Z and fg do where no screen is shown
        terminal.until_stopped()
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.type(b"\r")
        terminal.until(b"0 agents at work", after=b"Press Enter")
        terminal.type(b"q")
        assert terminal.end() == 0


def test_the_list_takes_the_terminal_again_after_a_stop_and_leaves_it_clean(harness: Harness) -> None:
    """What stops a process without asking (SIGSTOP) leaves its screen there; two threads would read the keys afterwards."""
    with Terminal(harness.project, "agents") as terminal:
        terminal.until(b"No sessions.")
        os.kill(terminal.pid, signal.SIGSTOP)
        terminal.until_stopped()
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.until(ON[0], after=OFF[0])
        terminal.until(b"No sessions.", after=ON[0])
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.ends_clean(143)


@pytest.mark.parametrize("thread", ["textual-output", "textual-input", "asyncio_0"])
def test_the_list_says_in_one_line_that_no_thread_starts(harness: Harness, thread: str) -> None:
    program = (
        "import runpy, sys, threading\nstart = threading.Thread.start\n"
        f'def limited(thread):\n    if thread.name == {thread!r}: raise RuntimeError("can\'t start new thread")\n'
        "    start(thread)\nthreading.Thread.start = limited\n"
        "sys.argv = ['friday', 'agents']\nrunpy.run_module('friday_cli', run_name='__main__')\n"
    )
    (harness.project / "limited.py").write_text(program)
    with Terminal(harness.project, script="limited.py") as terminal:
        assert terminal.end() == 1
        assert f"friday: {PROCESS_LIMIT}" in terminal.out.decode().replace("\r\n", "")
        assert b"new thread" not in terminal.out


def test_what_cannot_be_saved_does_not_work_in_the_background(harness: Harness) -> None:
    """No command would find it, also none that stops it."""
    store_path().parent.parent.mkdir(exist_ok=True)
    store_path().parent.write_text("a file where a folder belongs")
    model = scripted(harness.project, {"a": [does(("bash", {"command": "touch made"})), {"text": "all done"}]})
    said = friday("ask", "-b", "--yolo", "-m", model, "make it", cwd=harness.project, code=1)
    assert "cannot work in the background" in said
    assert "runs in the background" not in said
    assert not (harness.project / "made").exists()


def test_a_terminal_that_attaches_to_nothing_says_why(harness: Harness) -> None:
    with Terminal(harness.project, "attach", "abcdef") as terminal:
        terminal.until(b"friday: ")
        assert terminal.end() == 2


def test_a_chat_lets_go_of_its_terminal_and_is_attached_to_from_another(harness: Harness) -> None:
    play = {"a": [does(("bash", {"command": WAITS})), {"text": "all is said"}]}
    model = scripted(harness.project, play)
    with Terminal(harness.project, "--yolo", "-m", model) as first:
        first.until(b"F1 help")
        first.type(b"begin\r", until=b"Enter queues")
        until(lambda: rows(harness.project)[0]["at_work"] == 1)
        (before,) = rows(harness.project)
        assert not before["reachable"]
        first.type(b"/detach\r", until=b"continues in the background")
        assert first.end() == 0
        assert first.is_clean()
    (after,) = until(lambda: [row for row in rows(harness.project) if row["reachable"]])
    assert (after["pid"], after["state"], after["mode"]) == (before["pid"], "working", "yolo")
    with Terminal(harness.project, "attach", after["id"][:8], "--plain") as plain:
        plain.until(b"Ctrl+D quits")
        plain.type(b"\x04", until=b"continues without this terminal")
        assert plain.end() == 0
    with Terminal(harness.project, "attach", after["id"][:8]) as second:
        second.until(b"Enter queues")
        (harness.project / "go").touch()
        second.until(b"all is said", b"F1 help")
        second.type(b"\x04", until=b"saved. Resume: `friday attach ")
        assert second.end() == 0
    until(lambda: gone(after["pid"]))
    assert (harness.project / "gone").exists()
    assert session_socket.sessions() == []


def test_a_chat_with_nothing_to_do_is_not_said_to_go_on(harness: Harness) -> None:
    with Terminal(harness.project, "-m", scripted(harness.project, {"a": [{"text": "well"}]}), "-i", "hi") as chat:
        chat.until(b"well", b"F1 help")
        chat.type(b"/detach\r", until=b"saved. Resume: `friday -r ")
        assert chat.end() == 0
    assert [row["state"] for row in rows(harness.project)] == ["ended"]


@pytest.mark.parametrize("how", [(), ("--plain",)])
def test_a_session_that_an_attached_chat_stops_does_not_go_on(harness: Harness, how: tuple[str, ...]) -> None:
    model = scripted(harness.project, {"a": [does(("bash", {"command": WAITS}))]})
    friday("ask", "-b", "--yolo", "-m", model, "begin", cwd=harness.project)
    with Terminal(harness.project, "attach", *how) as chat:
        chat.until(b"Ctrl+D quits" if how else b"Enter queues")
        chat.type(b"/stop\r", until=b"saved. Resume")
        assert chat.end() == 0
    until(lambda: rows(harness.project)[0]["pid"] is None)


@pytest.mark.parametrize("how", ["/detach", "the window is closed"])
def test_a_loop_goes_on_without_the_terminal(harness: Harness, how: str) -> None:
    """Also while no agent is at work."""
    model = scripted(harness.project, {"a": [{"text": f"answer {number}"} for number in range(3)]})
    friday("config", "set", "fleet.on_hangup", "detach", cwd=harness.project)
    with Terminal(harness.project, "--yolo", "-m", model, "-i", "hello") as terminal:
        terminal.until(b"answer 0")
        terminal.type(b"/loop until x2 touch begun; until test -e go; do sleep 0.05; done; false\r")
        until((harness.project / "begun").exists)
        if how == "/detach":
            terminal.type(b"/detach\r", until=b"continues in the background")
            assert terminal.end() == 0
        else:
            terminal.hang_up()
    (name,) = until(session_socket.sessions)
    (harness.project / "go").touch()
    until(lambda: not session_socket.sessions())
    said = friday("agents", "logs", name, cwd=harness.project)
    assert said.index("answer 1") < said.index("[round 2 of 2 of /loop]") < said.index("answer 2")


@pytest.mark.parametrize("how", ["the window is closed", "the first process is killed", "stopped by a script"])
def test_what_happens_to_a_chat_at_work(harness: Harness, how: str) -> None:
    play = {"a": [does(("bash", {"command": WAITS})), {"text": "all is said"}]}
    model = scripted(harness.project, play)
    if how != "the first process is killed":
        friday("config", "set", "fleet.on_hangup", "detach", cwd=harness.project)
    with Terminal(harness.project, "--yolo", "-m", model) as terminal:
        terminal.until(b"F1 help")
        terminal.type(b"begin\r", until=b"Enter queues")
        (row,) = until(lambda: [row for row in rows(harness.project) if row["at_work"]])
        if how == "the first process is killed":
            os.kill(terminal.pid, signal.SIGKILL)
            until(lambda: gone(row["pid"]))
            assert [row["state"] for row in rows(harness.project)] == ["ended"]
            return
        terminal.hang_up()
    until(lambda: [row for row in rows(harness.project) if row["reachable"]])
    if how == "stopped by a script":
        assert "1 agent stopped" in friday("agents", "stop", row["id"], cwd=harness.project)
    else:
        (harness.project / "go").touch()
    until(lambda: gone(row["pid"]))
    assert (harness.project / "gone").exists() == (how == "the window is closed")
    assert session_socket.sessions() == []


async def _take_over(session: str) -> None:
    remote = await RemoteSession.connect(session)
    assert remote is not None
    await remote.do(TakeOver("a.1"))
    await remote.close()


WORKS = does(("bash", {"command": WAITS}))
CRASHES = {
    "it works": {"a": [WORKS]},
    "a question is open": {"a": [does(("ask_user", {"question": "Which one?"}))]},
    "a person has a sub-agent": {"a": [delegates("general"), WORKS], "a.1": [WORKS]},
}


@pytest.mark.parametrize("when", CRASHES)
def test_what_a_crash_interrupted_is_resumed_in_its_mode(harness: Harness, when: str) -> None:
    model = scripted(harness.project, CRASHES[when])
    bounds = (
        "--deny",
        "web_fetch",
        "--deny=delegate_task(coder)",
        "--max-turns",
        "9",
        "--max-tokens",
        "90000",
        "--timeout",
        "500",
    )
    friday("ask", "-b", "--yolo", *bounds, "-m", model, "work", cwd=harness.project)
    agents = 2 if "sub-agent" in when else 1

    def begun() -> dict[str, Any] | None:
        return next(
            (r for r in rows(harness.project) if r["at_work"] == agents and ("open" not in when or r["questions"])),
            None,
        )

    row = until(begun)
    if agents == 2:
        asyncio.run(_take_over(row["id"]))
    os.kill(row["pid"], signal.SIGKILL)
    until(lambda: gone(row["pid"]))
    (row,) = until(lambda: [row for row in rows(harness.project) if row["state"] == "interrupted"])
    assert (row["mode"], row["questions"]) == ("yolo", [])
    assert session_socket.sessions() == [], "the list removes the socket of a process that died"
    if agents == 2:
        assert "taken over by the user" in friday("sessions", "show", f"{row['id'][:8]}:a.1", cwd=harness.project)
    assert "has ended" not in friday("agents", "answer", row["id"], "p1", "yes", cwd=harness.project, code=2)
    friday("config", "set", "model", model, cwd=harness.project)
    assert "mode yolo" in friday("agents", "resume", "--all", "--yes", cwd=harness.project)
    (row,) = until(lambda: [row for row in rows(harness.project) if row["pid"]])
    assert row["mode"] == "yolo"
    friday("agents", "stop", row["id"], cwd=harness.project)
    until(lambda: gone(row["pid"]))
    first, again = (e.event for e in asyncio.run(harness.log(row["id"])) if isinstance(e.event, WorkspaceFound))
    assert (again.deny, again.flags) == (first.deny, first.flags)
    assert (len(again.deny), again.flags["limits.max_turns"]) == (2, 9)
