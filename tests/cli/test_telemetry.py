"""OpenTelemetry: one trace of a tree, the same ids in an export, and what is sent where."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from friday_cli.core.protocol.events import Envelope, ToolFinished
from friday_cli.telemetry import settings
from friday_cli.telemetry.attributes import OPERATION
from friday_cli.telemetry.sdk import Sender
from friday_cli.telemetry.session import SessionTelemetry
from friday_cli.telemetry.span import Span, SpanContext
from tests.agents.hooks.hook_files import hook, own_hooks
from tests.cli.console import Console
from tests.servers import mcp_stdio
from tests.servers.fake_model_server import Say, Turn, thinking
from tests.servers.otlp_receiver import Receiver, attributes, receiver

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
ABOVE = f"00-{'a' * 32}-{'b' * 16}-01"
USAGE = {"input": 1000, "cache_read": 500, "output": 100}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiver() as here:
        monkeypatch.setenv(ENDPOINT, here.url)
        yield here


def lead(*profiles: str) -> dict[str, Any]:
    """A turn that delegates to these profiles at the same time."""
    tasks = [{"profile": name, "task": "look"} for name in profiles]
    return {"calls": [{"name": "delegate_tasks", "arguments": {"tasks": tasks}}], "usage": USAGE}


def play(console: Console, agents: dict[str, Any]) -> str:
    """A scenario with a price; returns its model."""
    document = {"agents": agents, "price": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}}
    file = console.project.parent / "play.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")
    return f"scripted:{file}"


def ask(console: Console, model: str, *more: str) -> dict[str, Any]:
    ran = console("ask", "--model", model, "--output-format", "json", *more, "go")
    assert ran.code == 0, ran
    document: dict[str, Any] = json.loads(ran.out)
    return document


def exported(console: Console, session: str) -> list[dict[str, Any]]:
    document = console.ok("sessions", "export", session, "-f", "otlp").document
    return [s for group in document["resourceSpans"] for scope in group["scopeSpans"] for s in scope["spans"]]


def context(span: Any) -> str:
    """The `traceparent` of a span."""
    return f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"


def ids_of(spans: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(span["traceId"], span["spanId"], span.get("parentSpanId", "")) for span in spans}


def test_a_tree_of_20_children_is_one_trace(
    console: Console, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", ABOVE)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=tools")
    for name, below in (("lead", "middle"), ("middle", "worker"), ("worker", "")):
        front = (f"description: The {name}.", 'allowedTools: "*"', f"subAgents: [{below}]")
        console.profile(console.friday_home / "profiles", name, *front)
    end, look = {"text": "done", "usage": USAGE}, {"calls": [{"name": "list_dir", "arguments": {"path": "."}}]}
    model = play(
        console,
        {
            "a": [lead("lead", "lead"), end],
            **{f"a.{i}": [lead("middle", "middle", "middle"), end] for i in (1, 2)},
            **{f"a.{i}.{j}": [lead("worker", "worker"), end] for i in (1, 2) for j in (1, 2, 3)},
            "a.*.*.*": [look | {"usage": USAGE}, end],
        },
    )
    session = ask(console, model, "--yolo")["session_id"]

    spans = {span.span_id.hex(): span for span in collector.spans}
    about = {key: attributes(span) for key, span in spans.items()}
    runs = {key for key, span in spans.items() if span.name.startswith("invoke_agent ")}
    assert len(runs) == 21
    assert {trace for trace, _, _ in collector.ids} == {"a" * 32}
    for key, span in spans.items():
        path, parent = about[key]["friday.agent.path"], span.parent_span_id.hex()
        if key not in runs:
            assert parent in runs
            assert about[parent]["friday.agent.path"] == path
        elif path == "a":
            assert parent == "b" * 16
        else:
            assert spans[parent].name == "execute_tool delegate_tasks"
            assert about[parent]["friday.agent.path"] == path.rpartition(".")[0]
        assert span.start_time_unix_nano <= span.end_time_unix_nano

    (root,) = [one for one in about.values() if one.get("friday.agent.depth") == 0]
    shown = console.ok("sessions", "show", session, "--tree", "--json").document["agents"]
    total = next(agent for agent in shown if agent["path"] == "a")["tree_usage"]
    assert total["cost_usd"] > 0
    for name in ("friday.agent.cost_usd", "friday.cost_usd"):  # of runs, and of their requests
        assert sum(one.get(name, 0.0) for one in about.values()) == pytest.approx(total["cost_usd"])
    assert root["friday.agent.cost_subtree_usd"] == pytest.approx(total["cost_usd"])
    assert {(about[k]["gen_ai.usage.input_tokens"], about[k]["gen_ai.usage.output_tokens"]) for k in runs} == {
        (3000, 200)
    }
    assert collector.resource["service.name"] == "friday"
    assert {(h["x-team"], h["content-encoding"]) for h in collector.headers} == {("tools", "gzip")}
    assert collector.metrics == {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"}
    assert ids_of(exported(console, session)) == collector.ids
    assert not any("messages" in name or "arguments" in name for one in about.values() for name in one)


def test_a_crashed_run_that_is_exported_later_has_the_same_ids(console: Console, collector: Receiver) -> None:
    look = {"calls": [{"name": "list_dir", "arguments": {"path": "."}}], "usage": USAGE}
    session = ask(console, play(console, {"a": [look, {"text": "done", "usage": USAGE}]}))["session_id"]
    console.sql(  # as if the process had died during its first call
        "DELETE FROM events WHERE seq >= (SELECT seq FROM events WHERE kind = 'tool_finished')",
        "UPDATE agents SET status = 'running', finished = NULL",
    )
    spans = exported(console, session)
    names = ["chat play", "execute_tool list_dir", "invoke_agent friday"]
    assert sorted(span["name"] for span in spans) == names
    assert ids_of(spans) < collector.ids


@pytest.mark.parametrize("wanted", [False, True])
def test_content_is_sent_only_when_asked_for_and_masked(
    console: Console, collector: Receiver, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    key = "sk-ant-" + "api03-" + "x1Y2" * 8
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", str(wanted).lower())
    (console.project / "notes.txt").write_text(f"the password is {key}")
    read = {"calls": [{"name": "read_file", "arguments": {"path": "notes.txt"}}]}
    ask(console, play(console, {"a": [read, {"text": f"I read {key}"}]}))
    sent = b"".join(span.SerializeToString() for span in collector.spans)
    assert key.encode() not in sent
    assert (b"I read" in sent, b"the password is" in sent, b"notes.txt" in sent) == (wanted,) * 3


def test_commands_get_the_trace_context_of_their_call_and_no_header(
    console: Console, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=tools")
    command = "echo $TRACEPARENT ${OTEL_EXPORTER_OTLP_HEADERS:-none} > out.txt"
    run = {"calls": [{"name": "bash", "arguments": {"command": command}}]}
    ask(console, play(console, {"a": [run, {"text": "done"}]}), "--yolo")
    (tool,) = [span for span in collector.spans if span.name == "execute_tool bash"]
    assert (console.project / "out.txt").read_text() == f"{context(tool)} none\n"


def test_services_servers_and_hooks_get_the_trace_context(
    console: Console, collector: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(turn: Turn) -> Say:
        return Say("done") if turn.turn else Say(calls=[("mcp__small__echo", {"text": "hi"})])

    hooked, log = tmp_path / "hooked", tmp_path / "log"
    own_hooks({"PreToolUse": [hook(f"echo $TRACEPARENT > {hooked}")]})
    entry = {"command": sys.executable, "args": ["-S", "-E", mcp_stdio.__file__, f"log={log}"]}
    (console.friday_home / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}))
    with thinking(rule) as server:
        console.configure(f'[providers.anthropic]\nbase_url = "{server.base}"\n')
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-1234")
        ask(console, "anthropic/claude-sonnet-4-5", "--yolo")
    chats = [context(span) for span in collector.spans if span.name.startswith("chat ")]
    assert [turn.headers["traceparent"] for turn in server.turns] == chats
    (tool,) = [context(span) for span in collector.spans if span.name == "execute_tool mcp__small__echo"]
    assert hooked.read_text().strip() == tool
    (called,) = [line for line in log.read_text().splitlines() if line.startswith("tools/call ")]
    assert json.loads(called.partition(" ")[2])["_meta"]["traceparent"] == tool


def test_a_resumed_session_sends_only_its_new_run(
    console: Console, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = play(console, {"a": [{"text": "done", "usage": USAGE}]})
    session = ask(console, model)["session_id"]
    first = collector.ids
    collector.spans.clear()
    again = ask(console, model, "-r", session)
    second = {span.name.split()[0]: attributes(span) for span in collector.spans}
    assert first.isdisjoint(collector.ids)
    assert len({trace for trace, _, _ in first | collector.ids}) == 2
    assert ids_of(exported(console, session)) == first | collector.ids
    assert second["invoke_agent"]["friday.agent.run"] == 2
    assert second["invoke_agent"]["friday.agent.cost_usd"] == pytest.approx(second["chat"]["friday.cost_usd"])
    assert again["cost_usd"] > 0
    console.ok("sessions", "fork", session)
    (fork,) = [row["id"] for row in console("sessions", "list", "--json").document if row["id"] != session]
    assert ids_of(exported(console, fork)) == first | collector.ids  # a copy, which a collector has already


def test_a_trace_that_is_not_sampled_is_not_sent(
    console: Console, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", ABOVE[:-1] + "0")
    ask(console, play(console, {"a": [{"text": "done", "usage": USAGE}]}))
    assert (collector.spans, len(collector.metrics)) == ([], 2)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "not a url", "500"])
def test_a_lost_collector_changes_nothing(console: Console, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    model = play(console, {"a": [{"text": "done", "usage": USAGE}]})
    with receiver(400) as broken:
        monkeypatch.setenv(ENDPOINT, broken.url if url == "500" else url)
        ran = console("ask", "--model", model, "go")
    assert (ran.code, ran.out) == (0, "done\n")
    assert len(ran.err.splitlines()) == 2  # the model and the summary


@pytest.mark.parametrize(
    ("status", "name", "done"),
    [(200, "a", True), (400, "a", True), (413, "a", True), (429, "a", False), (200, "\ud800", True)],
)
def test_only_what_a_collector_may_take_later_is_kept(
    monkeypatch: pytest.MonkeyPatch, status: int, name: str, done: bool
) -> None:
    """Otherwise one span that is refused would hold back all later ones."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")  # seconds that the SDK retries
    span = Span(name, SpanContext(1, 2), None, "internal", 1.0, {OPERATION: "x"}, end=2.0)
    with receiver(status) as here:
        sender = Sender(settings.TelemetrySettings(traces=f"{here.url}/v1/traces"), "session")
        assert sender.send([span]) is done
        sender.shutdown()


