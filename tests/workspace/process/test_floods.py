"""Long output takes little memory, judged by the peak size of the process."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, sys
from pathlib import Path
from friday_cli.workspace.local import LocalWorkspace

def peak_kb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

async def main():
    workspace = LocalWorkspace(Path(sys.argv[1]))
    await workspace.run("seq 100000", agent="a", timeout_s=60, on_output=lambda text: None)
    before = peak_kb()
    ran = await workspace.run(sys.argv[2], agent="a", timeout_s=60, on_output=lambda text: None)
    print(peak_kb() - before, len(ran.output), ran.exit_code)
    await workspace.close()

asyncio.run(main())
"""
FLOODS = {
    "one line": "head -c 200000000 /dev/zero | tr '\\0' x",
    "NUL bytes": "head -c 200000000 /dev/zero",
    "noise": "head -c 50000000 /dev/urandom",
    "lines": "yes 'a line of words' | head -c 100000000",
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("flood", FLOODS)
async def test_q14_a_flood_takes_less_than_50_mb(root: Path, flood: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        str(root),
        FLOODS[flood],
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    out, _ = await process.communicate()
    grown, shown, code = map(int, out.split())
    assert code == 0
    assert 0 < shown < 40_000
    assert grown < 50_000, f"{grown} kB more"
