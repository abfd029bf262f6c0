"""Runs `git` for a person's command, without programs that a repository names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from friday_cli.core.protocol.errors import FridayError

from .project_search import git_ceiling

OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")


def git(folder: Path, *words: str, stdin: bytes = b"") -> bytes:
    """The output of a git command in a folder. Raises FridayError if it fails."""
    argv = ["git", *OPTIONS, *words]
    env = {**os.environ, **git_ceiling(folder), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        ran = subprocess.run(argv, cwd=folder, env=env, input=stdin, capture_output=True, check=False)
    except OSError as error:
        raise FridayError(f"git cannot be started: {error.strerror}.") from None
    if ran.returncode:
        raise FridayError(f"git {words[0]} failed in {folder}: {ran.stderr.decode(errors='replace').strip()[:300]}")
    return ran.stdout
