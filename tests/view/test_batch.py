"""How a batch of `map_tasks` is shown."""

from __future__ import annotations

from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.messages import Message, ToolCall, user
from friday_cli.view import SessionView
from friday_cli.view.tree import batch_progress
from tests.scenarios import numbered


def test_a_call_that_asked_while_it_ran_shows_its_output_again() -> None:
    call = Message("assistant", (ToolCall("c1", "map_tasks", {}),))
    log = numbered(
        ("a", ev.AgentStarted(1, "friday", "go", "m/m")),
        ("a", ev.MessageAdded(user("go"))),
        ("a", ev.MessageAdded(call)),
        ("a", ev.ToolStarted("c1", "map_tasks", "8 items")),
        ("a", ev.PermissionAsked("p1", "c1", "map_tasks", "8 items")),
        ("a", ev.PermissionAnswered("p1", "allow")),
        ("a", ev.ToolOutput("c1", 0, "done 1 of 8\ndone 2 of 8\n")),
    )
    state = SessionView()
    for envelope in log:
        state.apply(envelope)
    assert state.agents["a"].calls["c1"].status == "running"
    assert batch_progress(state.agents["a"], "c1") == "done 2 of 8"
