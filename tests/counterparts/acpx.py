"""acpx 0.19.1, a client of others, with `friday acp` as its agent: every permission given, and every one denied."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.counterparts.acp_rules import asked_calls, flat
from tests.counterparts.acp_schema import Frames, problems
from tests.counterparts.install import installed
from tests.counterparts.report import Check, report

SDK = "@agentclientprotocol/sdk"
PACKAGES = ("acpx", SDK)
PROJECT = Path(__file__).parents[2]
WRITE = {"name": "write_file", "arguments": {"path": "new.txt", "content": "new\n"}}
DELEGATE = {"name": "delegate_task", "arguments": {"profile": "general", "task": "write it too"}}
DENIED = 5
"""The exit code of acpx after a denied permission."""


def main(only: str = "") -> int:
    """Run it; returns the exit code."""
    return report((check for check in _all() if only in check.name), {})


def _all() -> Iterator[Check]:
    program = shutil.which("acpx")
    assert program, "the runner puts it on PATH"
    folder = Path(installed().script(SDK, "schema/v1"))
    for answer in ("--approve-all", "--deny-all"):
        with tempfile.TemporaryDirectory() as place:
            project, home = Path(place, "project"), Path(place, "home")
            done = _run([program], answer, project, home)
            frames = list(_frames(done.stdout))
            schemas = Frames(folder / "schema.json"), Frames(folder / "schema.unstable.json")
            allowed = answer == "--approve-all"
            session = next((f["result"]["sessionId"] for _, f in frames if "sessionId" in f.get("result", {})), "")
            code = 0 if allowed else DENIED
            yield Check(f"{answer}: exit code", done.returncode == code, f"{done.returncode}; {done.stderr[-1500:]}")
            for name, wrong in (
                ("frames", list(problems(frames, *schemas))),
                ("one session for all", list(flat(frames, session))),
                ("cards of questions", list(asked_calls(frames))),
                ("what was written", [p for p in ("new.txt", "child.txt") if (project / p).exists() != allowed]),
                ("end", [] if '"stopReason":"end_turn"' in done.stdout else done.stdout[-500:]),
            ):
                yield Check(f"{answer}: {name}", not wrong, str(wrong)[:2000])


def _run(program: list[str], answer: str, project: Path, home: Path) -> subprocess.CompletedProcess[str]:
    project.mkdir()
    home.mkdir()
    child = {"name": "write_file", "arguments": {"path": "child.txt", "content": "new\n"}}
    turns = [{"text": "I write.", "calls": [WRITE]}, {"calls": [DELEGATE]}, {"text": "Done."}]
    agents = {"a": turns, "a.1": [{"calls": [child]}, {"text": "The child is done."}]}
    (home / "script.json").write_text(json.dumps({"agents": agents}))
    agent = f"{sys.executable} -m friday_cli acp -m scripted:{home / 'script.json'}"
    env = os.environ | {"FRIDAY_HOME": str(home), "HOME": str(home), "PYTHONPATH": str(PROJECT)}
    command = [*program, "--agent", agent, answer, "--format", "json", "exec", "Write it."]
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)


def _frames(stdout: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The frames that acpx printed, with their senders: it prints those of both, without saying whose they are."""
    for line in stdout.splitlines():
        frame = json.loads(line)
        agent = frame.get("method") in ("session/update", "session/request_permission", "$/cancel_request")
        answer = "method" not in frame and "outcome" not in frame.get("result", {})
        yield ("agent" if agent or answer else "client"), frame
