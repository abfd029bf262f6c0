"""Friday as an agent of Inspect: a real eval of it, in its local sandbox, with a model that follows a script."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="NOT TESTED HERE: inspect-ai is not installed")

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessageAssistant, ModelAPI, ModelOutput, modelapi
from inspect_ai.scorer import includes

from friday_cli.doors.inspect import friday

PROGRAM = str(Path(sys.executable).with_name("friday"))
CHILD = "Count the files here."


@modelapi(name="scripted")
class ScriptedModel(ModelAPI):  # type: ignore[misc]
    """Delegates twice at once, then says what came back. `fails` answers nothing that Friday can read."""

    async def generate(self, input: list[Any], tools: list[Any], tool_choice: Any, config: Any) -> ModelOutput:
        text = "\n".join(message.text for message in input)
        if "fails" in self.model_name:
            raise ValueError("no such model")
        if not any(tool.name == "delegate_task" for tool in tools):
            return ModelOutput.from_content(self.model_name, "There are 7 files.")
        if any(message.role == "tool" for message in input):
            seen = text.count("There are 7 files.")
            return ModelOutput.from_content(self.model_name, f"Two sub-agents say: {'seven' if seen >= 2 else text}")
        call = ModelOutput.for_tool_call(self.model_name, "delegate_task", {"profile": "researcher", "task": CHILD})
        message = call.choices[0].message
        assert isinstance(message, ChatMessageAssistant)
        assert message.tool_calls
        second = replace(message.tool_calls[0], id="call_2")
        message.tool_calls.append(second)
        return call

    async def count_tokens(self, input: Any, config: Any = None) -> int:
        return 10


def run(tmp_path: Path, model: str, **more: Any) -> EvalLog:
    task = Task(
        dataset=[Sample("How many files are here?", target="seven")],
        solver=friday(program=PROGRAM, **more),
        scorer=includes(),
        sandbox="local",
        epochs=2,
        time_limit=300,
    )
    (log,) = eval(task, model=f"scripted/{model}", log_dir=str(tmp_path), display="none", fail_on_error=False)
    return log


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRIDAY_HOME", str(tmp_path / "friday"))


def test_an_eval_scores_friday_and_its_sub_agents(tmp_path: Path) -> None:
    log = run(tmp_path, "works")
    assert log.status == "success", log.error
    assert [sample.error.message for sample in log.samples or () if sample.error] == []
    assert [sample.scores["includes"].value for sample in log.samples or ()] == ["C", "C"], log.samples
    document = (log.samples or ())[0].store["friday"]
    assert ([agent["path"] for agent in document["agents"]], document["status"]) == (["a", "a.1", "a.2"], "completed")


def test_a_failure_that_is_not_the_agents_is_an_error_of_the_sample(tmp_path: Path) -> None:
    log = run(tmp_path, "works", flags=("--profile", "nobody"))
    assert all("friday ask ended with exit code 2" in str(sample.error) for sample in log.samples or ()), log.samples
