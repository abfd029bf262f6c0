"""What services send that is neither an ordinary reply nor a failure, seen in `friday ask` and after `-c`."""

from __future__ import annotations

from typing import Any

import pytest

from friday_cli.core.agent import cache_refresh
from friday_cli.core.protocol.messages import LEFT_OUT
from tests.e2e.friday import Friday
from tests.e2e.test_faults import refused
from tests.servers import openai_events as openai
from tests.servers.fake_model_server import WIRES, Say, Turn, Wire, events, reply, sse, thinking
from tests.servers.script_player import Reply, document

on_every_wire = pytest.mark.parametrize("wire", WIRES)
ENDS = {"messages": "compaction", "responses": "steered", "chat": "repetition"}


def odd_end(wire: Wire, text: str) -> Reply:
    """A reply that ends for a reason of which Friday does not know."""
    if wire == "responses":
        found: Any = openai.whole(*openai.texts(0, text), end="incomplete", incomplete_details={"reason": ENDS[wire]})
        return Reply(sse(wire, found))
    return reply(wire, Say(text, stop=ENDS[wire]))


@on_every_wire
def test_a_reply_with_an_unknown_end_is_continued_once_and_never_taken_for_complete(friday: Friday, wire: Wire) -> None:
    with friday.meets(lambda t: Say("the end") if t.turn else odd_end(wire, "half of "), wire):
        ran = friday("go")
    assert (ran.code, ran.out) == (0, "half of the end\n"), ran.err
    assert ENDS[wire] in ran.err, "a person is told"
    with friday.meets(lambda t: odd_end(wire, "half of "), wire) as server:
        ran = friday.json("go")
    assert (ran.code != 0, ran.document["status"], len(server.turns)) == (True, "failed", 2)
    assert ENDS[wire] in ran.document["error"]


def phased(*parts: tuple[str, str], **more: Any) -> Reply:
    """A reply of the Responses API with (text, phase) messages."""
    found: list[dict[str, Any]] = []
    for place, (text, phase) in enumerate(parts):
        found += [
            {**e, "item": {**e["item"], "phase": phase}} if e["type"] == "response.output_item.done" else e
            for e in openai.texts(place, text)
        ]
    whole: Any = openai.whole(*found, **more)
    return Reply(sse("responses", whole))


def test_comments_on_the_work_are_no_answer(friday: Friday) -> None:
    working = phased(("Working on it...", "commentary"))
    final = phased(("So.", "commentary"), ("FINAL", "final_answer"))
    replies = iter((working, working, final))
    with friday.meets(lambda t: next(replies), "responses"):
        assert friday.json("go").document["result"] == "FINAL"
    with friday.meets(lambda t: working, "responses") as server:
        ran = friday.json("go")
    assert (ran.document["result"], len(server.turns)) == ("Working on it...", 3), (
        "asked again twice, then taken as it is"
    )
    open_end = phased(("Wait", "final_answer"), end_turn=False)
    with friday.meets(lambda t: Say("FINAL") if t.turn else open_end, "responses"):
        assert friday.json("go").document["result"] == "FINAL"


@on_every_wire
def test_a_refused_turn_leaves_the_requests_and_stays_in_the_log(friday: Friday, wire: Wire) -> None:
    def rule(turn: Turn) -> Say:
        bad = any("forbidden words" in message["text"] for message in turn.messages)
        return Say("I cannot", stop="refusal") if bad else Say("hello")

    with friday.meets(rule, wire) as server:
        assert friday("forbidden words").code == 1
        ran = friday("-c", "good day")
        assert (ran.code, ran.out) == (0, "hello\n")
        assert server.turns[-1].messages[0]["text"].startswith(LEFT_OUT)
        assert "forbidden words" in friday.show().out


@on_every_wire
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Say("no", stop="refusal"), "refused to answer"),
        (refused(402, "billing_error"), "has no credit or quota left"),
        (refused(404, "not_found_error"), "was not found"),
    ],
)
def test_the_fallback_model_answers_what_the_first_one_will_not(
    friday: Friday, wire: Wire, answer: Any, said: str
) -> None:
    with friday.meets(lambda t: answer if t.body["model"] != "second" else Say("from the second"), wire):
        second = friday.model.partition("/")[0] + "/second"
        ran = friday("hi", "--fallback-model", second)
    assert (ran.code, ran.out) == (0, "from the second\n"), ran.err
    assert any(f"{said}; continuing with the fallback model {second}" in line for line in ran.lines)


def test_the_cost_that_a_gateway_reports_is_the_price(friday: Friday) -> None:
    def rule(turn: Turn) -> Reply:
        *first, last, done = events("chat", Say("hello"))
        assert isinstance(last, dict)
        last["usage"]["cost"] = 0.0125
        return Reply(sse("chat", [*first, last, done]))

    with friday.meets(rule, "chat"):
        assert friday.json("hi").document["cost_usd"] == 0.0125


