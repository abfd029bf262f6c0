"""What the harness knows of a sub-agent reaches its parent and the person: in `friday ask` and `sessions show`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.e2e.friday import Friday
from tests.timing import paced

LONG = "0123456789" * 90
UNCHECKED = "no tool was run except task_result: nothing in this result was checked"


def does(*calls: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A turn of the scripted model with calls; `more` are other fields of the turn."""
    return {"calls": [{"name": name, "arguments": arguments} for name, arguments in calls], **more}


def delegates(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A turn that delegates a batch."""
    return does(("delegate_tasks", {"tasks": list(tasks)}), **more)


def returns(result: str, *, status: str = "success", **more: Any) -> dict[str, Any]:
    """A turn that ends the run by `task_result`."""
    return does(("task_result", {"result": result, "status": status}), **more)


def plays(friday: Friday, agents: dict[str, list[dict[str, Any]]]) -> None:
    """Use a scenario with the turns of each agent."""
    friday.plays(json.dumps({"agents": agents}))


def three_ends(friday: Friday) -> None:
    """A long result, an honest failure, and a run that is cut at its limit of turns."""
    friday.profile("terse", "resultChars: 500")
    look = {"profile": "researcher", "task": "look"}
    tasks = {"profile": "terse", "task": "write"}, look, look | {"max_iterations": 1}
    agents = {
        "a": [delegates(*tasks), {"text": "{results}"}],
        "a.1": [returns(LONG)],
        "a.2": [returns("There is no such file.", status="error")],
        "a.3": [does(("list_dir", {"path": "."})), {"text": "so far"}],
    }
    plays(friday, agents)


def test_each_end_in_the_stream_and_the_length_of_a_result_that_its_parent_reads(friday: Friday) -> None:
    three_ends(friday)
    ran = friday("go", "--output-format", "stream-json")
    events = [json.loads(line) for line in ran.out.splitlines()]
    ends = {e["agent"]: e["event"] for e in events if e["event"]["kind"] == "agent_finished"}
    assert {path: (end["profile"], end["success"], end["stop_reason"]) for path, end in ends.items()} == {
        "a.1": ("terse", True, "done"),
        "a.2": ("researcher", False, "reported"),
        "a.3": ("researcher", False, "iterations"),
        "a": ("friday", True, "done"),
    }
    assert ends["a.1"]["result"] == LONG
    cut = "[... truncated: 900 characters in all; continue with get_delegation_result(id='a.1', offset=325) ...]"
    assert f"> {LONG[:325]}\n{cut}\n> {LONG[-175:]}\n---" in ends["a"]["result"]


def test_an_honest_failure_without_a_call_has_no_warning(friday: Friday) -> None:
    three_ends(friday)
    ran = friday("go")
    assert ran.lines[-1] == f"friday: 1 warning: a.1: {UNCHECKED}"
    shown = friday.show("--tree").out
    assert "! a.1 terse · completed" in shown
    assert "✗ a.2 researcher · failed (reported)" in shown
    assert shown.count("WARNING: ") == 1


def test_a_lead_that_is_stopped_while_it_waits_reads_what_its_sub_agents_have(friday: Friday) -> None:
    """The first lead is cancelled; the token budget of the second is used up by a sub-agent."""
    friday.profile("lead", "subAgents: [researcher]", "maxTokenBudget: 60000")
    used = {"cache_read": 1}
    tasks = {"profile": "researcher", "task": "quick"}, {"profile": "researcher", "task": "slow"}
    lead = [delegates(*tasks, usage=used | {"input": 10_100}), {"text": "I had: {results}"}]
    steps = [
        does(
            ("todo", {"items": [{"text": f"step {n}"}]}),
            text="half of it",
            wrap_up="so far",
            usage=used | {"input": 6000},
        )
        for n in range(12)
    ]
    first = "delegate_task", {"profile": "lead", "task": "the first half", "background": True}
    second = "delegate_task", {"profile": "lead", "task": "the second half"}
    agents = {
        "a": [does(first, second), does(("cancel_sub_agent", {"id": "a.1"}), delay_s=0.3), {"text": "{results}"}],
        "a.1": lead,
        "a.1.1": [returns("one is found")],
        "a.1.2": [steps[0], {"text": "never", "delay_s": 600}],
        "a.2": lead,
        "a.2.1": [returns("one is found", usage=used | {"input": 550})],
        "a.2.2": steps,
    }
    plays(friday, agents)
    ran = friday("go")
    assert ran.code == 0
    (cancelled,), (spent,) = friday.read_by("a.1"), friday.read_by("a.2")
    report = "# Task 1 of 2\n## Result from 'researcher' (%s.1): completed\n> one is found\n---\ndelegate_id: %s.1 |"
    assert cancelled.startswith(f"cancelled: {report % ('a.1', 'a.1')}")
    assert "(a.1.2): stopped with its parent\n> half of it\n---\ndelegate_id: a.1.2 |" in cancelled
    assert spent.startswith(f"ok: {report % ('a.2', 'a.2')}")
    assert "(a.2.2): completed (tokens of a.2)\n> so far\n---\ndelegate_id: a.2.2 |" in spent
    assert "> I had: # Task 1 of 2\n> ## Result from 'researcher' (a.1.1): completed\n> > one is found\n" in ran.out
    shown = friday.show().out
    for words in ("■ a.1 lead · stopped", "a.2 lead · completed (tokens)", "> I had: # Task 1 of 2"):
        assert words in shown


@paced
def test_the_clock_of_a_lead_is_stopped_while_it_waits_for_its_sub_agents(friday: Friday, pace: float) -> None:
    """That of a limit given in a call is not."""
    limit, work = 0.4 * pace, 0.7 * pace
    friday.profile("lead", f"timeout: {limit}", "subAgents: [researcher]")
    tasks = {"profile": "researcher", "task": "quick"}, {"profile": "researcher", "task": "slow"}
    lead = [delegates(*tasks), {"text": "I had: {results}"}]
    quick, slow = [returns("one is found")], [returns("two is found", delay_s=work)]
    leads = {"profile": "lead", "task": "all"}, {"profile": "lead", "task": "all", "timeout_s": limit}
    agents = {
        "a": [delegates(*leads), {"text": "{results}"}],
        "a.1": lead,
        "a.1.1": quick,
        "a.1.2": slow,
        "a.2": lead,
        "a.2.1": quick,
        "a.2.2": slow,
    }
    plays(friday, agents)
    ran = friday.json("go")
    assert {path: ran.agent(path)["status"] for path in ("a.1", "a.1.2", "a.2", "a.2.1", "a.2.2")} == {
        "a.1": "completed", "a.1.2": "completed", "a.2": "timeout", "a.2.1": "completed", "a.2.2": "cancelled",
    }  # fmt: skip
    assert ran.agent("a.1")["duration_s"] < limit < work <= ran.agent("a.1.2")["duration_s"]
    assert "> > two is found" in ran.document["result"]
    shown = friday.show().out
    assert "a.1 lead · completed ·" in shown
    assert "⧖ a.2 lead · timeout (time)" in shown


def test_a_child_with_a_spent_budget_is_not_resumed_and_keeps_its_result(friday: Friday) -> None:
    friday.profile("small", "maxTokenBudget: 12000")
    agents = {
        "a": [
            does(("delegate_task", {"profile": "small", "task": "look"})),
            does(("delegate_task", {"resume": "a.1", "task": "and further"})),
            does(("get_delegation_result", {"id": "a.1"})),
            {"text": "{results}"},
        ],
        "a.1": [returns("It is in x.txt.", usage={"input": 10_000, "output": 100}), {"text": "never"}],
    }
    plays(friday, agents)
    ran = friday.json("go")
    assert "(a.1): completed\n> It is in x.txt.\n" in ran.document["result"]
    assert (ran.agent("a.1")["status"], ran.agent("a.1")["result"]) == ("completed", "It is in x.txt.")
    shown = friday.show().out
    assert "✗ delegate_task" in shown
    refused = r"      a\.1 was not continued: its conversation may count as [\d,]+ tokens, and its budget has room for [\d,]+\. "
    assert re.search(f"{refused}Give it max_tokens from what you have left\\.\n", shown)
    assert "a.1 small · completed ·" in shown
    assert "> It is in x.txt." in shown


@pytest.mark.parametrize("limit", [60_000, 40_000])
def test_five_children_that_fit_the_token_limit_are_all_completed(friday: Friday, limit: int) -> None:
    """Each needs 4,300 tokens; no reply is cut, and none times out while it waits for tokens."""
    friday.profile("worker", "allowedTools: []", "timeout: 5")
    few = {"input": 300, "output": 100}
    tasks = [{"profile": "worker", "task": f"part {n}"} for n in range(1, 6)]
    part = returns("my part", delay_s=0.1, usage={"input": 300, "output": 4000})
    plays(friday, {"a": [delegates(*tasks, usage=few), {"text": "{results}", "usage": few}], "a.*": [part]})
    ran = friday.json("go", "--max-tokens", str(limit))
    assert ran.code == 0
    ends = [(a["status"], a["stop_reason"], a["result"]) for a in ran.document["agents"][1:]]
    assert ends == [("completed", "done", "my part")] * 5
    assert ran.document["result"].count("): completed\n> my part\n") == 5
    assert sum(ran.document["usage"][name] for name in ("input_tokens", "output_tokens")) <= limit
    assert friday.show().out.count(" worker · completed · 4.3k tokens · ") == 5


def test_calls_with_the_argument_names_of_other_programs(friday: Friday) -> None:
    (friday.project / "f.txt").write_text("one\ntwo\n", encoding="utf-8")
    agents = {
        "a": [
            does(
                ("read_file", {"file_path": "f.txt", "pages": "1"}),
                ("grep", {"pattern": "two", "output_mode": "content", "-n": True, "path": "f.txt"}),
                ("todo", {"todos": '[{"content": "first", "status": "pending"}]'}),
                ("bash", {"command": "echo hello", "description": "Say hello"}),
            ),
            does(
                ("edit_file", {"file_path": "f.txt", "old_string": "two", "new_string": "2"}),
                ("edit_file", {"file_path": "f.txt", "edits": '[{"old_string": "one", "new_string": "1"}]'}),
                ("write_file", {"filename": "g.txt", "content": "x"}),
                ("bash", {"command": "rm f.txt", "dry_run": True}),
            ),
            {"text": "{results}"},
        ],
    }
    plays(friday, agents)
    ran = friday("go", "--yolo")
    read, found, listed, said, edited, edited_again, written, refused = friday.read_by("a")
    assert read == "ok: 1\tone\n2\ttwo\n[Left out, not an argument of this tool: pages]"
    assert "2:two" in found
    assert "first" in listed
    assert said.startswith("ok: hello\n")
    assert said.endswith("\n[Left out, not an argument of this tool: description]")
    assert [text.partition(":")[0] for text in (found, listed, edited, edited_again, written)] == ["ok"] * 5
    assert refused == "error: bash: there is no argument `dry_run`. The arguments are: command, timeout_s, background."
    assert refused.removeprefix("error: ") in ran.out
    assert refused.removeprefix("error: ") in friday.show().out
    assert (friday.project / "f.txt").read_text(encoding="utf-8") == "1\n2\n"
    assert (friday.project / "g.txt").read_text(encoding="utf-8") == "x"
