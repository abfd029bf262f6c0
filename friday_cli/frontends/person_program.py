"""Starts a program that the person's settings name (`notify.command`, `tui.status_command`). It runs with the person's rights, without a
sandbox, so it is never one that agents can change."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from friday_cli.core.permissions.runs_later import is_protected
from friday_cli.system.project_search import nearest_repository

_SIGNS = re.compile(r"[\s;&|()<>`'\"=]+")
"""What stands between the names in a word with text for a shell."""


async def start(command: Sequence[str], folder: Path, **streams: Any) -> asyncio.subprocess.Process:
    """Start `command` for a session in `folder`, with `streams` as for `asyncio.create_subprocess_exec`. It runs in `/` with no folder
    of the project on PATH, so a relative name is not a file of the project, and it gets no keys. Raises OSError, also for a name of a file
    in the project, unless agents are asked about that in every mode."""
    from friday_cli.workspace.process.environment import cleaned  # only with such a program

    project = await asyncio.to_thread(_project, folder)
    if named := await asyncio.to_thread(_in_project, command, project):
        raise OSError(errno.EPERM, f"{named} is in the folder where agents work, so it is not run: put it elsewhere")
    path = [
        one
        for one in os.environ.get("PATH", os.defpath).split(os.pathsep)
        if os.path.isabs(one) and not _is_below(one, project)
    ]
    env = {**cleaned(os.environ), "PATH": os.pathsep.join(path), "PWD": "/"}
    env.pop("OLDPWD", None)
    return await asyncio.create_subprocess_exec(*command, cwd="/", env=env, start_new_session=True, **streams)


def _project(folder: Path) -> str:
    real = Path(os.path.realpath(folder))
    return str(nearest_repository(real) or real)


def _in_project(command: Sequence[str], project: str) -> str:
    """The first word that names a file of the project, "" for none."""
    for name in (name for word in command for name in (word, *_SIGNS.split(word))):
        if os.path.isabs(name) and os.path.isfile(name) and _is_below(name, project):
            inside = os.path.relpath(os.path.realpath(name), project)
            if not is_protected(inside) or inside.startswith(".."):
                return name
    return ""


def _is_below(path: str, project: str) -> bool:
    real = f"{os.path.realpath(path)}/"
    return real.startswith(f"{project.rstrip('/')}/") or os.path.normpath(path).startswith(f"{project.rstrip('/')}/")
