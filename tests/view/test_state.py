from __future__ import annotations

from unittest.mock import ANY

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.eventlog.replay import replay
from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.decode import decode_envelope
from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.core.protocol.events import LIVE, AgentFinished, AgentStarted, Envelope, StatusChanged, encode
from friday_cli.core.protocol.messages import Message, Text, ToolCall, ToolResult, Usage, user
from friday_cli.core.protocol.receipt import Finding, Receipt, ToolFacts
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.view import MessageItem, NoteItem, ResultItem, SessionView, TextStream, ToolRun
from friday_cli.view.state import awaited_children
from tests.scenarios import logs, numbered, results, said, tree

STEPS = settings(max_examples=60)


def durable(log: list[Envelope]) -> list[Envelope]:
    return [envelope for envelope in log if envelope.seq is not None]


@STEPS
@given(logs())
def test_a_state_that_saw_live_events_equals_one_folded_from_the_log(log: list[Envelope]) -> None:
    kept = [decode_envelope(encode(envelope)) for envelope in durable(log)]
    assert SessionView.of(log) == SessionView.of(kept)


@STEPS
@given(logs(), st.data())
def test_live_events_that_come_late_or_twice_leave_no_trace(log: list[Envelope], data: st.DataObject) -> None:
    late = list(log)
    for envelope in [e for e in log if isinstance(e.event, LIVE)]:
        late.insert(data.draw(st.integers(late.index(envelope), len(late))), envelope)
    assert SessionView.of(late) == SessionView.of(durable(log))


@STEPS
@given(logs(ended=False))
def test_view_and_replay_tell_the_same_of_every_agent(log: list[Envelope]) -> None:
    state, records = SessionView.of(log), replay(log)
    assert list(state.agents) == list(records)
    for path, record in records.items():
        agent = state.agents[path]
        assert (agent.run, agent.status, agent.ended) == (record.run, record.status, record.end is not None)
        assert (agent.usage, agent.receipt, set(agent.asks)) == (record.usage, record.receipt, set(record.asks))
        assert not (record.end and agent.open)
    ended = SessionView.of(durable(log))  # usage_of estimates a reply that is being streamed
    assert ended.usage_of("a").billed == state.totals.billed == sum(r.usage.billed for r in records.values())
    assert set(state.asks) == {ask for record in records.values() for ask in record.asks}


@pytest.mark.parametrize(("agent", "parent"), [("", ""), ("a", "a")])
def test_a_damaged_row_that_makes_an_agent_its_own_parent_is_read(agent: str, parent: str) -> None:
    start = AgentStarted(1, "friday", "look", "m")
    damaged = AgentStarted(1, "friday", "look", "m", parent)
    state = SessionView.of(numbered(("a", start), (agent, damaged), ("a", StatusChanged("waiting_child"))))
    assert state.agents["a"].status == "waiting_child"


def test_the_tree_of_a_delegation() -> None:
    state = SessionView.of(tree())
    root, child = state.agents["a"], state.agents["a.1"]
    assert root.children == ["a.1"]
    assert (child.parent, child.profile, child.model) == ("a", "researcher", "acme/tiny")
    assert child.end == RunResult("completed", "done", "It has 2 lines.")
    assert (child.turns, child.context, child.active_s(9e9)) == (2, 140, 6.5)
    assert child.usage == Usage(130, 100, 0, 30, cost_usd=0.75)
    assert state.usage_of("a") == Usage(690, 100, 0, 78, cost_usd=2.0)
    assert root.calls["c1"].agents == ["a.1"]
    assert [type(item) for item in root.transcript] == [MessageItem, MessageItem, ToolRun, MessageItem]
    assert (state.session, state.cwd, state.version, state.seq) == ("s", "/work", "1.0", len(tree()))
    assert child.receipt.tools == {"read_file": 1}
    unknown = ev.TurnFinished(9, Usage(1, cost_usd=None))
    state = SessionView.of([*tree(), *numbered(("a.1", unknown), first=len(tree()) + 1)])
    assert state.agents["a"].usage.cost_usd == root.usage.cost_usd
    assert (state.usage_of("a").cost_usd, state.totals.cost_usd) == (None, None), "one unknown price makes the whole so"