def test_a_service_that_reports_its_costs_needs_no_price_for_a_cap(friday: Friday) -> None:
    """A request holds what the most expensive model costs; what the service charges counts."""

    def rule(turn: Turn) -> Reply:
        say = Say("enough") if turn.forbidden or turn.turn == 4 else Say(calls=[("list_dir", {})])
        *first, last, done = events("chat", say)
        assert isinstance(last, dict)
        if "without a bill" not in turn.asked_for:
            last["usage"]["cost"] = 0.2
        return Reply(sse("chat", [*first, last, done]))

    with friday.meets(rule, "chat") as server:
        assert "is unknown" in friday.json("go", "--max-cost", "0.5").err
        friday.config.write_text(friday.config.read_text() + "reports_cost = true\n")
        capped = friday.json("go", "--max-cost", "0.5")
        assert (capped.code, capped.document["stop_reason"]) == (5, "cost")
        assert (capped.document["cost_usd"], len(server.turns)) == (pytest.approx(0.2 * len(server.turns)), 3)
        unbilled = friday.json("without a bill", "--max-cost", "5").document
        assert (unbilled["usage"]["estimated"], 0 < unbilled["cost_usd"] < 0.1) == (True, True)


def test_a_cache_that_is_kept_in_a_long_call_is_shown_and_paid(friday: Friday, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_refresh, "EARLY", 0.001)

    def rule(turn: Turn) -> Say:
        calls = [] if turn.turn else [("bash", {"command": "sleep 1"})]
        return Say("" if calls else "done", calls, usage=(100, 5, 150_000))

    with friday.meets(rule, "messages") as server:
        server.cached = 150_000
        friday.model = "anthropic/claude-opus-5-5"

        found = friday.json("go", "--yolo").document
    times = len(server.refreshes)
    assert times
    assert found["usage"]["cache_read_tokens"] == 150_000 * (2 + times)
    shown = friday.show().out
    assert shown.count("Kept the cache of 150,000 tokens while waiting: $0.0300.") == times


@on_every_wire
def test_one_bad_picture_does_not_end_a_session(friday: Friday, wire: Wire) -> None:
    (friday.project / "p.png").write_bytes(bytes.fromhex("89504e470d0a1a0a0000000d49484452") + b"\0" * 40)

    def rule(turn: Turn) -> Say | Reply:
        if any(message["images"] for message in turn.messages):
            return refused(400, "invalid_request_error", "messages.0.content.1: Could not process image")
        if turn.turn == 0 and "see p.png" in turn.asked_for and "image refused" not in turn.asked_for:
            return Say(calls=[("read_file", {"path": "p.png"})])
        return Say("I go on")

    with friday.meets(rule, wire):
        assert friday("see p.png", "--yolo").out == "I go on\n"
        ran = friday("-c", "and now?")
        assert (ran.code, ran.out) == (0, "I go on\n")


@on_every_wire
def test_a_request_id_is_in_the_error(friday: Friday, wire: Wire) -> None:
    with friday.meets(lambda t: refused(400, "invalid_request_error", "bad", request_id="req_011"), wire):
        assert "(400, request req_011)" in friday.json("hi").document["error"]


FULL = (
    "prompt is too long: 210000 tokens > 200000 maximum",
    "This endpoint's maximum context length is 131072 tokens.",
    "Prompt exceeds max length",
    "Invalid request: Your request exceeded model token limit: 262144",
    "prompt token count of 140000 exceeds the limit of 128000",
    "Range of input length should be [1, 129024]",
    "`inputs` tokens + `max_new_tokens` must be <= 32768",
)


@on_every_wire
@pytest.mark.parametrize("words", FULL)
def test_a_full_context_is_compacted_whatever_the_service_calls_it(friday: Friday, wire: Wire, words: str) -> None:
    def rule(turn: Turn) -> Say | Reply:
        if "Write a summary" in turn.last:
            return Say("I looked around.")
        if turn.turn == 0 and "I looked around." not in turn.asked_for:
            return Say(calls=[("list_dir", {})])
        return Say("done") if "I looked around." in turn.asked_for else refused(400, "invalid_request_error", words)

    with friday.meets(rule, wire):
        ran = friday("go")
    assert (ran.code, ran.out) == (0, "done\n"), ran.err


THOUGHT = ("<think>I should", " look.</think>\n\nHel", "lo")


def test_thoughts_in_tags_are_no_part_of_the_answer(friday: Friday) -> None:
    with friday.meets(lambda t: Say(THOUGHT), "chat"):
        assert friday("hi").out == "Hello\n"
        assert friday("-c", "and now?").out == "Hello\n"


def test_a_wait_that_a_stream_asks_for_is_kept(friday: Friday) -> None:
    document_ = document({"error": {"code": "rate_limit_exceeded", "message": "Please try again in 80ms."}}, 200)
    with friday.meets(lambda t: Say("late") if t.tries else document_, "responses"):
        assert friday("hi").out == "late\n"
    assert '"retry_s":0.' in friday.attempts()


def test_any_provider_can_have_any_api_and_extra_fields(friday: Friday) -> None:
    with thinking(lambda t: Say("hello"), "messages") as server:
        friday.setenv("KIMI_API_KEY", "sk-canary-0123456789")
        friday.model = "kimi/k3"
        settings = f'[providers.kimi]\nbase_url = "{server.url}/v1"\napi = "messages"\n'
        friday.config.write_text(settings + 'extra = { provider = { order = ["x"] } }\n', encoding="utf-8")
        ran = friday("hi")
        assert (ran.code, ran.out) == (0, "hello\n"), ran.err
        assert server.turns[0].body["provider"] == {"order": ["x"]}
        friday.config.write_text(settings + "extra = { messages = 1 }\n", encoding="utf-8")
        ran = friday("hi")
        assert (ran.code, "cannot replace messages" in ran.err) == (2, True)
