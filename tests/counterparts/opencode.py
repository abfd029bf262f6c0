"""OpenCode uses `friday mcp serve`, against a loopback model. It has no elicitation, so what is asked about is denied."""

from __future__ import annotations

import json
import shutil

from tests.counterparts.peer_model import peer_model
from tests.counterparts.served import STEPS, report, run, served

PACKAGES = ("opencode-ai",)


def main() -> int:
    """Run it; returns the exit code."""
    program = shutil.which("opencode")
    if program is None:
        print("  opencode is not on the PATH")
        return 1
    with served() as friday, peer_model(STEPS) as model:
        settings = {
            "provider": {
                "loop": {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": f"{model.url}/v1", "apiKey": "x"},
                    "models": {"m": {"name": "m"}},
                }
            },
            "model": "loop/m",
            "small_model": "loop/m",
            "share": "disabled",
            "autoupdate": False,
            "mcp": {"friday": {"type": "local", "command": friday.command, "environment": friday.env, "enabled": True}},
        }
        config = friday.home / "opencode.json"
        config.write_text(json.dumps(settings))
        folders = {
            f"XDG_{name}_HOME": str(friday.home / "opencode" / name) for name in ("DATA", "CONFIG", "STATE", "CACHE")
        }
        env = folders | {"OPENCODE_CONFIG": str(config), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        done = run([program, "run", "-m", "loop/m", "Use Friday's sub-agents."], cwd=friday.project, env=env)
        return report(list(friday.check(model, answered=False)), done)


if __name__ == "__main__":
    raise SystemExit(main())
