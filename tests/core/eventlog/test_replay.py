from __future__ import annotations

from hypothesis import given, settings

from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.messages import ToolCall, ToolResult, Usage, open_calls, user
from friday_cli.core.protocol.receipt import Receipt
from friday_cli.core.protocol.receipt_builder import ReceiptBuilder
from tests.scenarios import logs, numbered, results, said, tree

FEW = settings(max_examples=60)


def test_the_agents_of_a_log() -> None:
    records = replay(tree())
    assert list(records) == ["a", "a.1"]
    root, child = records["a"], records["a.1"]
    assert [m.role for m in root.history] == ["user", "assistant", "tool", "assistant"]
    assert [m.text for m in child.history if m.text] == ["read main.py", "It has 2 lines."]
    assert child.end is not None
    assert (child.run, child.profile, child.task, child.text) == (1, "researcher", "read main.py", "It has 2 lines.")
    assert (root.prefix, child.prefix) == (
        ev.Prefix("acme/small", "You are Friday.", root.prefix.tools if root.prefix else ()),
        None,
    )
    assert child.usage == Usage(130, 100, 0, 30, cost_usd=0.75)
    assert child.receipt == Receipt({"read_file": 1}, read=("main.py",))


@FEW
@given(logs(ended=False))
def test_histories_are_closed_wherever_the_log_is_cut(log: list[ev.Envelope]) -> None:
    kept = [e for e in log if e.seq is not None]
    for cut in range(0, len(kept) + 1, 7):
        for record in replay(kept[:cut]).values():
            assert not open_calls(record.history)


@FEW
@given(logs(ended=False))
def test_the_receipt_is_what_the_agent_itself_counts(log: list[ev.Envelope]) -> None:
    for path, record in replay(e for e in log if e.seq is not None).items():
        tally = ReceiptBuilder()
        for event in (e.event for e in log if e.agent == path):
            if isinstance(event, ev.ToolFinished):
                tally.add(event.tool, event.status, event.facts)
            elif isinstance(event, ev.HandedBack):
                tally.add_person(event.part)
        assert record.receipt == tally.receipt


def test_a_second_run_continues_with_the_same_totals() -> None:
    log = numbered(
        ("a", ev.AgentStarted(1, "p", "first", "m", mode="ask")),
        ("a", said("one", ToolCall("c", "bash"))),
        ("a", ev.ToolFinished("c", "bash", "ok")),
        ("a", ev.TurnFinished(1, Usage(10, output=5, cost_usd=1.0), context=15)),
        ("a", ev.AttemptFailed(1, "rate", "no", 1.0, Usage(7, cost_usd=0.5))),
        (
            "a",
            ev.AgentFinished(
                1, "cancelled", "aborted", usage=Usage(20, output=5, cost_usd=2.0),
                receipt=Receipt({"bash": 1}, warnings=("seen",)),
            ),
        ),
        ("a", ev.ModeChanged("plan")),
        ("a", ev.RuleAdded("bash(ls)", "allow")),
        ("a", ev.AgentStarted(2, "p", "second", "m")),
        ("a", ev.MessageAdded(user("go on"))),
        ("a", ev.ToolFinished("d", "bash", "error")),
        ("a", ev.TurnFinished(1, Usage(3, cost_usd=None))),
    )  # fmt: skip
    record = replay(log)["a"]
    assert (record.run, record.task, record.end, record.mode) == (2, "second", None, "plan")
    assert [rule.rule for rule in record.rules] == ["bash(ls)"]
    assert record.usage == Usage(23, output=5, cost_usd=None)
    assert record.receipt == Receipt({"bash": 2}, failed=1), "warnings are of one run"
    assert [m.role for m in record.history] == ["assistant", "tool", "user"]
    assert record.history[1].results[0].status == "cancelled"
    before = replay(log[:5])["a"]
    assert (before.usage, before.context) == (Usage(17, output=5, cost_usd=1.5), 15)


def test_what_is_still_open_is_known() -> None:
    log = numbered(
        ("a", ev.AgentStarted(1, "p", "t", "m")), ("a", ev.QuestionAsked("q1", "c1", "Which?")),
        ("a", ev.PermissionAsked("q2", "c2", "bash", "rm")), ("a", ev.AskWithdrawn("q2")), ("a", ev.InboxMessage("first")),
        ("a", ev.InboxMessage("second")), ("a", ev.MessageAdded(user("first"))),
    )  # fmt: skip
    record = replay(log)["a"]
    assert list(record.asks) == ["q1"]
    assert [message.text for message in record.inbox] == ["second"]


def test_active_time_leaves_the_waits_for_people_out() -> None:
    log = [
        ev.Envelope(1, 100.0, "a", ev.AgentStarted(1, "p", "t", "m")), ev.Envelope(2, 110.0, "a", ev.StatusChanged("waiting_user")),
        ev.Envelope(3, 500.0, "a", ev.StatusChanged("running")), ev.Envelope(4, 505.0, "a", said("x")),
    ]  # fmt: skip
    assert replay(log)["a"].active_s == 15.0


def test_results_without_a_call_are_dropped() -> None:
    log = numbered(("a", ev.AgentStarted(1, "p", "t", "m")), ("a", results(ToolResult("ghost", "boo"))))
    assert replay(log)["a"].history == []
