"""A session as a web page that runs nothing and loads nothing, as a timeline, and as a trace for Perfetto."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings

from friday_cli.core.protocol import events as ev
from friday_cli.core.protocol.displays import DiffDisplay
from friday_cli.core.protocol.events import AgentStarted, Envelope, MessageAdded, StatusChanged
from friday_cli.core.protocol.messages import ToolCall, ToolResult, user
from friday_cli.view import SessionView
from friday_cli.view.reports import FORMATS, RecordedSession
from friday_cli.view.reports.html import LARGE
from friday_cli.view.timeline import GAP_S, Timeline, TimeScale, render_timeline
from tests.scenarios import logs, numbered, results, said, tree
from tests.view.hostile import HOSTILE

_TAGS = (
    "html head meta title style body a header h1 h2 h3 h4 p nav main section ul li br span details summary div table thead tbody tr th td"
    " svg rect text line article pre"
)
_ATTRIBUTES = (
    "lang charset http-equiv content name class href id aria-label aria-labelledby aria-hidden scope tabindex open viewbox role xmlns x y"
    " x1 x2 y1 y2 width height"
)
TAGS, ATTRIBUTES = set(_TAGS.split()), set(_ATTRIBUTES.split())


class Page(HTMLParser):
    """What a browser would read of a page: tags with their attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def page(log: list[Envelope], title: str = "") -> Page:
    found = Page(FORMATS["html"].write(RecordedSession("s", log, "1.0", title)))
    assert {tag for tag, _ in found.tags} <= TAGS
    assert {name for _, given in found.tags for name in given} <= ATTRIBUTES
    assert all((given["href"] or "").startswith("#") for _, given in found.tags if "href" in given)
    policies = [given["content"] for tag, given in found.tags if tag == "meta" and "http-equiv" in given]
    assert policies == [
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    ]
    ids = [given["id"] for _, given in found.tags if "id" in given]
    assert len(ids) == len(set(ids))
    assert {str(given["href"])[1:] for _, given in found.tags if "href" in given} <= set(ids)
    return found


def everywhere(text: str) -> list[Envelope]:
    """A log with a text in every place that a model, a tool, a project or a person fills."""
    return numbered(
        ("a", ev.SessionStarted(1, text, text, text)),
        ("a", AgentStarted(1, text, text, text)),
        ("a", MessageAdded(user(text))),
        ("a", said(text, ToolCall("c", text, {text: [text]}))),
        ("a", ev.ToolStarted("c", text, text)),
        ("a", ev.ToolFinished("c", text, "ok", 1.0, DiffDisplay(text, f"@@ {text}\n+{text}\n-{text}"))),
        ("a", results(ToolResult("c", text))),
        ("a.1", AgentStarted(1, text, text, text, "a", "c")),
        ("a.1", said(text)),
        ("a.1", ev.AgentFinished(1, "failed", "provider", text, text)),
        ("a", ev.Notice(text, "error")),
    )


def test_no_text_of_a_session_becomes_markup() -> None:
    assert len(HOSTILE) >= 200
    for text in HOSTILE:
        found = page(everywhere(text), text)
        plain = "".join(c for c in text if c.isalnum() and c.isascii())[:12]
        assert plain in "".join(c for c in found.text if c.isalnum() and c.isascii())


@settings(max_examples=40, deadline=None)
@given(logs())
def test_every_session_is_a_page_a_timeline_and_a_trace(log: list[Envelope]) -> None:
    kept = [each for each in log if each.seq is not None]
    page(kept)
    trace(kept)
    rows = render_timeline(SessionView.of(kept), Timeline.of(kept), 80)
    assert all(len("".join(text for text, _ in row)) <= 80 for row in rows)


def test_control_and_bidi_characters_are_shown_and_keys_are_masked() -> None:
    text = FORMATS["html"].write(RecordedSession("s", everywhere("a\x1b[31mb\u202ec sk-ant-api03-" + "x" * 40), "1.0"))
    assert "\\x1b[31mb\\u202ec" in text
    assert not [c for c in text if (ord(c) < 32 and c != "\n") or c == "\u202e"]
    assert "x" * 40 not in text


def test_the_page_of_a_delegation_has_the_tree_the_receipts_the_cost_and_the_conversations() -> None:
    found = page(tree("7f3a"))
    for words in (
        "a general",
        "a.1 researcher",
        "Receipt",
        "read main.py",
        "It has 2 lines.",
        "$1.25",
        "waits for agents",
        "Thinking",
    ):
        assert (words in found.text) == (words != "Thinking"), words
    assert [given["id"] for tag, given in found.tags if tag == "details" and "id" in given] == ["agent-a", "agent-a-1"]


