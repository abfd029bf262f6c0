"""Random hooks and servers of a project, run for real: one that counts as checked runs only files whose hash trust has.
`FRIDAY_FUZZ=10` tries 1,000 of each."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from friday_cli.extensions.started_programs import ProgramText, is_unchecked, scripts_of
from tests.fuzz import programs, seeds

VARIANTS = 100 * seeds.TIMES


def files_that_ran(root: Path, argv: list[str]) -> set[str]:
    """The files of the project that a command ran: each writes its name."""
    env = {
        **os.environ,
        "CLAUDE_PROJECT_DIR": str(root),
        "FRIDAY_PROJECT_DIR": str(root),
        "SHELL": "/bin/sh",
        "EDITOR": "true",
    }
    subprocess.run(argv, cwd=root, env=env, input="{}\n", capture_output=True, text=True, timeout=20, check=False)
    ran = set()
    for witness in (root / "witness", root / "sub/witness", root.parent / "witness"):
        if witness.exists():
            ran |= set(witness.read_text().split("\n")) - {""}
            witness.unlink()
    return ran


@pytest.mark.parametrize("server", [False, True], ids=["hooks", "servers"])
def test_a_program_that_counts_as_checked_runs_only_files_with_a_hash(tmp_path: Path, server: bool) -> None:
    fresh, root = tmp_path / "fresh", tmp_path / "project"
    programs.build(fresh)
    shutil.copytree(fresh, root, symlinks=True)
    first = seeds.first()
    bad, checked = [], 0
    for seed in range(first, first + VARIANTS):
        rng = random.Random(seed)
        argv = programs.arguments(rng, root) if server else ["bash", "-c", programs.command(rng, root)]
        text = ProgramText(argv[0], argv[1:]) if server else ProgramText(argv[2])
        if is_unchecked(text, root):
            continue
        checked += 1
        hashed = {os.path.realpath(root / name) for name, _ in scripts_of(text, root, {})}
        try:
            ran = files_that_ran(root, argv)
        except (OSError, subprocess.TimeoutExpired):
            ran = set()
        if more := sorted(
            name for name in ran if os.path.realpath(fresh / name).replace("fresh", "project") not in hashed
        ):
            bad.append((seed, argv[-1] if not server else argv, more))
        shutil.rmtree(root)
        shutil.copytree(fresh, root, symlinks=True)
    assert bad == []
    assert checked > VARIANTS / 50
