"""How a person who reached this machine with `--host` names it."""

from __future__ import annotations

import os
import shlex

REACHED_AS = "FRIDAY_REACHED_AS"
"""The variable in which the other machine's Friday says by which name it reached this one."""


def starts_one() -> str:
    """How a person begins a session on this machine from where they are."""
    return by_ssh(f'{"cd FOLDER && " * (REACHED_AS in os.environ)}friday ask -b "TASK"')


def by_ssh(command: str) -> str:
    """A command that has no `--host`, as the person has to type it where they are."""
    host = os.environ.get(REACHED_AS, "")
    return f"ssh {shlex.quote(host)} {shlex.quote(command)}" if host else command


def typed(command: str) -> str:
    """A command of `friday agents` or `friday attach`, as the person has to type it where they are."""
    host = os.environ.get(REACHED_AS, "")
    return f"{command} --host {shlex.quote(host)}" if host else command
