"""`friday acp --config`: the settings of every session that an editor opens."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.cli.console import Console


def _answers(console: Console, *argv: str) -> list[dict[str, Any]]:
    calls = [
        ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
        ("session/new", {"cwd": str(console.project), "mcpServers": []}),
    ]
    rows = [{"jsonrpc": "2.0", "id": n, "method": name, "params": given} for n, (name, given) in enumerate(calls)]
    program = [sys.executable, "-m", "friday_cli", "acp", *argv]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=console.project, env=console.env
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        found: list[dict[str, Any]] = []
        for row in rows:
            running.stdin.write(json.dumps(row).encode() + b"\n")
            running.stdin.flush()
            while len(found) <= row["id"]:
                frame = json.loads(running.stdout.readline())
                found += [frame] if "id" in frame and "method" not in frame else []
        running.stdin.close()
    assert running.returncode == 0
    return found


def test_the_settings_of_a_file_hold_for_its_sessions(console: Console) -> None:
    file = console.project.parent / "other.toml"
    file.write_text('model = "demo"\nmode = "plan"\n', encoding="utf-8")
    opened = _answers(console, "--config", str(file))[-1]["result"]
    values = {row["id"]: row["currentValue"] for row in opened["configOptions"]}
    assert (values["mode"], values["model"]) == ("plan", "demo/demo")


def test_a_file_that_is_not_there_is_named(console: Console) -> None:
    answer = _answers(console, "--config", "nowhere.toml")[-1]
    assert "nowhere.toml" in answer["error"]["message"]
