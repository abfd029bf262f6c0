"""A project's server in the sandbox: what it may write, and what it cannot read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.server import ServerProgram

TRIES = """
for f in .git/hooks/pre-commit .envrc data/a out/a; do mkdir -p $(dirname $f); echo x > $f; done 2>/dev/null
cat .env 2>/dev/null; cat open.txt; echo x > "$TMPDIR/a" && cat "$TMPDIR/a"; echo end
"""


@pytest.mark.parametrize("writes", [(), ("out",)])
async def test_a_server_writes_only_what_its_entry_names_and_reads_no_secret_file(
    workspace: LocalWorkspace, root: Path, writes: tuple[str, ...]
) -> None:
    (root / ".env").write_text("KEY=canary\n")
    (root / "open.txt").write_text("read\n")
    for name in ("data", "out"):
        (root / name).mkdir()
    program = ServerProgram(
        ("sh", "-c", TRIES),
        {"PATH": os.environ["PATH"]},
        confined=True,
        network=True,
        writes=tuple(root / name for name in writes),
    )
    server = await workspace.serve(program, "mcp")
    said = b""
    async with asyncio.timeout(60):
        while data := await server.read():
            said += data
    await server.end()
    assert said.split() == [b"read", b"x", b"end"]
    assert _files(root) == sorted([".env", "open.txt", *(f"{name}/a" for name in writes)])


def _files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
