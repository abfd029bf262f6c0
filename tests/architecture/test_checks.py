"""The checks that are programs of their own: `pytest` runs them all, so one command runs every check."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
CHECKS = {
    "ruff format": ["ruff", "format", "--check", "."],
    "ruff": ["ruff", "check", "."],
    "mypy": ["mypy", *(["--cache-dir=/dev/null"] if "CI" in os.environ else [])],  # a fresh copy has no use for one
    "import-linter": ["lint-imports"],
}


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("check", CHECKS)
def test_is_clean(check: str) -> None:
    name, *args = CHECKS[check]
    program = Path(sys.executable).with_name(name)
    assert program.exists(), f"{name} is missing: install the dev extra"
    ran = subprocess.run(
        [str(program), *args],
        cwd=PROJECT,
        env={**os.environ, "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert ran.returncode == 0, f"{name} {' '.join(args)}\n{ran.stdout[-6000:]}{ran.stderr[-2000:]}"