@pytest.mark.parametrize(
    ("texts", "notes", "own"),
    [
        ((f"{NOTE} The session was resumed.\n\n", f"{NOTE} Also [this].\n\n", "go"), ["The session was resumed.", "Also [this]."], "go"),
        (("[The permission mode is now plan: look.]\n\n", "go"), ["The permission mode is now plan: look."], "go"),
        ((f"{NOTE} I wrote this",), [], f"{NOTE} I wrote this"),
        (("go", "on"), [], "goon"),
    ],
)  # fmt: skip
def test_notes_of_the_harness_are_not_shown_as_words_of_the_person(
    texts: tuple[str, ...], notes: list[str], own: str
) -> None:
    message = Message("user", tuple(Text(text) for text in texts))
    state = SessionView.of(numbered(("a", AgentStarted(1, "general", "go", "m")), ("a", ev.MessageAdded(message))))
    *before, last = state.agents["a"].transcript
    assert [item.text for item in before if isinstance(item, NoteItem)] == notes
    assert (last.text, len(before)) == (own, len(notes))


@pytest.mark.parametrize(("last", "result", "shown"), [
    ([said("", ToolCall("r", "task_result", {"result": "# Done"}))], "# Done", "# Done"),
    ([said("I hand it in.", ToolCall("r", "task_result", {"result": "# Done"}))], "# Done", "# Done"),
    ([said("# Done")], "# Done", ""),
    ([said("# Do"), ev.MessageAdded(user("Continue.", source="harness")), said("ne")], "# Done", ""),
])  # fmt: skip
def test_a_run_of_a_sub_agent_ends_with_its_result(last: list[ev.AnyEvent], result: str, shown: str) -> None:
    receipt, findings = Receipt({"task_result": 1}, warnings=("w",)), (Finding("c", "e", True),)
    end = AgentFinished(1, "failed", "reported", result, receipt=receipt, findings=findings)
    state = SessionView.of(
        numbered(
            ("a", AgentStarted(1, "p", "t", "m")),
            ("a.1", AgentStarted(1, "p", "t", "m", "a")),
            *(("a.1", event) for event in last),
            ("a.1", end),
            ("a", AgentFinished(1, "completed", "done", "Fine.")),
            at=1.0,
        )
    )
    note, item = state.agents["a.1"].transcript[-2:]
    assert (type(note), item) == (NoteItem, ResultItem(shown, ANY, findings, receipt))
    assert not state.agents["a"].transcript, "the main agent's end is an item only with a warning"


def test_what_is_free_of_the_context_is_known_from_the_first_turn_on() -> None:
    agents = SessionView.of(numbered(("a", AgentStarted(1, "p", "t", "m")))).agents
    assert (agents["a"].context, agents["a"].window) == (0, 0)
    log = numbered(("a", AgentStarted(1, "p", "t", "m")), ("a", ev.TurnStarted(1, context=300, window=1000)),
                   ("a", ev.TurnFinished(1, Usage(input=310, output=40), context=350, window=1000)),
                   ("a", ev.TurnStarted(2, context=900, window=1000)), ("a", ev.Compacted((user("short"),), 900, 20)),
                   ("a", ev.TurnFinished(2, Usage(input=1200), context=1200, window=1000)))  # fmt: skip
    seen = [SessionView.of(log[:count]).agents["a"] for count in range(2, 7)]
    assert [agent.context for agent in seen] == [300, 350, 900, 20, 1200]


def test_a_search_that_the_service_ran_is_an_entry_without_a_call() -> None:
    shown = TableDisplay(("title", "url"), (("E", "https://e.org"),))
    log = numbered(("a", AgentStarted(1, "p", "t", "m")), ("a", ev.TurnStarted(1)),
                   ("a", ev.ToolStarted("s1", "web_search", "what is")),
                   ("a", ev.ToolFinished("s1", "web_search", "ok", 0.0, shown, ToolFacts(found=("https://e.org",)))),
                   ("a", said("so")), ("a", ev.TurnFinished(1, Usage(1))),
                   ("a", AgentFinished(1, "completed", "done", "so")))  # fmt: skip
    agent = SessionView.of(log).agents["a"]
    run = agent.calls["s1"]
    assert (run.status, run.title, run.display, agent.open) == ("ok", "what is", shown, {})
    assert [type(item) for item in agent.transcript] == [ToolRun, MessageItem]
    assert agent.receipt.found == ("https://e.org",)


