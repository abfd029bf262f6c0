"""Complete runs of the real command, with every API and over both transports."""

from __future__ import annotations

from itertools import product

import pytest

from friday_cli.llm import models
from tests.e2e.friday import Friday
from tests.servers.fake_model_server import WIRES, FakeModelServer, Say, Turn, Wire
from tests.servers.script_player import Reply, document

ALL = list(product(WIRES, ("http", "sdk")))
everywhere = pytest.mark.parametrize(("wire", "transport"), ALL)


def tasks(*names: str, profile: str = "researcher") -> tuple[str, dict[str, object]]:
    """A batch of tasks for agents of these names."""
    return "delegate_tasks", {"tasks": [{"profile": profile, "task": f"#{name} look around"} for name in names]}


def fine(server: FakeModelServer) -> None:
    assert server.complaints == []
    assert server.left_early == 0


@everywhere
def test_a_loop_of_twenty_rounds(friday: Friday, wire: Wire, transport: str) -> None:
    for n in range(20):
        (friday.project / f"f{n}.txt").write_text(f"the word is w{n:02}\n", encoding="utf-8")

    def rule(turn: Turn) -> Say:
        if turn.turn:
            assert f"w{turn.turn - 1:02}" in turn.last
        if turn.turn < 20:
            return Say(f"Reading f{turn.turn}.", [("read_file", {"path": f"f{turn.turn}.txt"})], thinking="hm")
        return Say(("The last", " word is ", "w19."))

    with friday.meets(rule, wire, transport=transport) as server:
        ran = friday.json("which word is last?")
    fine(server)
    assert ran.code == 0
    assert ran.document["result"] == "The last word is w19."
    assert (ran.document["status"], ran.document["stop_reason"], ran.document["error"]) == ("completed", "done", None)
    assert ran.agent("a")["receipt"]["tools"] == {"read_file": 20}
    assert len(server.turns) == 21
    assert ran.document["usage"]["output_tokens"] == 21 * 5
    for before, after in zip(server.turns, server.turns[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages
        assert (after.system, after.tools) == (before.system, before.tools)


@pytest.mark.parametrize("wire", WIRES)
def test_a_profiles_temperature_is_sent_for_its_agents_only(friday: Friday, wire: Wire) -> None:
    friday.profile("warm", "temperature: 0.25")

    def rule(turn: Turn) -> Say:
        if turn.agent == "root":
            return Say(calls=[tasks("c", profile="warm")]) if not turn.turn else Say("done")
        return Say("looked")

    with friday.meets(rule, wire) as server:
        assert friday("go").code == 0
    sent = [(turn.agent, turn.body.get("temperature")) for turn in server.turns]
    assert sent == [("root", None), ("c", 0.25), ("root", None)]


@pytest.mark.parametrize("wire", WIRES)
def test_a_temperature_that_the_service_refuses_is_left_out_from_then_on(friday: Friday, wire: Wire) -> None:
    friday.profile("warm", "temperature: 0.25")

    def rule(turn: Turn) -> Say | Reply:
        if turn.agent == "root":
            return Say(calls=[tasks("c", profile="warm")]) if not turn.turn else Say("done")
        if "temperature" in turn.body:
            message = "`temperature` is deprecated for this model."
            return document({"type": "error", "error": {"type": "invalid_request_error", "message": message}}, 400)
        return Say("looked") if turn.turn else Say(calls=[("list_dir", {})])

    with friday.meets(rule, wire) as server:
        ran = friday.json("go")
    assert (ran.code, ran.agent("a.1")["status"]) == (0, "completed")
    assert ["temperature" in turn.body for turn in server.by("c")] == [True, False, False]


def test_a_missing_web_search_is_said_once_on_standard_error(friday: Friday) -> None:
    friday.plays("""
agents:
  a:
    - calls:
        - name: delegate_tasks
          arguments: {tasks: [{profile: researcher, task: look}, {profile: researcher, task: look too}]}
    - text: "{results}"
  a.1:
    - calls: [{name: web_search, arguments: {query: x}}]
    - calls: [{name: task_result, arguments: {result: "I could not search. {results}"}}]
  a.2:
    - calls: [{name: task_result, arguments: {result: nothing}}]
""")
    ran = friday("go")
    assert ran.code == 0
    notice, denied = [line for line in ran.lines if "web_search" in line]
    assert (
        "a.1 (researcher) cannot use web_search: no search service is configured (SEARXNG_URL, BRAVE_API_KEY," in notice
    )
    assert denied == "friday: denied: a.1 web_search: it cannot be used now"
    assert "I could not search. web_search cannot be used now." in ran.out


@everywhere
def test_ten_children_side_by_side(friday: Friday, wire: Wire, transport: str) -> None:
    names = [f"c{n}" for n in range(10)]
    for name in names:
        (friday.project / f"{name}.txt").write_text(f"{name} says {name.upper()}\n", encoding="utf-8")

    def rule(turn: Turn) -> Say:
        if turn.agent == "root":
            return Say(calls=[tasks(*names)]) if not turn.turn else Say(turn.last)
        if not turn.turn:
            return Say(calls=[("read_file", {"path": f"{turn.agent}.txt"})], meet=10)
        assert f"{turn.agent} says" in turn.last
        return Say(f"I saw {turn.agent.upper()}.")

    with friday.meets(rule, wire, transport=transport) as server:
        ran = friday.json("ask them all")
    fine(server)
    assert ran.code == 0
    assert server.most == 10  # at the same time: who waits for the model needs no run slot
    found = [ran.document["result"].index(f"I saw {n.upper()}.") for n in names]
    assert found == sorted(found)
    agents = ran.document["agents"]
    assert [a["path"] for a in agents] == ["a", *(f"a.{n}" for n in range(1, 11))]
    assert {a["parent"] for a in agents[1:]} == {"a"}
    assert all(a["receipt"]["tools"] == {"read_file": 1} for a in agents[1:])
    assert ran.document["usage"]["output_tokens"] == sum(a["usage"]["output_tokens"] for a in agents) == 22 * 5


@everywhere
def test_a_tree_of_depth_three(friday: Friday, wire: Wire, transport: str) -> None:
    friday.profile("first", "subAgents: [second]")
    friday.profile("second", "subAgents: [third]")
    friday.profile("third", "subAgents: [first]")  # not offered at this depth
    below = {"root": ("one", "first"), "one": ("two", "second"), "two": ("three", "third")}

    def rule(turn: Turn) -> Say:
        if turn.agent == "three":
            assert not [t for t in turn.tools if t.startswith("delegate")]
            return Say("The bottom is green.")
        name, profile = below[turn.agent]
        if not turn.turn:
            return Say(calls=[("delegate_task", {"profile": profile, "task": f"#{name} ask on, {turn.agent}"})])
        assert "The bottom is green." in turn.last
        return Say(f"{turn.agent} heard: The bottom is green.")

    with friday.meets(rule, wire, transport=transport) as server:
        ran = friday.json("how deep is it?")
    fine(server)
    assert ran.code == 0
    assert ran.document["result"] == "root heard: The bottom is green."
    assert [(a["path"], a["parent"]) for a in ran.document["agents"]] == [
        ("a", None), ("a.1", "a"), ("a.1.1", "a.1"), ("a.1.1.1", "a.1.1"),
    ]  # fmt: skip
    assert {a["status"] for a in ran.document["agents"]} == {"completed"}


def test_the_tasks_of_one_reply_are_ten_for_general_and_a_call_lowers_the_depth(friday: Friday) -> None:
    """With arguments as other programs name them."""
    friday.plays("""
agents:
  a:
    - calls:
        - {name: delegate_tasks, arguments: {tasks: [{prompt: t1}, {task: t2}, {task: t3}, {task: t4}, {task: t5}, {task: t6}, {task: t7}, {task: t8}]}}
        - {name: delegate_task, arguments: {subagent_type: coder, prompt: build, description: short, maxDepth: 1}}
        - {name: delegate_tasks, arguments: {tasks: [{task: u1}, {task: u2}, {task: u3}]}}
    - text: "{results}"
  a.9:
    - calls: [{name: delegate_task, arguments: {profile: researcher, task: look}}]
    - text: built
  a.*: [{text: fine}]
""")
    ran = friday.json("go")
    agents = {a["path"]: a["profile"] for a in ran.document["agents"] if a["path"] != "a"}
    assert agents == dict.fromkeys((f"a.{n}" for n in (*range(1, 9), 10)), "general") | {"a.9": "coder"}
    assert (
        ran.document["result"].count("error: one reply delegates at most 10 tasks; send this one in another reply.")
        == 2
    )
    assert "[Left out, not an argument of this tool: description]" in ran.document["result"]
    (denied,) = ran.document["denials"]
    assert (denied["agent"], denied["tool"], denied["reason"]) == (
        "a.9",
        "delegate_task",
        "the agent does not have this tool",
    )
    shown = friday.run("sessions", "show", model="", program=("-m", "friday_cli")).out
    assert "      Task 2 of 3 was not started: one reply delegates at most 10 tasks;" in shown
    assert "      Task 3 of 3 was not started: " in shown


def test_a_search_by_the_service_is_refused_where_no_person_can_be_asked(
    friday: Friday, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "can_search", lambda *args, **more: True)  # only the services' own hosts can

    def rule(turn: Turn) -> Say:
        return Say(calls=[("web_search", {"query": "versions of x"})]) if not turn.turn else Say(turn.last)

    with friday.meets(rule) as server:
        ran = friday("go")
    assert "friday: denied: a web_search versions of x: mode ask: web_search needs permission" in ran.err
    assert len(server.turns) == 2, "no search was sent"
