from __future__ import annotations

import pytest

from friday_cli.core.protocol.events import (
    AgentFinished,
    AgentStarted,
    StatusChanged,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from friday_cli.core.protocol.format import seconds, tokens
from friday_cli.core.protocol.messages import ToolCall, Usage
from friday_cli.core.protocol.receipt import Receipt
from friday_cli.core.protocol.run_result import Status
from friday_cli.view import SessionView
from friday_cli.view.tree import activity_text, agent_line, render_tree
from tests.scenarios import numbered, said, tree


def test_the_tree_in_words() -> None:
    lines = render_tree(SessionView.of(tree()))
    assert lines == [
        "✓ a general · completed · 608 tokens (tree 768) · $2.00 · 9.0 s · Count the lines of main.py",
        "│     tools run: delegate_task",
        "└─ ✓ a.1 researcher · completed · 160 tokens · 43% cached · $0.7500 · 6.5 s · read main.py",
        "         > It has 2 lines.",
        "         tools run: read_file",
    ]
    branch = render_tree(SessionView.of(tree()), top="a.1")
    assert [line.strip() for line in branch] == [lines[2].removeprefix("└─ "), lines[3].strip(), lines[4].strip()]


@pytest.mark.parametrize(("status", "mark"), [("completed", "!"), ("failed", "✗")])
def test_warnings_replace_the_symbol_of_success(status: Status, mark: str) -> None:
    receipt = Receipt(warnings=("claims changes, but no file was changed",))
    state = SessionView.of(
        numbered(
            ("a", AgentStarted(1, "coder", "fix", "m")),
            ("a", AgentFinished(1, status, "done", "I fixed it.", receipt=receipt)),
        )
    )
    assert agent_line(state, state.agents["a"], now=0.0).startswith(f"{mark} a coder")
    assert (activity_text(state, state.agents["a"]) == receipt.warnings[0]) is (status == "completed")


@pytest.mark.parametrize(
    ("begun", "line"),
    [
        (AgentStarted(1, "general", "look", "demo/demo"), "▸ a general · running · 0 tokens · demo · 0.0 s · look"),
        (
            AgentStarted(1, "\x1b[31mred", "\x1b]0;owned\x07 do\nit \u202eback", "m"),
            "▸ a red · running · 0 tokens · $0.0000 · 0.0 s · do it back",
        ),
    ],
    ids=["a scripted demo has no price", "foreign text cannot steer the terminal"],
)
def test_one_agent(begun: AgentStarted, line: str) -> None:
    assert render_tree(SessionView.of(numbered(("a", begun))), details="none") == [line]


def test_agents_at_work_say_what_they_do() -> None:
    state = SessionView.of(numbered(("a", AgentStarted(1, "general", "all of it", "m")),
                              ("a.1", AgentStarted(1, "coder", "one", "m", "a", background=True)),
                              ("a.1", StatusChanged("running")), ("a.1", TurnStarted(1)),
                              ("a.1", said("", ToolCall("c", "bash", {}))), ("a.1", ToolStarted("c", "bash", "make test")),
                              ("a.2", AgentStarted(1, "coder", "two", "m", "a")), ("a.2", StatusChanged("running")),
                              ("a.2", StatusChanged("waiting_rate", "rate", 4.0)),
                              ("a.3", AgentStarted(1, "coder", "three", "m", "a")), ("a.3", StatusChanged("running")),
                              ("a.3", TurnFinished(1, Usage(1500, cost_usd=None))),
                              ("a.3", AgentFinished(1, "failed", "tokens", limit_of="a", usage=Usage(1500, cost_usd=None))),
                              at=100.0))  # fmt: skip
    assert render_tree(state, now=120.0, details="none") == [
        "▸ a general · running · 0 tokens (tree 1.5k) · cost n/a · 20 s · all of it",
        "├─ ▸ a.1 coder · running (bash make test) · 0 tokens · $0.0000 · 18 s · background · one",
        "├─ ◌ a.2 coder · waits 4.0 s: rate limit · 0 tokens · $0.0000 · 1.0 s · two",
        "└─ ✗ a.3 coder · failed (tokens of a) · 1.5k tokens · cost n/a · 0.0 s · three",
    ]


def test_durations_and_token_counts() -> None:
    durations = {0.04: "0.0 s", 9.94: "9.9 s", 41.2: "41 s", 59.6: "1 m 00 s", 185: "3 m 05 s", 7260: "2 h 01 m"}
    assert {duration: seconds(duration) for duration in durations} == durations
    usages = [Usage(950), Usage(12_345), Usage(999_960), Usage(5, cache_read=900, output=5), Usage(40, estimated=True)]
    assert [tokens(usage) for usage in usages] == ["950", "12.3k", "1.00M", "10", "~40"]