def test_a_reply_grows_and_a_new_attempt_starts_it_afresh() -> None:
    state = SessionView.of(numbered(("a", AgentStarted(1, "p", "t", "m")), ("a", ev.TurnStarted(3))))

    def live(event: ev.TextDelta | ev.ThinkingDelta | ev.CallDelta) -> None:
        state.apply(Envelope(None, 0, "a", event))

    live(ev.ThinkingDelta(3, 1, 0, "hm"))
    live(ev.TextDelta(3, 1, 0, "one "))
    live(ev.TextDelta(3, 1, 4, "two"))
    live(ev.TextDelta(3, 1, 4, "two"))
    live(ev.CallDelta(3, 1, 0, "bash", 12))
    reply = state.agents["a"].reply
    assert reply is not None
    assert (reply.text.text, reply.thinking.text, reply.calls) == ("one two", "hm", {0: ("bash", 12)})
    state.apply(
        Envelope(3, 0, "a", ev.AttemptFailed(1, "stall", "No word from the model.", 2.0, Usage(5, cost_usd=None)))
    )
    live(ev.TextDelta(3, 1, 7, " late"))
    assert state.agents["a"].reply is None
    live(ev.TextDelta(3, 2, 0, "old"))
    live(ev.TextDelta(3, 2, 0, ""))  # the service begins the reply again
    live(ev.TextDelta(3, 2, 0, "again"))
    reply = state.agents["a"].reply
    assert reply is not None
    assert reply.text.text == "again"
    assert state.agents["a"].usage == Usage(5, cost_usd=None)
    assert state.agents["a"].transcript == [NoteItem("No word from the model. Trying again.", "warning", 0, failures=1)]
    state.apply(Envelope(4, 0, "a", ev.AttemptFailed(2, "network", "It is gone.", None)))
    note = NoteItem("It is gone. (2 tries failed)", "warning", 0, failures=2)
    assert state.agents["a"].transcript == [note], "one line for all failures of a request"
    state.apply(Envelope(5, 0, "a", said("again and done")))
    assert state.agents["a"].transcript[0] == NoteItem("It is gone. (2 tries failed)", "warning", 0), "it has an end"
    live(ev.TextDelta(3, 2, 5, " late"))
    assert state.agents["a"].reply is None


def test_a_flow_whose_beginning_was_missed_says_so_and_a_long_one_keeps_its_newest_part_only() -> None:
    flow = TextStream()
    flow.put(10, "later")
    assert (flow.start, flow.text) == (10, "later")
    flow.put(15, " on")
    flow.put(12, "ter on!")
    assert flow.text == "later on!"
    flow = TextStream(limit=100)
    for number in range(1000):
        flow.put(number * 10, f"{number:010}")
    assert len(flow.text) <= 200
    assert flow.text.endswith("0000000999")
    assert flow.start + len(flow.text) == 10_000


def test_a_tool_from_call_to_result() -> None:
    state = SessionView.of(
        numbered(
            ("a", AgentStarted(1, "p", "t", "m")),
            ("a", ev.TurnStarted(1)),
            ("a", said("", ToolCall("c", "bash", {"command": "make"}))),
        )
    )
    agent = state.agents["a"]
    assert (agent.calls["c"].status, agent.current) == ("pending", None)
    for envelope in numbered(("a", ev.ToolStarted("c", "bash", "make")), first=4):
        assert state.apply(envelope) == ("a",)
    state.apply(Envelope(None, 0, "a", ev.ToolOutput("c", 0, "cc main.c")))
    assert agent.current is agent.calls["c"]
    output = agent.calls["c"].output
    assert output is not None
    assert (agent.current.title, output.text) == ("make", "cc main.c")
    run = agent.calls["c"]
    state.apply(Envelope(5, 0, "a", ev.ToolFinished("c", "bash", "error", 2.0)))
    state.apply(Envelope(None, 0, "a", ev.ToolOutput("c", 9, "late")))
    assert (run.status, run.output, agent.current) == ("error", None, None)
    state.apply(Envelope(6, 0, "a", results(ToolResult("c", "no", "error"))))
    assert (run.status, run.text, run.output, run.duration_s, agent.current) == ("error", "no", None, 2.0, None)
    assert agent.receipt.failed == 1


