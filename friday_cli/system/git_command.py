"""Runs `git` for a person's command: without programs that a repository names, without the network, and without objects that stand for
others."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from friday_cli.core.protocol.errors import PROCESS_LIMIT, FridayError, is_process_limit

from .own_programs import find_program
from .project_search import git_ceiling

_SETTINGS = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "diff.ignoreSubmodules=dirty")
OPTIONS = ("--no-pager", *(word for setting in _SETTINGS for word in ("-c", setting)))
"""Submodules have settings of their own, so git does not look whether their files have changed."""
ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",
}
"""With these git asks nobody and fetches no object that is missing, which starts programs that the repository names."""
_PROGRAMS = re.compile(
    r".*\.(?:clean|smudge|process|textconv|command|program|driver|helper|pager|editor|external|gitproxy|uploadpack|receivepack"
    r"|sshcommand|askpass|showsignature|defaultkeycommand|alternaterefscommand|cmd|difffilter)",
    re.I | re.S,
)
"""Names of settings whose values are programs, or that make git start one."""


def git(folder: Path, *words: str, stdin: bytes = b"") -> bytes:
    """The output of a git command in a folder. Raises FridayError if it fails."""
    ran = _run(folder, *words, stdin=stdin, env=_without_programs(folder))
    if ran.returncode:
        raise FridayError(f"git {words[0]} failed in {folder}: {ran.stderr.decode(errors='replace').strip()[:300]}")
    return ran.stdout


def _without_programs(folder: Path) -> dict[str, str]:
    """The variables that empty the settings of the repository around `folder` that name programs, such as `filter.x.clean`. Those of the
    person stay: they decide what a file of Git LFS is."""
    listed = _run(folder, "config", "--show-scope", "--includes", "-z", "--name-only", "--list").stdout
    words = iter(os.fsdecode(listed).split("\0"))
    own = {name for scope, name in zip(words, words, strict=False) if scope in ("local", "worktree")}
    values = {name: "" for name in own if _PROGRAMS.fullmatch(name)}
    values |= {name: "false" for name in own if name.startswith("filter.") and name.endswith(".required")}
    given = os.environ.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdecimal() else 0
    found = {"GIT_CONFIG_COUNT": str(first + len(values))}
    for number, (name, value) in enumerate(sorted(values.items()), first):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def _run(
    folder: Path, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    program = find_program("git", None, (folder,))
    if program is None:
        raise FridayError("git was not found.", hint="Install git; `friday doctor` says which programs are not used.")
    env = {**os.environ, **git_ceiling(folder), **ENVIRONMENT, **(env or {})}
    try:
        return subprocess.run(
            [program, *OPTIONS, *words], cwd=folder, env=env, input=stdin, capture_output=True, check=False
        )
    except OSError as error:
        said = f"git cannot be started: {error.strerror}."
        raise FridayError(PROCESS_LIMIT if is_process_limit(error) else said) from None
