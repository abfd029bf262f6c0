"""Ends of a run from outside: one signal, two signals, a kill, and a reply after the stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from friday_cli.llm.transport.idle_timeout import SUSPENDED_S
from tests.e2e.friday import Friday, ended
from tests.e2e.test_exits import SPOKEN, linux, whole
from tests.servers.fake_model_server import Say, Turn, events, sse, thinking
from tests.servers.script_player import HANG, Reply, Wait
from tests.timing import paced

NAP = f"sleep 6{os.getpid()}"
"""A command that no other test on this machine starts."""
WORKING = """
agents:
  a:
    - {text: "I hand it on.", calls: [{name: delegate_tasks, arguments: {tasks: [
        {profile: researcher, task: dig}, {profile: coder, task: build}]}}]}
  a.1: [{text: "found this so far", chunks: 1, delay_s: 0.0, calls: [{name: grep, arguments: {pattern: x}}]}, {delay_s: 600, text: never}]
  a.2: [{text: "building", calls: [{name: bash, arguments: {command: "NAP"}}]}, {text: never}]
""".replace("NAP", NAP)


def asleep() -> list[str]:
    """Command lines of the processes that the scenario starts."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if words.startswith(NAP):
            found.append(words)
    return found


def until(met: Callable[[], object], what: str) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + 60
    while not met():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def at_work(friday: Friday, *argv: str) -> subprocess.Popen[bytes]:
    friday.plays(WORKING)
    process = friday.start("go", "--yolo", *argv)
    until(lambda: asleep() or process.poll() is not None, "the command")
    return process


@linux
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_whole_tree(friday: Friday, number: signal.Signals, code: int) -> None:
    process = at_work(friday, "--output-format", "json")
    process.send_signal(number)
    ran = ended(process)
    found = whole(ran, code, "cancelled", "aborted")
    assert found["result"] == "I hand it on."
    assert [(a["path"], a["status"], a["stop_reason"]) for a in found["agents"]] == [
        ("a", "cancelled", "aborted"), ("a.1", "cancelled", "parent"), ("a.2", "cancelled", "parent"),
    ]  # fmt: skip
    until(lambda: not asleep(), "the end of the command")
    # the session was saved and can be resumed
    friday.plays("agents: {a: [{text: on we go}]}")
    again = friday.json("and now?", "-r", found["session_id"][:8])
    assert (again.code, again.document["result"], again.document["session_id"]) == (0, "on we go", found["session_id"])


@linux
def test_a_second_signal_leaves_at_once(friday: Friday) -> None:
    """Also while a command ignores SIGTERM, which takes two seconds after one signal."""
    friday.plays(WORKING.replace(NAP, f"trap 'touch told' TERM; {NAP}; {NAP}; {NAP}"))
    process = friday.start("go", "--yolo", "--output-format", "json")
    until(asleep, "the command")
    process.send_signal(signal.SIGINT)
    until((friday.project / "told").exists, "the first signal to reach the command")
    process.send_signal(signal.SIGINT)
    ran = ended(process)
    whole(ran, 130, "cancelled", "aborted")
    until(lambda: not asleep(), "the end of the command")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_session_is_opened(friday: Friday, number: signal.Signals, code: int) -> None:
    """A local server is asked about its model before the run, and does not answer."""
    with thinking(lambda turn: Reply(HANG, before_head=True), "chat") as model_server:
        friday.config.write_text(f'[providers.ollama]\nbase_url = "{model_server.url}/v1"\n', encoding="utf-8")
        process = friday.start("hi", "--output-format", "json", model="ollama/some:1b")
        until(lambda: model_server.connections or process.poll() is not None, "a connection")
        process.send_signal(number)
        ran = ended(process)
    assert ran.code == code
    assert json.loads(ran.out)["exit_code"] == code


@linux
@pytest.mark.parametrize("argv", [("-",), (), ("explain",)])
def test_a_signal_while_it_waits_for_its_input(friday: Friday, argv: tuple[str, ...]) -> None:
    friday.plays(SPOKEN)
    reading, writing = os.pipe()
    process = friday.start(*argv, "--output-format", "json", stdin=reading)
    os.close(reading)
    os.write(writing, b"some")
    until(
        lambda: Path(f"/proc/{process.pid}/wchan").read_text().startswith(("pipe_read", "anon_pipe_read")), "the read"
    )
    process.send_signal(signal.SIGINT)
    whole(ended(process), 130, "failed", None)
    os.close(writing)


@linux
def test_killed_and_gone_on_with(friday: Friday) -> None:
    process = at_work(friday)
    process.kill()
    process.wait()
    until(lambda: not asleep(), "the end of the command")
    friday.plays("agents: {a: [{text: 'as I was saying'}]}")
    ran = friday.json("go on", "-c")
    assert (ran.code, ran.document["result"]) == (0, "as I was saying")
    assert {(a["path"], a["status"]) for a in ran.document["agents"]} == {
        ("a", "completed"), ("a.1", "interrupted"), ("a.2", "interrupted"),
    }  # fmt: skip


def test_a_late_reply_after_a_stop_is_not_read(friday: Friday) -> None:
    """F41: the connection is closed at once, and the next run of the session is clean."""

    def rule(turn: Turn) -> Say | Reply:
        return Reply(HANG, before_head=True) if turn.last == "go" else Say(f"{turn.turn} replies so far")

    with friday.meets(rule) as model_server:
        process = friday.start("go")
        until(lambda: model_server.turns, "the request")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        until(lambda: model_server.left_early, "the end of the connection")
        assert friday("again", "-c").out == "0 replies so far\n"


IMPATIENT = """
import os, sys
from friday_cli.llm.transport import http, idle_timeout
http.IdleTimeout = lambda *limits: idle_timeout.IdleTimeout(float(os.environ["PATIENCE"]), 600)
from friday_cli.frontends.oneshot.options import parse
from friday_cli.frontends.oneshot.run import ask
sys.exit(ask(parse(sys.argv[1:])))
"""


@linux
@paced
def test_f42_a_process_that_was_stopped_for_longer_than_every_limit_goes_on(friday: Friday, pace: float) -> None:
    """The suspended time counts neither as silence of the service nor as time of the agent."""

    def rule(turn: Turn) -> Reply:
        first, *rest = events(turn.wire, Say(("so far, ", "so good")))
        return Reply(sse(turn.wire, [first]), Wait(2.5 * pace), sse(turn.wire, rest))

    with friday.meets(rule, "messages") as model_server:
        limits = "--timeout", f"{2 * pace:g}", "--output-format", "json"
        process = friday.start("hi", *limits, program=("-c", IMPATIENT), PATIENCE=f"{pace:g}")
        until(lambda: model_server.turns, "the request")
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(3 * pace + SUSPENDED_S)
        os.kill(process.pid, signal.SIGCONT)
        found = whole(ended(process), 0, "completed", "done")
    assert found["result"] == "so far, so good"
    assert found["duration_s"] < 2.5 * pace, "the suspended time counts"
    assert (len(model_server.turns), model_server.complaints) == (1, [])
