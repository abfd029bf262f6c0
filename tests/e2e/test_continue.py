"""`friday ask --resume-agent`: a person resumes a sub-agent."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing, suppress

from tests.e2e.friday import Friday
from tests.e2e.test_signals import until

FIRST = """
agents:
  a: [{calls: [{name: delegate_task, arguments: {profile: researcher, task: find the word}}]}, {text: it is there}]
  a.1: [{text: the word is blue}]
"""
SECOND = """
agents:
  a.1: [{text: "it was blue, and you said: {last}"}]
"""


def begun(friday: Friday) -> str:
    """The id of a session whose main agent had a sub-agent."""
    friday.plays(FIRST)
    return str(friday.json("go").document["session_id"])


def test_it_answers_in_the_place_of_the_main_agent(friday: Friday) -> None:
    session = begun(friday)
    friday.plays(SECOND)
    ran = friday("--resume-agent", f"{session[:8]}:a.1", "are you sure?")
    assert (ran.code, ran.out) == (0, "it was blue, and you said: are you sure?\n")
    document = friday.json("--resume-agent", f"{session}:a.1", "and now?").document
    assert document["result"] == "it was blue, and you said: and now?"
    assert [(a["path"], a["status"]) for a in document["agents"]] == [("a", "completed"), ("a.1", "completed")]


def test_its_limits_are_that_agents(friday: Friday) -> None:
    session = begun(friday)
    friday.plays(SECOND)
    ran = friday("--resume-agent", f"{session}:a.1", "go on", "--max-tokens", "300")
    assert ran.code == 2
    assert "a.1 was not continued: the tokens budget of a.1 is used up." in ran.err
    assert friday("--resume-agent", f"{session}:a.1", "go on", "--max-tokens", "20000").code == 0
    schema = json.dumps({"type": "object"})
    assert friday("--resume-agent", f"{session}:a.1", "go on", "--json-schema", schema).code == 1, (
        "its answer is no JSON"
    )


def test_what_is_no_such_agent_is_said(friday: Friday) -> None:
    session = begun(friday)
    for name, words in (
        (f"{session}:a.9", "There is no agent 'a.9' in session"),
        (f"{session}:a", "There is no agent 'a' in session"),
        (session, "is not SESSION:PATH. Example: 7f3a:a.2."),
        (":a.1", "is not SESSION:PATH."),
        ("ffffffff:a.1", "ffffffff"),
    ):
        ran = friday("--resume-agent", name, "go on")
        assert (ran.code, ran.out) == (2, "")
        assert words in ran.err
    ran = friday("--resume-agent", f"{session}:a.1", "--continue", "go on")
    assert ran.code == 2
    assert "--continue and --resume-agent cannot be combined." in ran.err


TIMED = """
agents:
  a:
    - calls: [{name: delegate_tasks, arguments: {tasks: [{profile: researcher, task: one}, {profile: researcher, task: two}, {profile: researcher, task: three}]}}]
    - text: "At the end I had: {results}"
  a.1: [{calls: [{name: task_result, arguments: {result: one is found}}]}]
  a.2: [{calls: [{name: task_result, arguments: {result: two is found}}]}]
  a.3: [{text: half of three, calls: [{name: list_dir, arguments: {path: .}}]}, {text: never, delay_s: 600}]
"""


def test_a_time_limit_hands_back_what_the_sub_agents_finished(friday: Friday) -> None:
    friday.plays(TIMED)
    ran = friday("go", "--timeout", "3")
    assert ran.code == 5
    for words in (
        "(a.1): completed\n> one is found\n",
        "(a.2): completed\n> two is found\n",
        "> half of three\n",
        "(a.3): stopped with its parent",
        "delegate_id: a.3",
    ):
        assert words in ran.out
    shown = friday.run("sessions", "show", model="", program=("-m", "friday_cli"))
    assert "> one is found" in shown.out


KILLED = """
agents:
  a:
    - calls: [{name: delegate_tasks, arguments: {tasks: [{profile: terse, task: one}, {profile: researcher, task: two}]}}]
  a.1: [{calls: [{name: task_result, arguments: {answer: "# One is found\\n%s"}}]}]
  a.2: [{text: half of two, calls: [{name: list_dir, arguments: {path: .}}]}, {text: never, delay_s: 600}]
"""


def test_after_a_kill_the_next_process_shows_and_reads_what_was_finished(friday: Friday) -> None:
    friday.profile("terse", "resultChars: 500")
    friday.plays(KILLED % ("and more " * 100))
    process = friday.start("go")

    def at_work() -> bool:
        with suppress(sqlite3.Error), closing(sqlite3.connect(friday.home / "data" / "friday.db")) as db:
            rows = db.execute("SELECT agent, kind FROM events").fetchall()
            return ("a.1", "agent_finished") in rows and rows.count(("a.2", "turn_started")) == 2
        return False

    until(at_work, "a.1 to end and a.2 to wait for its second reply")
    process.kill()
    process.wait()
    friday.plays("agents: {a: [{text: 'I had: {results}'}]}")
    ran = friday("and?", "-c")
    assert ran.code == 0
    for words in (
        "(a.1): completed\n> # One is found\n",
        "continue with get_delegation_result(id='a.1', offset=325)",
        "(a.2): interrupted",
        "> half of two\n",
        "delegate_id: a.2",
    ):
        assert words in ran.out
    shown = friday.run("sessions", "show", model="", program=("-m", "friday_cli")).out
    agents = shown.rpartition("\nAgents\n")[2]
    assert re.search(r"├─ ! a\.1 terse · completed .*\n│ +> # One is found\n", agents)
    assert re.search(r"└─ ! a\.2 researcher · interrupted .* ~[\d.k]+ tokens? .*\n +> half of two\n", agents)
