"""The lines of an agent in the tree: what matters reads well in any width."""

from __future__ import annotations

import pytest
from rich.style import Style

from friday_cli.core.protocol.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    Envelope,
    PermissionAsked,
    StatusChanged,
    TextDelta,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from friday_cli.core.protocol.messages import ToolCall, Usage
from friday_cli.frontends.tui.widgets.agent_block import make_block
from friday_cli.frontends.tui.widgets.agent_tree import draw
from friday_cli.frontends.tui.widgets.blocks import RenderContext
from friday_cli.frontends.tui.widgets.styles import Styles, TextRenderer
from friday_cli.frontends.tui.widgets.tree_rows import Branch
from friday_cli.view import SessionView
from tests.scenarios import numbered, said

PLAIN = Styles(*[Style()] * 14, "default")
TASK = "Read the tests of the retry and say what they miss"
SPENT = Usage(input=9_160, output=640, cost_usd=0.0271)
BEGUN: list[tuple[str, AnyEvent]] = [
    ("a", AgentStarted(1, "friday", "Why does the retry not wait longer?", "acme/m")),
    ("a", StatusChanged("running")),
    ("a.1", AgentStarted(1, "researcher", "Find why", "acme/m", "a", tokens=40_000)),
    ("a.1", TurnFinished(1, SPENT)),
    ("a.2", AgentStarted(1, "analyst", TASK, "acme/m", "a", tokens=40_000)),
    ("a.2", StatusChanged("running")),
    ("a.2", TurnFinished(1, SPENT)),
]


def rows(path: str, width: int, *more: tuple[str, AnyEvent], branch: Branch | None = None) -> list[str]:
    state = SessionView.of(numbered(*BEGUN, *more))
    agent = state.agents[path]
    branch = branch or (Branch("├", "│") if agent.parent else Branch())
    strips = draw(RenderContext(state, TextRenderer(PLAIN), lambda: 0.0, make_block), agent, branch, width, 1_009.0)
    assert all(strip.cell_length <= width for strip in strips)
    return [strip.text for strip in strips]


def test_what_it_waits_for_and_all_its_figures_stand_in_45_columns() -> None:
    top, low = rows("a", 45, ("a", StatusChanged("waiting_child", agents=("a.1", "a.2"))))
    assert top.startswith("▾◦ friday Why does the retry not wait")
    assert top.endswith(" s")
    assert low.startswith("│ waits for a.1 a.2 ")
    assert low.endswith("Σ$0.054")
    waits = ("a", StatusChanged("waiting_child", agents=("a.1", "a.2")))
    ended = ("a.1", AgentFinished(1, "completed", "done", usage=SPENT))
    assert rows("a", 45, waits, ended)[1].startswith("│ waits for a.2 ")
    first = "├ ● analyst Read the tests of the retr… 4.0 s"
    assert rows("a.2", 45) == [first, "│  thinks                 9.8k · $0.027 █░░░░"]


@pytest.mark.parametrize("width", [30, 45, 60])
def test_a_command_that_runs_is_read_before_the_figures_are(width: int) -> None:
    call = ToolCall("c", "bash", {"command": "pytest -q tests/test_retry.py"})
    ran = ("a.2", said("", call)), ("a.2", ToolStarted("c", "bash", "pytest -q tests/test_retry.py"))
    low = rows("a.2", width, *ran)[1]
    assert "bash pytest -q tes" in low
    assert "$0.027" in low


@pytest.mark.parametrize("width", [30, 45, 60])
def test_it_says_what_is_asked_and_why_it_ended(width: int) -> None:
    waits = ("a.2", StatusChanged("waiting_user"))
    asked = rows("a.2", width, waits, ("a.2", PermissionAsked("p", "c", "bash", "make all")))
    assert "needs you" in asked[0]
    assert "bash make all" in asked[1]
    failed = rows("a.2", width, ("a.2", AgentFinished(1, "failed", "provider", error="no such model")))
    assert "failed (provider)" in failed[1]
    assert "waits 4.0 s: rate " in rows("a.2", width, ("a.2", StatusChanged("waiting_rate", "rate", 4.0)))[1]
    assert "waits for tokens" in rows("a.2", width, ("a.2", StatusChanged("waiting_budget", "tokens")))[1]


def test_in_a_narrow_column_the_task_comes_first() -> None:
    top, low = rows("a.2", 33)
    assert top.startswith("├ ● Read the tests of")
    assert low.startswith("│  thinks"), low


def test_what_is_unknown_is_not_told_as_nothing() -> None:
    end = ("a.2", TurnFinished(2, Usage(100, cost_usd=None))), ("a.2", AgentFinished(1, "completed", "done"))
    assert "$ n/a" in rows("a.2", 45, *end)[1]
    assert rows("a", 60, *end)[1].count("$ n/a") == 1


def test_what_a_reply_uses_is_estimated_while_it_streams() -> None:
    request = Usage(input=600, cost_usd=0.006, estimated=True)
    log = numbered(*BEGUN, ("a.2", TurnStarted(2, request=request, output_usd=0.00001)))
    state = SessionView.of([*log, Envelope(None, 1_008.0, "a.2", TextDelta(2, 1, 0, "x" * 2_400))])
    context = RenderContext(state, TextRenderer(PLAIN), lambda: 0.0, make_block)
    low = draw(context, state.agents["a.2"], Branch("├", "│"), 45, 1_009.0)[1].text
    assert "~11.0k · ~$0.039" in low, low
    assert "~20.8k" in draw(context, state.agents["a"], Branch(), 60, 1_009.0)[1].text


def test_a_folded_branch_says_who_in_it_needs_the_person() -> None:
    top, low = rows("a", 45, branch=Branch(folded=True, hidden=2, asked=True))
    assert top.startswith("▸● friday needs you +2 Why does")
    assert low.startswith("  thinks")


def test_in_a_list_of_some_agents_each_has_its_path() -> None:
    assert rows("a.2", 45, branch=Branch(flat=True))[0].startswith(" ● a.2 analyst Read the tests")