def test_questions_of_many_agents_stand_open_together() -> None:
    state = SessionView.of(numbered(("a", AgentStarted(1, "general", "all", "m")),
                              ("a.1", AgentStarted(1, "coder", "build it", "m", "a")),
                              ("a", ev.QuestionAsked("q1", "c9", "Which?", ("x", "y"))),
                              ("a.1", said("", ToolCall("c1", "bash", {}))),
                              ("a.1", ev.PermissionAsked("q2", "c1", "bash", "rm -r build", "writes", "bash(rm *)")),
                              ("a.1", StatusChanged("waiting_user"))))  # fmt: skip
    assert {ask: (found.agent, found.profile, found.task) for ask, found in state.asks.items()} == {
        "q1": ("a", "general", "all"),
        "q2": ("a.1", "coder", "build it"),
    }
    child = state.agents["a.1"]
    assert (
        list(child.asks),
        child.status,
        child.calls["c1"].status,
    ) == (["q2"], "waiting_user", "waiting")
    for envelope in numbered(
        ("a.1", ev.PermissionAnswered("q2", "deny", reason="no")), ("a", ev.Denied("c7", "web", "x", "rule"))
    ):
        state.apply(envelope)
    assert list(state.asks) == ["q1"]
    assert child.calls["c1"].status == "denied"
    assert [(d.agent, d.tool, d.subject, d.reason, d.by) for d in state.denials] == [
        ("a.1", "bash", "rm -r build", "no", "person"),
        ("a", "web", "x", "rule", "harness"),
    ]


def test_what_is_open_of_an_agent_ends_with_it() -> None:
    log = numbered(("a", AgentStarted(1, "general", "all", "m")), ("a", ev.InboxMessage("look here")),
                   ("a", ev.InboxMessage("2")), ("a", ev.MessageAdded(user("look here"))),
                   ("a", said("", ToolCall("c", "bash", {}))), ("a", ev.PermissionAsked("q", "c", "bash", "rm")),
                   ("a", AgentFinished(1, "interrupted", "process", error="The process ended.")))  # fmt: skip
    queued = [[m.text for m in SessionView.of(log[:count]).agents["a"].queued] for count in (3, 4)]
    assert queued == [["look here", "2"], ["2"]], "what joins the history leaves the queue"
    state = SessionView.of(log)
    agent = state.agents["a"]
    assert (state.asks, agent.asks, agent.calls["c"].status) == ({}, {}, "cancelled")
    assert agent.transcript[-1] == NoteItem("interrupted: The process ended.", "warning", 1006.0)
    lost = SessionView.of(
        numbered(("a", ev.Notice("hello")), ("a.7", said("x")), ("a.7", ev.ToolFinished("c", "bash", "ok")))
    )
    assert (lost.working, [note.text for _, note in lost.notices]) == ([], ["hello"]), (
        "without its start there is nothing"
    )


def test_active_time_stops_while_an_agent_or_all_that_it_waits_for_waits() -> None:
    asking = [("a", StatusChanged("waiting_user")), ("a", StatusChanged("running"))]
    times = zip([100.0, 110.0, 500.0], [("a", AgentStarted(1, "p", "t", "m")), *asking], strict=True)
    log = [Envelope(n, at, *what) for n, (at, what) in enumerate(times, 1)]
    assert SessionView.of(log).agents["a"].active_s(505.0) == 15.0
    child = AgentStarted(1, "p", "t", "m", parent="a")
    log = [
        Envelope(1, 100.0, "a", AgentStarted(1, "p", "t", "m")),
        Envelope(2, 100.0, "a.1", child),
        Envelope(3, 100.0, "a.2", child),
        Envelope(4, 100.0, "a.1", StatusChanged("running")),
        Envelope(5, 100.0, "a.2", StatusChanged("running")),
        Envelope(6, 110.0, "a", StatusChanged("waiting_child", agents=("a.1", "a.2"))),
        Envelope(7, 120.0, "a.1", StatusChanged("waiting_user")),
        Envelope(8, 130.0, "a.2", StatusChanged("waiting_rate")),
        Envelope(9, 200.0, "a.2", StatusChanged("running")),
        Envelope(10, 205.0, "a.2", AgentFinished(1, "completed", "done", duration_s=35.0)),
        Envelope(11, 300.0, "a.1", StatusChanged("running")),
    ]
    read = [SessionView.of(log[: n + 1]).agents["a"].active_s(log[n].at) for n in range(5, len(log))]
    assert read == [10.0, 20.0, 30.0, 30.0, 35.0, 35.0]
    assert SessionView.of(log).agents["a"].active_s(310.0) == 45.0
    asks, gone = Envelope(9, 140.0, "a.2", StatusChanged("waiting_user")), Envelope(10, 150.0, "a.1", ev.Detached())
    state = SessionView.of([*log[:6], asks, gone])
    assert state.agents["a"].active_s(900.0) == 50.0, "who went to the background is not waited for"
    assert [child.path for child in awaited_children(state.agents, state.agents["a"])] == ["a.2"]
