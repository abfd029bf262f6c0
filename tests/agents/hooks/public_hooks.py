"""`python -m tests.agents.hooks.public_hooks FOLDER`: runs two public hooks for Claude Code, unchanged.

FOLDER is a copy of the repository anthropics/claude-code: its example bash_command_validator_example.py and its plugin
hookify. If `claude` is on the PATH, it makes the same calls, and its hooks must decide alike and read the same keys.
Nothing here is part of the tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.agents.hooks.hook_files import Recorder
from tests.agents.hooks.test_hook_contract import differences
from tests.counterparts.peer_model import PeerModel, peer_model

PROJECT = Path(__file__).parents[3]
COMMANDS = {
    "grep -r x .": "denied", "find . -name x": "denied", "rm -rf build": "denied", "echo one": "ok", "ls -a | grep claude": "ok",
}  # fmt: skip
"""A command and how its call ends: the validator denies the first two, hookify the third."""
EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolBatch",
    "Stop",
    "SessionEnd",
)
Ran = tuple[list[str], list[dict[str, Any]]]
"""How each call ended, and the inputs of the hooks."""


def main(folder: Path) -> int:
    """Run all commands in one session. The exit code is 1 if one does not end as it should, or differs from Claude Code."""
    with tempfile.TemporaryDirectory() as top:
        ends, inputs = run(folder, Path(top, "friday"), with_friday)
        for command, wanted, found in zip(COMMANDS, COMMANDS.values(), ends, strict=True):
            print(f"{'as wanted' if wanted == found else 'DIFFERENT'}: {command}: {found}")
        if shutil.which("claude") is None:
            print("claude is not on the PATH, so nothing is compared with it")
            return int(ends != list(COMMANDS.values()))
        its_ends, its_inputs = run(folder, Path(top, "claude"), with_claude)
    print(f"Claude Code: {', '.join(its_ends)}")
    lacking = []
    for event in EVENTS:
        its, ours = ([one for one in rows if one["hook_event_name"] == event] for rows in (its_inputs, inputs))
        print(f"{event}: {len(its)} there, {len(ours)} here")
        lacking += [f"{event}{line}" for line in differences(types(its[0]), ours[0] if ours else {})]
        lacking += [f"{event}: it fires another number of times"] if len(its) != len(ours) else []
    print("\n".join(lacking) or "no key is missing, and none has another type")
    return int(bool(lacking) or not ends == its_ends == list(COMMANDS.values()))


def run(folder: Path, top: Path, program: Any) -> Ran:
    """The calls of one program with the two hooks, and a recorder of every event."""
    project = top / "project"
    (project / ".claude").mkdir(parents=True)
    plugin, recorder = folder / "plugins/hookify", Recorder(top / "inputs")
    rule = (plugin / "examples/dangerous-rm.local.md").read_text(encoding="utf-8")
    (project / ".claude/hookify.rm.local.md").write_text(rule, encoding="utf-8")
    hooks = recorder.hooks(*EVENTS)
    for name, command in (
        ("Bash", f"python3 {folder}/examples/hooks/bash_command_validator_example.py"),
        ("", f"CLAUDE_PLUGIN_ROOT={plugin} python3 {plugin}/hooks/pretooluse.py"),
    ):
        hooks["PreToolUse"].append({"matcher": name, "hooks": [{"type": "command", "command": command}]})
    return program(top, project, hooks), recorder.inputs()


def with_friday(top: Path, project: Path, hooks: Any) -> list[str]:
    """How the calls end here."""
    (top / "hooks.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    calls = [{"calls": [{"name": "bash", "arguments": {"command": command}}]} for command in COMMANDS]
    play = top / "play.yaml"
    play.write_text(json.dumps({"agents": {"a": [*calls, {"text": "done"}]}}), encoding="utf-8")
    words = ["ask", "-m", f"scripted:{play}", "--yolo", "--output-format", "stream-json", "go"]
    ran = subprocess.run(
        [sys.executable, "-m", "friday_cli", *words],
        cwd=project,
        capture_output=True,
        text=True,
        env={**os.environ, "FRIDAY_HOME": str(top), "PYTHONPATH": str(PROJECT)},
        timeout=120,
    )
    events = [json.loads(line).get("event", {}) for line in ran.stdout.splitlines()]
    return [event["status"] for event in events if event.get("kind") == "tool_finished"]


def with_claude(top: Path, project: Path, hooks: Any) -> list[str]:
    """How the calls end in Claude Code."""
    blocks: list[dict[str, Any]] = []

    def reply(self: PeerModel, body: dict[str, Any]) -> tuple[str, tuple[str, dict[str, Any]] | None]:
        if "Bash" not in [tool.get("name") for tool in body.get("tools") or ()]:
            return "ok", None
        parts = [part for m in body["messages"] if isinstance(m["content"], list) for part in m["content"]]
        blocks[:] = [part for part in parts if part.get("type") == "tool_result"]
        left = list(COMMANDS)[len(blocks) :]
        return ("", ("Bash", {"command": left[0]})) if left else ("done", None)

    with peer_model(()) as model:
        model.reply = reply.__get__(model)  # type: ignore[method-assign]
        env = {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "x",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CONFIG_DIR": str(top / "config"),
            "IS_SANDBOX": "1",
        }
        words = ["claude", "-p", "go", "--settings", json.dumps({"hooks": hooks}), "--allowedTools", "Bash"]
        subprocess.run(
            words, cwd=project, env=os.environ | env, capture_output=True, timeout=120, stdin=subprocess.DEVNULL
        )
    ends = {True: "denied", False: "error"}
    return [ends["hook error" in str(block["content"])] if block.get("is_error") else "ok" for block in blocks]


def types(value: Any) -> Any:
    """The types of the values of an input."""
    if isinstance(value, dict):
        return {key: types(one) for key, one in value.items()}
    return [types(value[0])] if isinstance(value, list) and value else type(value)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
