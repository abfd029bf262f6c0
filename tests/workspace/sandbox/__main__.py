"""`python -m tests.workspace.sandbox`: what each sandbox adds to the time of `true`."""

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

ROUNDS = 60


async def measure(kind: str, folder: Path) -> float:
    """Milliseconds of `true`, the median. Raises UsageError where the kind does not work."""
    choice = detect_sandbox(kind, os.environ)  # type: ignore[arg-type]
    workspace = LocalWorkspace(folder, sandbox=SandboxPolicy(choice, environ=os.environ))
    took = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        await workspace.run("true", agent="a", timeout_s=30, on_output=lambda text: None)
        took.append(time.perf_counter() - begun)
    await workspace.close()
    return statistics.median(took) * 1000


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        free = await measure("none", Path(name))
        print(f"none        {free:6.1f} ms")
        for kind in ("bubblewrap", "landlock", "seatbelt"):
            try:
                took = await measure(kind, Path(name))
            except UsageError as error:
                print(f"{kind:11} {error.message}")
                continue
            print(f"{kind:11} {took:6.1f} ms, {took / free:.1f} times")


if __name__ == "__main__":
    asyncio.run(main())
