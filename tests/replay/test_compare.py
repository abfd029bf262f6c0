"""Where two requests differ, in words; what two runs of the same work may differ in does not count."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from friday_cli.core.protocol.events import ToolSpec
from friday_cli.core.protocol.messages import Image, Message, Text, ToolCall, ToolResult, user
from friday_cli.core.protocol.provider import Request
from friday_cli.session.replay.compare import Divergence, canonical, differences

GREP, GLOB = ToolSpec("grep", "Looks.\nFast.", {"type": "object"}), ToolSpec("glob", "Lists.", {})
CALLED = Message("assistant", (ToolCall("c1", "grep", {"pattern": "x"}),), origin="demo/demo")
RESULT = Message("tool", (ToolResult("c1", "one\ntwo"),), "harness")
BASE = Request("a.2", "You work.\nWell.", (GREP, GLOB), (user("go"), CALLED, RESULT), max_output=10)
SAME = canonical(["/home/me/project", "/tmp/copy"])


def _with(**fields: Any) -> Request:
    return msgspec.structs.replace(BASE, **fields)


@pytest.mark.parametrize(
    ("now", "kind", "where", "line", "lines"),
    [
        (_with(effort="high"), "parameter", "effort", 0, ("None", "high")),
        (_with(temperature=0.5), "parameter", "temperature", 0, ("None", "0.5")),
        (_with(system="You work.\nHard."), "prefix", "system", 2, ("Well.", "Hard.")),
        (_with(tools=(GREP,)), "prefix", "tool glob is gone", 0, ("", "")),
        (_with(tools=(GREP, GLOB, ToolSpec("new", "", {}))), "prefix", "tool new is new", 0, ("", "")),
        (_with(tools=(GLOB, GREP)), "prefix", "the order of the tools", 0, ("grep, glob", "glob, grep")),
        (_with(tools=(ToolSpec("grep", "Looks.\nSlow.", {"type": "object"}), GLOB)), "prefix", "tool grep", 3, ("Fast.", "Slow.")),
        (_with(messages=(user("stop"), CALLED, RESULT)), "message", "message 1", 1, ("go", "stop")),
        (_with(messages=(user("go"), CALLED)), "result", "message 3, result of c1 is gone", 0, ("ok: one", "")),
        (
            _with(messages=(*BASE.messages, user("more"))), "message", "message 4 is new", 0, ("", "more"),
        ),
        (
            _with(messages=(*BASE.messages[:2], Message("tool", (ToolResult("c1", "one\nthree"),), "harness"))),
            "result", "message 3, result of c1", 2, ("two", "three"),
        ),
        (
            _with(messages=(Message("user", (Text("go"), Image("image/png", "AAAA"))), CALLED, RESULT)),
            "message", "message 1, image is new", 0, ("", "AAAA"),
        ),
    ],
)  # fmt: skip
def test_the_difference_is_named(now: Request, kind: str, where: str, line: int, lines: tuple[str, str]) -> None:
    (found,) = differences(BASE, now, SAME, turn=3)
    assert (found.kind, found.where, found.line) == (kind, where, line)
    assert (found.before, found.after) == lines
    assert (found.agent, found.turn) == ("a.2", 3)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("see /home/me/project/a.py", "see /tmp/copy/a.py"),
        ("at http://127.0.0.1:8001/x", "at http://127.0.0.1:9444/x"),
        ("Today is 2026-11-28; mode: ask.", "Today is 2027-01-01; mode: ask."),
        ("id 7f3a12cd-0000-4000-8000-000000000001", "id 7f3a12cd-0000-4000-8000-0000000000ff"),
        (
            "delegate_id: a.1 | tokens: 12 | cost: $0.1000 | time: 1.0 s",
            "delegate_id: a.1 | tokens: 13 | cost: none (demo) | time: 9.9 s",
        ),
        ("- tools run: grep, glob", "- tools run: glob, grep"),
        (
            "x\n\n# Environment\n\nFolder: /a\nDate: 2026-11-28\nPermission mode: ask (a)",
            "x\n\n# Environment\n\nFolder: /b\nGit branch: main\nDate: 2027-11-28\nPermission mode: ask (a)",
        ),
    ],
)
def test_what_two_runs_of_the_same_work_differ_in_does_not_count(then: str, now: str) -> None:
    assert not list(differences(_with(system=then), _with(system=now), SAME, turn=1))
    assert SAME(SAME(then)) == SAME(now)


def test_the_mode_of_a_session_counts() -> None:
    texts = [f"x\n\n# Environment\n\nFolder: /a\nPermission mode: {mode}\n\n# Next\n\ny" for mode in ("ask", "plan")]
    (found,) = differences(_with(system=texts[0]), _with(system=texts[1]), SAME, turn=1)
    assert (found.before, found.after) == ("Permission mode: ask", "Permission mode: plan")


def test_text_of_others_brings_no_escape_sequence_to_a_terminal() -> None:
    text = Divergence("result", "a", 1, "call \x1b[31mred", before="\x1b]0;t\x07x", after="y\r\x1b[2K").text
    assert "\x1b" not in text
    assert "\r" not in text
