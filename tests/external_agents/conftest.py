from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.friday import KEY, ROOT, CommandResult, Friday

AGENT = str(ROOT / "tests" / "servers" / "acp_agent.py")
GIT = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]


class Robot(Friday):
    """`friday ask --profile robot`, whose work the scripted program of `tests.servers.acp_agent` does. Without a model of Friday's own."""

    scripts: Path | None = None
    """The folder of its script, where the program cannot read Friday's own and records nothing."""

    def plays(  # type: ignore[override]
        self, *prompts: Any, front: tuple[str, ...] = (), wire: str = "none", **script: Any
    ) -> None:
        """Write the profile and its program's script: the steps of each prompt, and what else the program says."""
        path = (self.scripts or self.home) / "acp.json"
        record = "" if self.scripts else str(self.record)
        path.write_text(json.dumps({"prompts": list(prompts), "record": record, **script}), encoding="utf-8")
        argv = json.dumps([sys.executable, AGENT, str(path)])
        self.profile("robot", f"external: {{acp: {argv}, wire: {wire}}}", *front)

    @property
    def record(self) -> Path:
        """What the program read."""
        return self.home / "record.jsonl"

    @property
    def received(self) -> list[dict[str, Any]]:
        """The messages that the program read."""
        return [json.loads(line) for line in self.record.read_text(encoding="utf-8").splitlines()]

    def prompts(self) -> list[str]:
        """The texts of the prompts that the program read."""
        asked = [one["params"]["prompt"] for one in self.received if one.get("method") == "session/prompt"]
        return ["".join(part["text"] for part in parts) for parts in asked]

    def ask(self, *argv: str) -> CommandResult:
        """The JSON document of `friday ask --profile robot`."""
        return self.json("--profile", "robot", *(argv or ("go",)))

    def logged(self, *argv: str) -> dict[str, Any]:
        """What the log has of the agent after `friday ask --profile robot`."""
        self.ask(*argv)
        shown = json.loads(self.show(":a.1", "--json").out)
        found: dict[str, Any] = next(one for one in shown["agents"] if one["path"] == "a.1")
        return found

    def in_git(self) -> None:
        """Make the project a repository with one file."""
        (self.project / "a.txt").write_text("one\n", encoding="utf-8")
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
            subprocess.run([*GIT, *words], cwd=self.project, check=True, capture_output=True)


@pytest.fixture
def robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Robot]:
    """A home without any model; programs run without a sandbox, which not every machine has."""
    made = Robot(tmp_path, monkeypatch, capsys)
    made.model = ""
    made.setenv("FRIDAY_SANDBOX", "none")
    yield made
    made.stop()
    for path in (p for p in made.home.rglob("*") if p.is_file() and p != made.config):
        assert KEY.encode() not in path.read_bytes(), f"the key is in {path}"
