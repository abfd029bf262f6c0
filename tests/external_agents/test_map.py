"""`friday map` with an external agent for each item."""

from __future__ import annotations

import json

from tests.external_agents.conftest import Robot


def test_each_item_has_its_program_in_a_worktree_of_its_own(robot: Robot) -> None:
    robot.in_git()
    items = robot.home / "items.jsonl"
    items.write_text('{"n": 1}\n{"n": 2}\n{"n": 3}\n', encoding="utf-8")
    robot.plays([{"write": {"made.txt": "x\n"}}, {"say": "made"}])
    limits = ("--max-tokens", "900000", "--yes", "--mode", "auto")
    program = ("-m", "friday_cli", "map", "robot", "--items", str(items), "--task", "Item {n}.", *limits)
    ran = robot.run(program=program, model="", FRIDAY_SANDBOX="none")
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [(row["result"], row["cost_usd"]) for row in rows] == [("made", None)] * 3  # it does not say
    assert sorted(text.rpartition("\n")[2] for text in robot.prompts()) == ["Item 1.", "Item 2.", "Item 3."]
    assert not (robot.project / "made.txt").exists()
    listed = robot.run(program=("-m", "friday_cli", "worktrees", "list"), model="")
    assert listed.out.count("1 file +1 -0") == 3
