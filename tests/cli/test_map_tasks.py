"""The tool `map_tasks`, through `friday ask` and `friday sessions show` with a scripted model."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.cli.console import CommandResult, Console

ITEMS = [{"id": number} for number in range(8)]
CALL = {"profile": "summarizer", "task": "Look at <{id}>.", "items": ITEMS, "max_cost": 1}


@pytest.fixture(autouse=True)
def setting(console: Console) -> None:
    console.configure("[agents.delegation]\nbatches = true\n")


def ask(console: Console, call: dict[str, Any], *more: str, allow: str = "map_tasks") -> CommandResult:
    """Ask a main agent that makes one call and repeats what it reads. The item 3 fails."""
    scenario = {
        "price": {"input": 1.0, "output": 5.0},
        "agents": {
            "a": [{"calls": [{"name": "map_tasks", "arguments": call}]}, {"text": "{results}"}],
            "a.*": {
                "turns": [{"when": "<3>", "fail": {"kind": "refusal", "message": "broken [red]"}}],
                "otherwise": {"text": "found" + 300 * " it"},
            },
        },
    }
    (console.home / "model.json").write_text(json.dumps(scenario))
    rules = ("--allow", allow) if allow else ()
    return console("ask", "go", "--model", f"scripted:{console.home / 'model.json'}", *rules, *more)


def test_items_are_run_once_and_what_returns_is_bounded(console: Console) -> None:
    first = ask(console, CALL).out
    assert "8 items: 7 done, 1 failed" in first
    assert first.count(": found") == 7
    assert "broken [red]" in first
    path = first.partition("All items as JSON lines: ")[2].split()[0]
    with open(path) as file:
        assert [json.loads(line)["state"] for line in file].count("done") == 7
    again = ask(console, {**CALL, "items": [*ITEMS[::-1], *({"id": f"{n:0600}"} for n in range(60, 100))]})
    assert "48 items: 47 done, 1 failed" in again.out
    assert "40 sub-agents" in again.err
    assert len(again.out) < 12_000
    assert "The first 14 results" in again.out


def test_what_a_killed_process_had_logged_is_recovered(console: Console) -> None:
    call = {**CALL, "items": ITEMS[4:]}
    ask(console, call)
    with sqlite3.connect(Path(os.environ["FRIDAY_HOME"], "data", "map.db")) as db:
        db.execute("UPDATE batches SET state = 'open', spent = 0")
        db.execute("UPDATE items SET state = 'running', agent = '', cost = 0, result = '', reserved = 0.1")
    again = ask(console, call)
    assert "4 items: 4 done" in again.out
    assert again.out.count(": found") == 4
    assert "sub-agent" not in again.err


def test_the_newest_try_of_a_session_is_recovered(console: Console) -> None:
    call = {**CALL, "items": ITEMS[:1]}
    once = {"calls": [{"name": "map_tasks", "arguments": call}]}
    refused = {"turns": [{"fail": {"kind": "quota", "message": "no credit"}}]}
    agents = {
        "a": [once, once, {"text": "{results}"}],
        "a.1": refused,
        "a.*": {"turns": [], "otherwise": {"text": "found"}},
    }
    (console.home / "model.json").write_text(json.dumps({"price": {"input": 1.0, "output": 5.0}, "agents": agents}))
    model = ("--model", f"scripted:{console.home / 'model.json'}", "--allow", "map_tasks")
    assert "1 item: 1 done" in console("ask", "go", *model).out
    with sqlite3.connect(Path(os.environ["FRIDAY_HOME"], "data", "map.db")) as db:
        db.execute("UPDATE items SET state = 'running', agent = '', cost = 0, result = '', reserved = 0.1")
    again = ask(console, call)
    assert "item 1: found\n" in again.out
    assert "sub-agent" not in again.err


def test_a_big_batch_is_one_line_of_the_tree(console: Console) -> None:
    ask(console, CALL)
    tree = console("sessions", "show", "--tree", console("sessions", "list").rows[0][0]).out
    assert "7 completed items of a batch" in tree
    assert "failed (refusal)" in tree
    assert tree.count("summarizer") == 1


def test_it_is_offered_only_where_it_is_set(console: Console) -> None:
    console.configure("")
    ran = ask(console, CALL)
    assert "map_tasks" in ran.out
    assert "done" not in ran.out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"glob": "*"}, "Give the items by one of items, glob and file"),
        ({"items": None, "glob": "*.py", "task": "Say {content}"}, "with their own rights"),
        ({"items": None, "glob": "*.nothing", "task": "x {path}"}, "there are no items"),
        ({"task": "Look at {name}."}, "no item has the field name"),
        ({"profile": "nobody"}, "nobody"),
        ({"max_cost": 0.0001}, "max_cost $0.0001"),
        ({"per_item_cost": 2}, "no item could start"),
        ({"max_cost": 6}, "more than the $4.50 that this session has left"),
        ({"items": list(range(501)), "task": "{item}"}, "more than 500"),
        ({"items": None, "file": "../outside.jsonl"}, "outside"),
        ({"items": None, "file": "secret.jsonl"}, "it reads secret.jsonl, denied by the rule"),
        ({"items": None, "file": "bad.jsonl"}, "bad.jsonl:1: is not JSON"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_bad_call_is_one_error_before_anything_is_spent(console: Console, change: dict[str, Any], words: str) -> None:
    for name in ("secret.jsonl", "bad.jsonl", "a.py"):
        (console.project / name).write_text("[\n")
    call = {name: value for name, value in {**CALL, **change}.items() if value is not None}
    ran = ask(console, call, "--max-cost", "5", "--deny", "read_file(secret.jsonl)")
    assert words in ran.out, ran.out + ran.err
    assert "sub-agent" not in ran.err


def test_lines_of_a_file_that_are_no_json_are_named_and_the_others_run(console: Console) -> None:
    (console.project / "items.jsonl").write_text('{"id": 1}\n[\n{"id": 2}\n')
    ran = ask(console, {"profile": "summarizer", "task": "Look at <{id}>.", "file": "items.jsonl", "max_cost": 1})
    assert "2 items: 2 done" in ran.out
    assert "items.jsonl:2: is not JSON" in ran.out


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ((), "no person can be asked here. 8 items"),
        (("--deny", "delegate_task(summarizer)"), "it starts the sub-agent summarizer, denied by the rule"),
    ],
)
def test_it_needs_a_yes_and_the_right_to_delegate(console: Console, rules: tuple[str, ...], words: str) -> None:
    ran = ask(console, CALL, *rules, allow="map_tasks" if rules else "")
    assert words in ran.out
    assert "a.1" not in ran.err