def test_long_texts_are_cut_where_the_page_would_be_too_large() -> None:
    events = [("a", AgentStarted(1, "p", "t", "m"))]
    events += [("a", MessageAdded(user(f"begin {number} " + "y" * 40_000))) for number in range(200)]
    text = FORMATS["html"].write(RecordedSession("s", numbered(*events), "1.0"))
    assert len(text) <= LARGE
    assert "more characters are left out here" in text
    assert "begin 199" in text


def test_a_timeline_tells_what_an_agent_waited_for_and_shortens_pauses() -> None:
    log = numbered(
        ("a", AgentStarted(1, "p", "t", "m")),
        ("a", ev.TurnStarted(1)),
        ("a", said("", ToolCall("c", "bash", {}))),
        ("a", StatusChanged("waiting_user")),
        ("a", StatusChanged("running")),
        ("a", ev.ToolStarted("c", "bash")),
        ("a", ev.ToolFinished("c", "bash", "ok")),
        ("a", ev.AgentFinished(1, "completed", "done")),
    )
    log += numbered(
        ("a", AgentStarted(2, "p", "t", "m")), ("a", ev.AgentFinished(2, "completed", "done")), at=9000.0, first=9
    )
    timeline = Timeline.of(log)
    (agent,) = timeline.agents
    assert [(s.activity, s.end - s.start) for s in agent.segments] == [("model", 1.0), ("person", 1.0), ("tool", 1.0)]
    assert TimeScale(timeline).length == 7 + GAP_S + 1
    rows = ["".join(text for text, _ in row) for row in render_timeline(SessionView.of(log), timeline, 100)]
    for sign in "█?━¦":
        assert sign in "".join(rows)
    assert "waits for you" in rows[-1]


def test_an_agent_with_several_sub_agents_waits_for_them() -> None:
    calls = [("a", ev.ToolStarted(f"c{number}", "delegate_task")) for number in range(3)]
    end = [("a", ev.AgentFinished(1, "completed", "done"))]
    log = numbered(("a", AgentStarted(1, "p", "t", "m")), *calls, ("a", StatusChanged("waiting_child")))
    log += numbered(*end, at=log[-1].at + 90, first=len(log) + 1)
    row = "".join(text for text, _ in render_timeline(SessionView.of(log), Timeline.of(log), 100)[0])
    assert (row.count("·") > 60, row.count("━") < 9) == (True, True), row


def test_the_signs_of_a_timeline_take_as_many_lines_as_they_need() -> None:
    waits: tuple[Any, ...] = ("waiting_child", "waiting_user", "waiting_rate", "waiting_budget", "queued")
    log = numbered(
        ("a", AgentStarted(1, "p", "t", "m")),
        ("a", ev.TurnStarted(1)),
        ("a", ev.ToolStarted("c", "bash")),
        *(("a", ev.StatusChanged(status)) for status in waits),
        ("a", ev.StatusChanged("running")),
        ("a", ev.AgentFinished(1, "completed", "done")),
    )
    rows = ["".join(text for text, _ in row) for row in render_timeline(SessionView.of(log), Timeline.of(log), 80)]
    assert max(map(len, rows)) <= 80
    assert len(rows) > 3
    assert all(
        words in " ".join(rows[2:]) for words in ("waits for the service", "waits for budget", "waits for a slot")
    )


@pytest.mark.parametrize("window", [(0.0, 2.0), (10.0, 20.0)])
def test_a_part_of_a_timeline_has_only_the_agents_at_work_in_it(window: tuple[float, float]) -> None:
    log = tree()
    rows = render_timeline(SessionView.of(log), Timeline.of(log), 80, window=window)
    shown = {"".join(text for text, _ in row).split()[0] for row in rows[:-2]}
    assert shown == ({"a"} if window[0] == 0 else {"a", "a.1"})


def trace(log: list[Envelope]) -> list[dict[str, Any]]:
    """The trace of a log, whose events have what the format asks of their kind."""
    found: list[dict[str, Any]] = json.loads(FORMATS["perfetto"].write(RecordedSession("s", log, "1.0")))["traceEvents"]
    needed = {"M": {"args"}, "X": {"ts", "dur"}, "C": {"ts", "args"}, "s": {"ts", "id"}, "f": {"ts", "id", "bp"}}
    for each in found:
        assert each.keys() >= {"name", "pid", "tid", *needed[each["ph"]]}
        assert all(isinstance(each[name], int) and each[name] >= 0 for name in ("ts", "dur") if name in each)
    return found


def test_a_trace_has_a_thread_for_each_agent_arrows_and_counters() -> None:
    found = trace(tree())
    names = [each["args"]["name"] for each in found if each["name"] == "thread_name"]
    assert names == ["a general", "a.1 researcher"]
    assert [each["ph"] for each in found if each.get("cat") == "delegation"] == ["s", "f"]
    assert [each["args"]["US dollars"] for each in found if each["name"] == "US dollars"][-1] == 2.0
    assert {each["name"] for each in found if each["ph"] == "X"} >= {
        "run of general",
        "model",
        "read_file",
        "waits for agents",
    }
