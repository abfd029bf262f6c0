"""One `friday ask` with a scripted model and MCP servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
MARK = "FRIDAY_COUNTERPART"
"""A variable of each server, by which its processes are found."""
ASK_S = 120

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Asked:
    """What came of it. `errors`: the notices, and what is on standard error. `results`: the status and text of each call."""

    code: int
    errors: str
    results: list[tuple[str, str]]
    answer: str


class Folder:
    """A project folder and an empty home of Friday."""

    def __init__(self, path: Path) -> None:
        self.project, self.home = path / "project", path / "home"
        for folder in (self.project, self.home):
            folder.mkdir(parents=True)

    def ask(
        self,
        servers: dict[str, Any],
        calls: Sequence[Call],
        *,
        prompt: str = "Call them.",
        env: dict[str, str],
        known: bool = True,
        disturb: Callable[[], int] | None = None,
    ) -> Asked:
        """Let the model make `calls`, each in a turn of its own. `disturb`: called at the first
        progress of a call; returns a signal for Friday, 0 for none. `known`: the servers were used before."""
        turns = [{"calls": [{"name": name, "arguments": given}]} for name, given in calls]
        script = self.home / "script.json"
        script.write_text(json.dumps({"agents": {"a": {"turns": [*turns, {"text": "The run goes on: {last}"}]}}}))
        named = {
            name: entry | {"env": {MARK: str(self.home)}} if "command" in entry else entry
            for name, entry in servers.items()
        }
        (self.home / "mcp.json").write_text(json.dumps({"mcpServers": named}))
        environ = env | {"FRIDAY_HOME": str(self.home), "PYTHONPATH": str(PROJECT)}
        friday = [sys.executable, "-m", "friday_cli"]
        for name in servers if known else ():  # so that a slow machine finds the tools in the catalog
            subprocess.run(
                [*friday, "mcp", "tools", name], env=environ, cwd=self.project, capture_output=True, check=False
            )
        command = [*friday, "ask", "--yolo", "-m", f"scripted:{script}", "--output-format", "stream-json", prompt]
        with tempfile.TemporaryFile("w+") as errors:
            running = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                text=True,
                env=environ,
                cwd=self.project,
            )
            results, notices, answer = [], "", ""
            try:
                assert running.stdout is not None
                for line in running.stdout:
                    event = json.loads(line).get("event", {})
                    if event.get("kind") == "tool_output" and disturb:
                        number, disturb = disturb(), None
                        if number:
                            running.send_signal(number)
                    if event.get("kind") == "tool_finished":
                        results.append((event["status"], event["text"]))
                    if event.get("kind") == "notice":
                        notices += event["text"] + "\n"
                    if event.get("kind") == "agent_finished":
                        answer = event.get("result", "")
                code = running.wait(ASK_S)
            finally:
                running.kill()
                running.wait()
            errors.seek(0)
            return Asked(code, notices + errors.read(), results, answer)

    def processes(self) -> list[int]:
        """The processes of servers that run now."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"{MARK}={self.home}".encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def kill_servers(self) -> None:
        """Kill them at once."""
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
