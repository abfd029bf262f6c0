"""The meter: what a program sends to its model is counted, reserved and refused by Friday."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from friday_cli.extensions.profiles.profile import Wire
from friday_cli.external_agents.usage import UsageReader
from tests.e2e.friday import KEY
from tests.external_agents.conftest import Robot
from tests.servers.fake_model_server import FakeModelServer, Say, thinking
from tests.servers.script_player import document

TOOLS = [{"name": "x", "input_schema": {"type": "object"}}]
MODEL = "claude-sonnet-4-5"


def asks(model: str = MODEL, **more: Any) -> dict[str, Any]:
    """A step: a request of the program's own work."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "go"}]}]
    return {"model": {"model": model, "messages": messages, "tools": TOOLS, "stream": True, **more}}


@pytest.fixture
def service(robot: Robot) -> Iterator[FakeModelServer]:
    """The service of the settings, whose key Friday has."""
    with thinking(lambda turn: Say("Hello.", usage=(50, 5, 0)), "messages") as server:
        robot.reach(server)
        robot.model = ""
        yield server


def test_requests_are_counted_and_the_key_stays_with_friday(robot: Robot, service: FakeModelServer) -> None:
    robot.plays([asks(), asks(), {"environ": ["ANTHROPIC_API_KEY"]}, {"say": "!"}], wire="anthropic")
    ran = robot.ask()
    assert ran.document["result"].startswith("[200][200]")
    token = json.loads(ran.document["result"][10:-1])["ANTHROPIC_API_KEY"]
    assert {turn.headers["x-api-key"] for turn in service.turns} == {KEY}
    assert token != KEY
    assert token not in str(service.turns)
    agent = robot.logged()
    usage = agent["usage"]
    assert (usage["input"], usage["output"], usage["estimated"], agent["turns"]) == (100, 10, False, 2)
    assert usage["cost_usd"] == pytest.approx(100 * 3e-6 + 10 * 15e-6)


def test_a_request_without_tools_is_charged_and_is_no_turn(robot: Robot, service: FakeModelServer) -> None:
    robot.plays([asks(tools=[]), asks(), {"say": "!"}], wire="anthropic")
    agent = robot.logged()
    assert (agent["turns"], agent["usage"]["output"]) == (1, 10)


@pytest.mark.parametrize(
    ("argv", "model", "sent", "reason", "words"),
    [
        (("--max-turns", "2"), MODEL, 2, "iterations", "the turns limit of a.1"),
        (("--max-tokens", "600"), MODEL, 6, "tokens", "the tokens limit of"),
        (("--max-cost", "0.0001"), MODEL, 0, "cost", "the cost limit of"),
        (("--max-cost", "5"), "some-model", 0, "provider", "the price of some-model is unknown"),
    ],
)
def test_what_a_limit_does_not_pay_for_is_refused_once_and_never_sent(
    robot: Robot, service: FakeModelServer, argv: tuple[str, ...], model: str, sent: int, reason: str, words: str
) -> None:
    robot.plays([*[asks(model)] * 8, {"say": "!"}], [{"say": "What I have."}], wire="anthropic")
    ran = robot.ask("go", *argv)
    assert len(service.turns) == sent
    assert ran.document["stop_reason"] == reason
    items = json.loads(robot.show(":a.1", "--json").out)["conversation"]
    said = "".join(item.get("text") or "" for item in items)
    assert said.count("[200]") == sent
    assert f'[400 {{"type": "error", "error": {{"type": "invalid_request_error", "message": "Friday: {words}' in said
    assert reason == "provider" or ran.document["result"] == "What I have."


def test_requests_at_the_same_time_go_over_a_limit_by_one_reply_at_most(robot: Robot, service: FakeModelServer) -> None:
    robot.plays([{"models": [asks()["model"]] * 20}, {"say": "!"}], [{"say": "What I have."}], wire="anthropic")
    robot.ask("go", "--max-tokens", "600")
    assert 0 < len(service.turns) * 55 <= 600 + 55


