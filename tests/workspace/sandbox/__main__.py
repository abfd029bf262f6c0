"""`python -m tests.workspace.sandbox`: the time of `true` with each sandbox."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from friday_cli.core.protocol.errors import UsageError
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox.detect import detect_sandbox
from friday_cli.workspace.sandbox.policy import SandboxPolicy
from tests.workspace.commands import run

ROUNDS = 60


async def measure(kind: str, folder: Path) -> float:
    """Median time of `true` in milliseconds. Raises UsageError if the kind does not work."""
    sandbox = SandboxPolicy(detect_sandbox(kind, os.environ), environ=os.environ)  # type: ignore[arg-type]
    workspace = LocalWorkspace(folder, sandbox=sandbox)
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await run(workspace, "true")
        times.append(time.perf_counter() - started)
    await workspace.close()
    return statistics.median(times) * 1000


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for kind in ("none", "bubblewrap", "landlock", "seatbelt"):
            try:
                print(f"{kind:11} {await measure(kind, Path(name)):6.1f} ms")
            except UsageError as error:
                print(f"{kind:11} {error.message}")


asyncio.run(main())
