"""Friday as an agent of Harbor: its real class, in a folder that stands for the container."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # a library of Harbor fetches it when it is imported
pytest.importorskip("harbor", reason="NOT TESTED HERE: harbor is not installed")

from harbor.agents.installed.base import NonZeroAgentExitCodeError
from harbor.models.agent.context import AgentContext
from harbor.models.trajectories import Trajectory

from friday_cli.doors.harbor import Friday

PROGRAM = Path(os.environ.get("PROGRAM") or Path(sys.executable).with_name("friday"))
"""Friday; `PROGRAM` names another one where Harbor's environment has no whole one."""
PLAY = {
    "a": [
        {"calls": [{"name": "delegate_task", "arguments": {"profile": "coder", "task": "write it"}}]},
        {"text": "Done: {results}"},
    ],
    "a.1": [
        {"calls": [{"name": "write_file", "arguments": {"path": "answer.txt", "content": "42\n"}}]},
        {"calls": [{"name": "task_result", "arguments": {"result": "It is there.", "status": "success"}}]},
    ],
}


class Container:
    """Runs commands in `folder` as Harbor's environments do."""

    default_user = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[str] = []

    async def exec(self, command: str, **options: Any) -> Any:
        self.commands.append(command)
        if "uv tool install" in command or options.get("user") == "root":
            return SimpleNamespace(return_code=0, stdout="", stderr="")
        path = f"{PROGRAM.parent}:{os.environ['PATH']}"
        env = {
            "PATH": path,
            "HOME": str(self.folder),
            "FRIDAY_HOME": str(self.folder / "home"),
            **(options.get("env") or {}),
        }
        ran = await asyncio.create_subprocess_exec(
            "bash", "-c", command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await ran.communicate()
        return SimpleNamespace(return_code=ran.returncode, stdout=out.decode(), stderr=err.decode())


def made(tmp_path: Path, model: str | None, **options: Any) -> tuple[Friday, Container, Path]:
    logs, folder = tmp_path / "logs", tmp_path / "container"
    for each in (logs, folder):
        each.mkdir()
    return Friday(logs, model_name=model, environment_logs_dir=logs, **options), Container(folder), logs


async def test_friday_works_on_a_task_and_hands_over_its_trajectory(tmp_path: Path) -> None:
    (tmp_path / "play.json").write_text(json.dumps({"agents": PLAY}), encoding="utf-8")
    agent, container, logs = made(tmp_path, f"scripted:{tmp_path}/play.json", timeout=60, max_turns=5)
    await agent.setup(container)
    context = AgentContext()
    await agent.run("Write the answer; it's 42.", container, context)
    assert (container.folder / "answer.txt").read_text(encoding="utf-8") == "42\n"
    assert any("--timeout 60" in command and "--max-turns 5" in command for command in container.commands)
    agent.populate_context_post_run(context)
    assert context.n_input_tokens
    assert context.metadata is not None
    assert context.metadata["status"] == "completed"
    found = Trajectory.model_validate_json((logs / "trajectory.json").read_text(encoding="utf-8"))
    assert found.session_id == context.metadata["session"]
    assert "write it" in found.model_dump_json()


async def test_what_the_agent_cannot_help_is_an_error_and_what_it_can_is_none(tmp_path: Path) -> None:
    agent, container, _ = made(tmp_path, "scripted:/nowhere.json")
    with pytest.raises(NonZeroAgentExitCodeError):
        await agent.run("x", container, AgentContext())
    (tmp_path / "play.json").write_text(json.dumps({"agents": {"a": PLAY["a"]}}), encoding="utf-8")
    agent = Friday(
        tmp_path / "logs", model_name=f"scripted:{tmp_path}/play.json", environment_logs_dir=tmp_path / "logs"
    )
    await agent.run("x", container, AgentContext())


async def test_it_installs_the_version_that_is_asked_for(tmp_path: Path) -> None:
    agent, container, _ = made(tmp_path, None, version="0.1.0")
    await agent.install(container)
    assert any("uv tool install --python 3.12 friday-cli==0.1.0" in command for command in container.commands)