def test_only_the_program_of_the_agent_may_use_the_meter(robot: Robot, service: FakeModelServer) -> None:
    steal = (
        'curl -s -o /dev/null -w "%{http_code}" -X POST -H "x-api-key: guess" -d "{}" "$ANTHROPIC_BASE_URL/v1/messages"'
    )
    robot.plays([{"run": steal}, {"say": "!"}], wire="anthropic")
    robot.ask()
    assert service.turns == []


def test_without_a_key_of_friday_the_program_uses_its_own_login(robot: Robot) -> None:
    usage = {"stopReason": "end_turn", "usage": {"inputTokens": 70, "outputTokens": 7}}
    cost = {"what": "usage_update", "used": 77, "size": 200000, "cost": {"amount": 0.25, "currency": "USD"}}
    robot.plays([{"environ": ["ANTHROPIC_BASE_URL"]}, {"update": cost}, {"answer": usage}], wire="anthropic")
    agent = robot.logged()
    assert agent["result"] == '{"ANTHROPIC_BASE_URL": null}'
    found = agent["usage"]
    assert (found["input"], found["output"], found["cost_usd"], found["estimated"]) == (70, 7, 0.25, True)


def test_reported_tokens_end_an_agent(robot: Robot) -> None:
    usage = {"stopReason": "end_turn", "usage": {"inputTokens": 9000, "outputTokens": 7}}
    robot.plays([{"say": "one"}, {"answer": usage}], front=("maxTokenBudget: 8000",))
    robot.ask()
    again = robot.json("more", "--resume-agent", f"{robot.ask().document['session_id']}:a.1")
    assert again.code != 0


@pytest.mark.parametrize(
    ("wire", "answer", "counts"),
    [
        ("anthropic",
         'data: {"type":"message_start","message":{"usage":{"input_tokens":9,"cache_read_input_tokens":4,"cache_creation_input_tokens":2}}}\n\n'
         'data: {"type":"message_delta","usage":{"output_tokens":7}}\n\n', (9, 4, 2, 7)),
        ("openai", 'data: {"choices":[]}\n\ndata: {"usage":{"prompt_tokens":9,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}}\n\n'
         "data: [DONE]\n\n", (5, 4, 0, 7)),
        ("openai",
         'event: response.completed\ndata: {"response":{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},'
         '"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3}}}}\n\n', (5, 4, 0, 7)),
        ("gemini",
         'data: {"usageMetadata":{"promptTokenCount":9,"cachedContentTokenCount":4,"candidatesTokenCount":5,"thoughtsTokenCount":2}}\n\n',
         (5, 4, 0, 7)),
        ("anthropic", '{"usage": {"input_tokens": 9, "output_tokens": 7}}', (9, 0, 0, 7)),
    ],
    ids=["anthropic", "chat", "responses", "gemini", "one document"],
)  # fmt: skip
@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_the_usage_of_each_wire_is_read_in_pieces_of_any_size(
    wire: Wire, answer: str, counts: tuple[int, int, int, int], piece: int
) -> None:
    reader, data = UsageReader(wire), answer.encode()
    for at in range(0, len(data), piece):
        reader.feed(data[at : at + piece])
    reader.finish()
    found = reader.found
    assert found is not None
    assert (found.input, found.cache_read, found.cache_write, found.output) == counts
    assert reader.size == len(data)


def test_tools_in_the_input_make_a_request_a_turn_as_well(robot: Robot, service: FakeModelServer) -> None:
    robot.plays([asks(tools=[], input=[{"type": "additional_tools", "tools": TOOLS}]), {"say": "!"}], wire="anthropic")
    assert robot.logged()["turns"] == 1


def test_an_answer_after_a_failed_request_is_no_success(robot: Robot, service: FakeModelServer) -> None:
    service.rule = lambda turn: document({"error": {"type": "overloaded_error", "message": "no"}}, 529)
    robot.plays([asks(), {"say": "fine"}], wire="anthropic")
    agent = robot.logged()
    assert (agent["status"], agent["stop_reason"]) == ("failed", "provider")
    assert "answered 529" in agent["error"]
