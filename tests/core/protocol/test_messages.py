"""Histories: every call has its one result, whatever was lost or doubled on the way."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from friday_cli.core.protocol.messages import (
    Image,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    closed,
    estimate_message,
    estimate_tokens,
    open_calls,
    user,
)
from tests.strict import strict

IDS = st.sampled_from("pqrs")
CALLS = st.lists(IDS, min_size=1, max_size=4, unique=True).map(
    lambda ids: Message("assistant", tuple(ToolCall(i, "look") for i in ids))
)
RESULTS = st.lists(IDS, max_size=4).map(
    lambda ids: Message("tool", tuple(ToolResult(i, f"{n}: of {i}") for n, i in enumerate(ids)), "harness")
)
SAID = st.sampled_from([user("go on"), Message("assistant", (Text("well"),))])
HISTORIES = st.lists(st.one_of(CALLS, RESULTS, RESULTS, SAID), max_size=12).map(lambda h: [user("go"), *h])


@given(HISTORIES)
@settings(max_examples=300)
def test_any_history_is_closed_to_one_that_a_strict_server_takes(history: list[Message]) -> None:
    repaired = closed(history)
    assert strict(repaired) == []
    assert closed(repaired) == repaired
    assert [m for m in repaired if m.role != "tool"] == [m for m in history if m.role != "tool"]


@given(HISTORIES)
def test_no_result_is_made_up_where_one_was_given(history: list[Message]) -> None:
    given_ = [r for m in history for r in m.results]
    for result in (r for m in closed(history) for r in m.results):
        assert result in given_ or (result.status == "cancelled" and "lost" in result.text)


def test_results_that_came_apart_or_in_another_order_are_put_in_call_order() -> None:
    calls = Message("assistant", (ToolCall("p", "look"), ToolCall("q", "look"), ToolCall("r", "look")))
    repaired = closed(
        [user("go"), calls, Message("tool", (ToolResult("r", "3"),)), Message("tool", (ToolResult("p", "1"),))]
    )
    assert [(r.call_id, r.text, r.status) for r in repaired[-1].results] == [
        ("p", "1", "ok"), ("q", "interrupted: the result was lost", "cancelled"), ("r", "3", "ok"),
    ]  # fmt: skip
    assert len(repaired) == 3


def test_a_closed_history_is_left_as_it_is() -> None:
    history = [
        user("go"),
        Message("assistant", (Text("look"), ToolCall("p", "look"))),
        Message("tool", (ToolResult("p", "1", "error", (Image("image/png", "eA=="),)),), "harness"),
        Message("assistant", (Text("done"),)),
    ]
    assert closed(history) == history


def test_open_calls_are_those_of_the_last_reply_without_a_result() -> None:
    reply = Message("assistant", (ToolCall("p", "look"), ToolCall("q", "look")))
    assert [c.id for c in open_calls([user("go"), reply])] == ["p", "q"]
    assert [c.id for c in open_calls([user("go"), reply, Message("tool", (ToolResult("p", "1"),))])] == ["q"]
    assert open_calls([user("go"), reply, Message("assistant", (Text("over"),))]) == ()
    assert open_calls([]) == ()


def test_usage_adds_up_and_an_unknown_cost_stays_unknown() -> None:
    a, b = Usage(input=5, output=2, cache_read=7, cost_usd=0.5), Usage(input=1, cache_write=3, cost_usd=0.25)
    total = a + b
    assert (total.billed, total.context, total.cost_usd) == (5 + 2 + 1 + 3, 5 + 2 + 7 + 1 + 3, 0.75)
    assert (a + Usage(cost_usd=None)).cost_usd is None
    assert (a + Usage(estimated=True)).estimated
    assert not (a + Usage(cached=False)).cached


@given(st.text())
def test_an_estimate_is_never_below_a_quarter_of_the_bytes(text: str) -> None:
    size = len(text.encode("utf-8", "replace"))
    assert size / 4 <= estimate_tokens(text) <= size / 4 + 1
    assert estimate_message(user(text)) >= estimate_tokens(text)
