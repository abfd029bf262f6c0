"""Claude Code uses `friday mcp serve`, against a loopback model. A hook answers its elicitation in place of a person."""

from __future__ import annotations

import json
import shutil

from tests.counterparts.peer_model import peer_model
from tests.counterparts.served import STEPS, report, run, served

PACKAGES = ("@anthropic-ai/claude-code",)
ANSWER = {
    "hookSpecificOutput": {
        "hookEventName": "Elicitation",
        "action": "accept",
        "content": {"decision": "allow once"},
    }
}


def main() -> int:
    """Run it; returns the exit code."""
    program = shutil.which("claude")
    if program is None:
        print("  claude is not on the PATH")
        return 1
    with served() as friday, peer_model(STEPS) as model:
        answer = friday.home / "answer.json"
        answer.write_text(json.dumps(ANSWER))
        hooks = {"Elicitation": [{"hooks": [{"type": "command", "command": f"cat {answer}"}]}]}
        server = {"type": "stdio", "command": friday.command[0], "args": friday.command[1:], "env": friday.env}
        words = [
            program,
            "-p",
            "Use Friday's sub-agents.",
            "--output-format",
            "json",
            "--mcp-config",
            json.dumps({"mcpServers": {"friday": server}}),
            "--strict-mcp-config",
            "--settings",
            json.dumps({"hooks": hooks}),
            "--allowedTools",
            "mcp__friday",
        ]
        env = {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "x",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CONFIG_DIR": str(friday.home / "claude"),
            "IS_SANDBOX": "1",
            "ENABLE_TOOL_SEARCH": "false",
        }
        done = run(words, cwd=friday.project, env=env)
        return report(list(friday.check(model, answered=True)), done)


if __name__ == "__main__":
    raise SystemExit(main())