async def test_ten_thousand_spans_are_sent_in_requests_of_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    def send(_: Sender, spans: list[Span]) -> bool:
        sent.append(len(spans))
        return True

    monkeypatch.setattr(Sender, "send", send)
    telemetry = SessionTelemetry(settings.TelemetrySettings(traces="http://127.0.0.1:9/"), "session", [])
    for number in range(10_000):
        telemetry.apply(Envelope(number, 1.0, "a", ToolFinished(f"c{number}", "bash", "ok")))
    await telemetry.close()
    assert (sum(sent), max(sent)) == (10_000, 512)


def test_a_long_answer_of_a_collector_is_not_read(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    model = play(console, {"a": [{"text": "done", "usage": USAGE}]})
    with receiver(answer=256 * 1024 * 1024) as flood:
        monkeypatch.setenv(ENDPOINT, flood.url)
        assert console("ask", "--model", model, "go").code == 0
    assert len(flood.spans) == 2
    assert flood.sent < flood.answer / 4


@pytest.mark.parametrize(
    ("env", "there", "line"),
    [
        ({ENDPOINT: "http://127.0.0.1:9"}, False, "pip install 'friday-cli[otel]'"),
        ({ENDPOINT: "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}, False, ""),
        ({ENDPOINT: "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, True, "http/protobuf only"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "a=b"}, False, ""),
    ],
)
def test_what_cannot_be_sent_is_one_line(
    console: Console, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], there: bool, line: str
) -> None:
    monkeypatch.setattr(settings, "installed", lambda: there)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    ran = console("ask", "--model", play(console, {"a": [{"text": "done"}]}), "go")
    assert ran.code == 0
    said = [row for row in ran.err.splitlines() if "OTEL" in row]
    assert len(said) == bool(line)
    assert all(line in row for row in said)


def test_an_export_without_the_extra_is_one_line(
    console: Console, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "installed", lambda: False)
    assert "friday-cli[otel]" in console.refused("sessions", "export", session, "-f", "otlp", code=1)
