"""`python -m tests.workspace.sandbox`: the time of `true` with each sandbox, and for read-only commands."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from friday_cli.config.settings import SandboxSettings
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.workspace import Access
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox.detect import detect_sandbox
from friday_cli.workspace.sandbox.policy import SandboxPolicy
from tests.workspace.commands import run

ROUNDS = 60


async def measure(kind: str, folder: Path) -> tuple[float, ...]:
    """Median times of `true` in milliseconds: as usual, and read-only. Raises UsageError if the kind does not work."""
    sandbox = SandboxPolicy(detect_sandbox(kind, os.environ), SandboxSettings(), environ=os.environ)  # type: ignore[arg-type]
    workspace = LocalWorkspace(folder, CommandHost(sandbox=sandbox))
    accesses: tuple[Access, ...] = ("", "read_only")
    times: dict[str, list[float]] = {access: [] for access in accesses}
    for number in range(ROUNDS):
        for access in accesses if number % 2 else reversed(accesses):
            started = time.perf_counter()
            await run(workspace, "true", access=access)
            times[access].append(time.perf_counter() - started)
    await workspace.close()
    return tuple(statistics.median(times[access]) * 1000 for access in accesses)


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for kind in ("none", "bubblewrap", "landlock", "seatbelt"):
            try:
                usual, looking = await measure(kind, Path(name))
                print(f"{kind:11} {usual:6.1f} ms, read-only {looking:6.1f} ms")
            except UsageError as error:
                print(f"{kind:11} {error.message}")


asyncio.run(main())
