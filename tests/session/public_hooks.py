"""`python -m tests.session.public_hooks FOLDER`: runs two public hooks for Claude Code, unchanged.

FOLDER is a copy of the repository anthropics/claude-code: its example bash_command_validator_example.py and its plugin
hookify. Nothing here is part of the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[2]
COMMANDS = {
    "grep -r x .": "denied", "find . -name x": "denied", "rm -rf build": "denied", "echo one": "ok", "ls | grep x": "error",
}  # fmt: skip
"""A command and how its call ends: the validator denies the first two, hookify the third."""


def main(folder: Path) -> int:
    """Run all commands in one session. The exit code is 1 if one does not end as it should."""
    plugin = folder / "plugins/hookify"
    validator = f"python3 {folder}/examples/hooks/bash_command_validator_example.py"
    hookify = f"CLAUDE_PLUGIN_ROOT={plugin} python3 {plugin}/hooks/pretooluse.py"
    groups = [
        {"matcher": name, "hooks": [{"type": "command", "command": command}]}
        for name, command in (("Bash", validator), ("", hookify))
    ]
    with tempfile.TemporaryDirectory() as top:
        home, project = Path(top, "home"), Path(top, "project")
        (project / ".claude").mkdir(parents=True)
        home.mkdir()
        rule = (plugin / "examples/dangerous-rm.local.md").read_text(encoding="utf-8")
        (project / ".claude/hookify.rm.local.md").write_text(rule, encoding="utf-8")
        (home / "hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": groups}}), encoding="utf-8")
        calls = [{"name": "bash", "arguments": {"command": command}} for command in COMMANDS]
        play = Path(top, "play.yaml")
        play.write_text(json.dumps({"agents": {"a": [{"calls": calls}, {"text": "done"}]}}), encoding="utf-8")
        words = ["ask", "-m", f"scripted:{play}", "--yolo", "--output-format", "stream-json", "go"]
        ran = subprocess.run(
            [sys.executable, "-m", "friday_cli", *words], cwd=project, capture_output=True, text=True,
            env={**os.environ, "FRIDAY_HOME": str(home), "PYTHONPATH": str(PROJECT)}, timeout=120,
        )  # fmt: skip
    events = [json.loads(line).get("event", {}) for line in ran.stdout.splitlines()]
    ends = [event["status"] for event in events if event.get("kind") == "tool_finished"]
    for event in events:
        if event.get("kind") == "hook_ran":
            print(
                f"{event.get('decision', 'nothing'):8} {event.get('ms', 0):6.1f} ms  {event['hook'][-60:]}  {event.get('problem', '')}"
            )
    for command, wanted, found in zip(COMMANDS, COMMANDS.values(), ends, strict=True):
        print(f"{'as wanted' if wanted == found else 'DIFFERENT'}: {command}: {found}")
    return int(ends != list(COMMANDS.values()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
