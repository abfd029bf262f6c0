"""What a delegation usually uses, where programs and people read it: the JSON of `friday ask` and `sessions stats`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.console import Console

RUNS = 60


@pytest.fixture
def recorded(console: Console) -> list[dict[str, Any]]:
    """The agents of `RUNS` runs with a delegation each, whose results are of random length, as `friday ask` prints them."""
    agents = []
    lengths = [40 + 7_919 * number % 1_600 for number in range(RUNS)]
    for length in lengths:
        call = {"name": "delegate_task", "arguments": {"profile": "researcher", "task": "Look."}}
        scenario = {
            "price": {"input": 1.0, "output": 5.0},
            "agents": {"a": [{"calls": [call]}, {"text": "done"}], "a.1": [{"text": "x" * length}]},
        }
        (console.home / "model.json").write_text(json.dumps(scenario))
        model = ("--model", f"scripted:{console.home / 'model.json'}")
        ran = console.ok("ask", "go", *model, "--output-format", "json", "--allow", "delegate_task")
        agents += [agent for agent in ran.document["agents"] if agent["path"] == "a.1"]
    return agents


def test_recorded_runs_end_below_the_shown_p90_and_everybody_reads_it(
    console: Console, recorded: list[dict[str, Any]]
) -> None:
    first, *others = recorded
    assert first["forecast"]["runs"] == 0
    assert first["forecast"]["cost_usd"] is None
    assert [each["forecast"]["runs"] for each in others] == list(range(1, RUNS))
    later = recorded[RUNS // 3 :]
    below = sum(each["cost_usd"] <= each["forecast"]["cost_usd"]["p90"] for each in later)
    assert 0.78 <= below / len(later) <= 1
    assert later[-1]["forecast"]["suggested_tokens"] == round(later[-1]["forecast"]["tokens"]["p95"])
    shown = console.ok("sessions", "stats").out
    assert f"({RUNS} runs); suggested budget" in shown
    assert "researcher on scripted/" in shown
