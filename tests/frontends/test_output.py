"""The three ways to write a run down, each a fold of the same events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from friday_cli.cli.output import show_json
from friday_cli.core.protocol.decode import decode_envelope
from friday_cli.core.protocol.events import (
    AgentFinished,
    AgentStarted,
    AttemptFailed,
    Denied,
    Envelope,
    MessageAdded,
    Notice,
    SessionStarted,
    StatusChanged,
    TextDelta,
    TurnFinished,
    TurnStarted,
    WorktreeChanged,
)
from friday_cli.core.protocol.messages import Usage, user
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.frontends.oneshot.output import (
    MAX_DENIALS,
    MAX_RESULT_CHARS,
    JsonWriter,
    OutputWriter,
    StreamWriter,
    TextWriter,
)

BEGUN = [("a", SessionStarted(1, "5e55-10n", "/ws", "0")), ("a", AgentStarted(1, "friday", "go", "p/m"))]
CHILD = [
    ("a.1", AgentStarted(1, "coder", "build", "p/m", "a", "c1")),
    ("a.1", StatusChanged("running")),
    ("a.1", TurnStarted(1)),
    ("a.1", TurnFinished(1, Usage(input=100, output=7, cost_usd=0.25))),
]
DONE = RunResult("completed", "done", "well")


def told(writer: OutputWriter, *events: tuple[str, Any]) -> OutputWriter:
    for number, (path, event) in enumerate(events, 1):
        seq = None if isinstance(event, TextDelta) else number
        writer.apply(Envelope(seq, 1000.0 + number, path, event))
    return writer


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    out = capsys.readouterr().out
    assert out.endswith("\n")
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_json_of_a_tree_that_was_still_at_work(capsys: pytest.CaptureFixture[str]) -> None:
    writer = told(JsonWriter("5e55-10n"), *BEGUN, *CHILD)
    writer.finish(RunResult("cancelled", "aborted", "so far", partial=True), 130)
    found = document(capsys)
    head = (found["session_id"], found["model"], found["result"], found["exit_code"])
    assert head == ("5e55-10n", "p/m", "so far", 130)
    assert [(a["path"], a["parent"], a["status"], a["stop_reason"]) for a in found["agents"]] == [
        ("a", None, "running", None),
        ("a.1", "a", "running", None),
    ]
    assert found["usage"]["input_tokens"] == 100
    assert (found["cost_usd"], found["agents"][1]["cost_usd"]) == (0.25, 0.25)
    assert found["agents"][0]["duration_s"] > 0


def test_json_of_a_child_with_a_long_result_has_its_beginning_and_its_length(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "ä" * (MAX_RESULT_CHARS + 7)
    end = ("a.1", AgentFinished(1, "failed", "tokens", long, "no more", partial=True))
    told(JsonWriter("s"), *BEGUN, *CHILD, end).finish(DONE, 0)
    child = document(capsys)["agents"][1]
    assert (child["result"], child["result_chars"]) == ("ä" * MAX_RESULT_CHARS, MAX_RESULT_CHARS + 7)
    assert (child["truncated"], child["partial"], child["error"]) == (True, True, "no more")


def test_json_of_an_unknown_cost_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = ("a", TurnFinished(1, Usage(input=5, cost_usd=None)))
    told(JsonWriter("s"), *BEGUN, *CHILD, unknown).finish(DONE, 0)
    assert document(capsys)["cost_usd"] is None


def test_json_of_a_run_that_is_abandoned_has_what_was_being_written(capsys: pytest.CaptureFixture[str]) -> None:
    writer = told(JsonWriter("s"), *BEGUN, ("a", TurnStarted(1)), ("a", TextDelta(1, 1, 0, "half a sen")))
    writer.abandon(130)
    found = document(capsys)
    assert (found["status"], found["stop_reason"], found["result"], found["exit_code"]) == (
        "cancelled",
        "aborted",
        "half a sen",
        130,
    )


def test_json_has_strange_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    told(JsonWriter("s"), *BEGUN).finish(RunResult("completed", "done", "\x1b[2Jü\u2028\ud800"), 0)
    assert document(capsys)["result"].startswith("\x1b[2Jü\u2028")


def test_json_never_has_raw_controls_or_invisible_characters(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    evil = "\x1b]0;x\x07 \x7f \x80 \x9b2J \x9f \xad \u200b \u202e \u2066 \u2028 \ufeff \U000e0041 ü 文 👍"
    found = []
    for write in (
        lambda: told(JsonWriter("s"), *BEGUN).finish(RunResult("completed", "done", evil), 0),
        lambda: told(StreamWriter(), ("a", Notice(evil))),
        lambda: show_json({"event": {"text": evil}}),
    ):
        write()
        out = capsysbinary.readouterr().out.decode()
        assert out.replace("\n", "").isprintable()
        assert "ü 文 👍" in out
        found.append(json.loads(out))
    assert found[0]["result"] == found[1]["event"]["text"] == found[2]["event"]["text"] == evil


def test_the_stream_begins_with_the_version_also_when_a_session_goes_on(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    writer = StreamWriter()
    old = [*BEGUN, ("a", MessageAdded(user("the first prompt")))]
    for number, (path, event) in enumerate(old, 1):
        writer.replay(Envelope(number, 1.0, path, event))
    writer.apply(Envelope(9, 2.0, "a", AgentStarted(2, "friday", "more", "p/m")))
    lines = [decode_envelope(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert [type(e.event).__name__ for e in lines] == ["SessionStarted", "AgentStarted"]
    assert isinstance(lines[0].event, SessionStarted)
    assert lines[0].event.schema == 1


def test_text_through_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    writer = TextWriter(quiet=False, badge="scripted")
    told(writer, *BEGUN, *CHILD, ("a", Notice("look \x1b[2Jhere", "warning")))
    writer.finish(RunResult("completed", "done", "the \x1b[31manswer\r\nis\n\n"), 0)
    said = capsys.readouterr()
    assert said.out == "the answer\nis\n"
    assert said.err.splitlines() == [
        "friday: scripted",
        "friday: look here",
        "friday: session 5e55-10n · 1 sub-agent · 107 tokens · $0.2500 · 5.0 s",
    ]


def test_a_long_wait_is_said_where_no_countdown_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    waits = enumerate([0.5, 20.0, None], 1)
    failures = [("a", AttemptFailed(n, "rate", "Too many requests.", wait)) for n, wait in waits]
    told(TextWriter(quiet=False, badge=""), *BEGUN, *failures)
    told(TextWriter(quiet=True, badge=""), *BEGUN, *failures)
    assert capsys.readouterr().err.splitlines() == ["friday: a: Too many requests. Retrying in 20 s."]


def test_an_outage_is_said_once_and_before_its_waits_are_long(capsys: pytest.CaptureFixture[str]) -> None:
    waits = enumerate([0.7, 1.5, 3.0, 7.0], 1)
    lost = [("a", AttemptFailed(n, "network", "The connection was lost.", wait)) for n, wait in waits]
    told(TextWriter(quiet=False, badge=""), *BEGUN, *lost, ("a", TurnFinished(1, Usage(), "end_turn")), *lost[:3])
    assert capsys.readouterr().err.splitlines() == [
        f"friday: a: The connection was lost. Retrying in {wait}." for wait in ("1.5 s", "7.0 s", "1.5 s")
    ]


def test_quiet_says_only_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    writer = TextWriter(quiet=True, badge="scripted")
    told(writer, *BEGUN, ("a", Notice("look here")))
    writer.finish(DONE, 0)
    assert capsys.readouterr().err == ""
    writer.finish(RunResult("failed", "provider", "half", error="It broke.", partial=True), 1)
    assert capsys.readouterr().err.splitlines() == [
        "friday: failed (provider): It broke.",
        "friday: the answer is partial: the agent did not finish it",
    ]


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (RunResult("completed", "tokens", "x", limit_of="a"), "stopped: the tokens limit was reached"),
        (RunResult("completed", "cost", "x", limit_of="a.1"), "stopped: the cost limit of a.1 was reached"),
        (RunResult("timeout", "time", "", "No wrap-up: x"), "stopped: the time limit was reached: No wrap-up: x"),
        (RunResult("cancelled", "aborted", ""), "stopped"),
    ],
)
def test_how_it_ended(outcome: RunResult, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    told(TextWriter(quiet=True, badge=""), *BEGUN).finish(outcome, 5)
    assert capsys.readouterr().err.splitlines() == [f"friday: {line}"]


def test_work_that_waits_in_a_worktree_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    opened = WorktreeChanged("opened", "friday/5e55-1", "/w", "base")
    changed = WorktreeChanged("changed", "friday/5e55-1", "/w", "base", (FileChange("x.py", 3, 1, ""),))
    writer = told(TextWriter(quiet=True, badge=""), *BEGUN, *CHILD, ("a.1", opened), ("a.1", changed))
    writer.finish(DONE, 0)
    words = "changes of a.1 are in a worktree on friday/5e55-1: 1 file changed +3 -1, not applied."
    assert f"{words} Run `friday worktrees apply 5e55-10n:a.1` or `discard`" in capsys.readouterr().err
    told(TextWriter(quiet=True, badge=""), *BEGUN, *CHILD, ("a.1", opened)).finish(DONE, 0)
    assert "worktree" not in capsys.readouterr().err


def test_refused_calls_are_listed_once_each_and_not_without_end(capsys: pytest.CaptureFixture[str]) -> None:
    same = [("a", Denied(f"c{n}", "bash", "rm\n-rf \x1b[2Jx", "mode ask")) for n in range(3)]
    others = [("a.1", Denied(f"d{n}", "web_fetch", f"http://e.org/{n}", "no")) for n in range(MAX_DENIALS)]
    told(TextWriter(quiet=True, badge=""), *BEGUN, *same, *others).finish(DONE, 0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "friday: denied 3 times: a bash rm ⏎ -rf \\x1b[2Jx: mode ask"
    assert lines[1] == "friday: denied: a.1 web_fetch http://e.org/0: no"
    assert lines[-1] == "friday: 1 more call denied"
    assert len(lines) == MAX_DENIALS + 1
