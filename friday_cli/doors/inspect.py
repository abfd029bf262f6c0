"""Friday as an agent of Inspect (https://inspect.aisi.org.uk): `friday ask` in a sample's sandbox, its model the one of the eval."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

from inspect_ai.agent import Agent, AgentState, agent, sandbox_agent_bridge
from inspect_ai.model import ModelOutput
from inspect_ai.util import sample_limits, sandbox, store

PORTS = itertools.cycle(range(13131, 15131))
"""Ports of the bridges, so that samples of a sandbox `local` do not meet."""
RESULTS = (0, 1, 4, 5)
"""Exit codes of `friday ask` that are about the agent's work; others are about usage, the model, the service, or Friday itself."""


@agent  # type: ignore[untyped-decorator]
def friday(*, flags: Sequence[str] = ("--mode", "auto"), program: str = "friday", window: int = 200_000) -> Agent:
    """Friday, which has to be installed in the sandbox. `flags` are those of `friday ask`: `--profile`, `--max-turns`, and so on. In a
    container that confines it anyway, `--yolo` lets it do everything. `window`: the context of the eval's model in tokens. All
    requests, those of sub-agents too, go to the model of the eval. Raises RuntimeError where Friday could not work."""

    async def execute(state: AgentState) -> AgentState:
        async with sandbox_agent_bridge(state, port=next(PORTS)) as bridge:
            config = f"[providers.inspect]\nbase_url = 'http://127.0.0.1:{bridge.port}/v1'\n"
            config += f"key_env = 'INSPECT_API_KEY'\nwindow = {window}\n"
            made = await sandbox().exec(["sh", "-c", 'file=$(mktemp) && cat > "$file" && echo "$file"'], input=config)
            if made.returncode:
                raise RuntimeError(f"the settings of Friday could not be written: {made.stderr.strip()[-1_000:]}")
            command = [program, "ask", "--output-format", "json", "--config", made.stdout.strip()]
            command += ["--model", "inspect/inspect", *flags]
            if (left := _seconds_left()) is not None:
                command += ["--timeout", f"{left:.0f}"]
            ran = await sandbox().exec([*command, "--", _task(state)], env={"INSPECT_API_KEY": "inspect"})
        if ran.returncode not in RESULTS or not ran.stdout.strip():
            raise RuntimeError(f"friday ask ended with exit code {ran.returncode}: {ran.stderr.strip()[-1_000:]}")
        document = json.loads(ran.stdout)
        if document["stop_reason"] == "provider":
            raise RuntimeError(f"the model of the eval failed: {document['error']}")
        store().set("friday", document)
        bridge.state.output = ModelOutput.from_content("inspect", str(document["result"] or ""))
        return bridge.state

    return execute


def _task(state: AgentState) -> str:
    return "\n\n".join(message.text for message in state.messages if message.role in ("system", "user"))


def _seconds_left() -> float | None:
    """The seconds that the sample may still use; None: no limit."""
    limits = sample_limits()
    left = [limit.remaining for limit in (limits.time, limits.working) if limit.remaining is not None]
    return max(1.0, min(left)) if left else None
