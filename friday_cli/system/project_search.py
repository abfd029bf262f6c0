"""Where the project of a folder is looked for: in the folder and its parents, up to one that other users control.

What a project brings (settings, servers, instructions, git's settings) steers Friday. So the search stops below a folder that
another user owns or others can write, unless the person's own git setting `safe.directory` names the repository
(https://git-scm.com/docs/git-config#Documentation/git-config.txt-safedirectory).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from . import git_settings

CEILINGS = "GIT_CEILING_DIRECTORIES"
"""The environment variable of git with folders, separated by colons, which a search that begins below them does not enter."""


def folders_up(folder: Path) -> Iterator[Path]:
    """`folder` (links resolved) and its parents, the nearest first, up to the first that `CEILINGS` names."""
    ceilings = [
        os.path.realpath(name) for name in os.environ.get(CEILINGS, "").split(os.pathsep) if os.path.isabs(name)
    ]
    yield folder
    for parent in folder.parents:
        if str(parent) in ceilings:
            return
        yield parent


def nearest_repository(folder: Path) -> Path | None:
    """The nearest folder with `.git` around `folder` (links resolved), whoever controls it; None without one."""
    return next((one for one in folders_up(folder) if os.path.lexists(one / ".git")), None)


def repository_top(folder: Path) -> Path | None:
    """The top of the repository of `folder` (links resolved): the nearest folder with `.git`. None if there is none, or if others
    control a folder on the way to it. `folder` itself always counts."""
    top = nearest_repository(folder)
    return None if top is None or _stopped_at(folder, top) else top


def left_out(folder: Path) -> str:
    """One line for the person if a repository around `folder` (links resolved) is not its project, because others control a
    folder on the way; "" otherwise."""
    top = nearest_repository(folder)
    if top is None or (stop := _stopped_at(folder, top)) is None:
        return ""
    line = f"{top} is not the project of {folder}: {_control(stop)}."
    return line if _is_sticky(stop) else f"{line} To use it: git config --global --add safe.directory {top}"


def git_ceiling(folder: Path) -> dict[str, str]:
    """The variables with which git, started in `folder` (links resolved), finds no repository that is left out here."""
    top = nearest_repository(folder)
    stop = _stopped_at(folder, top) if top else None
    ceilings = f"{os.environ.get(CEILINGS, '')}{os.pathsep}{stop or ''}".strip(os.pathsep)
    return {CEILINGS: ceilings} if ceilings else {}


def _stopped_at(folder: Path, top: Path) -> Path | None:
    """The folder above `folder`, up to `top`, at which the search stops; None if it reaches `top`."""
    if folder == top:
        return None
    above = [one for one in folder.parents if one.is_relative_to(top)]
    controlled = [one for one in above if _control(one)]
    if controlled and _is_safe(top):
        controlled = [one for one in controlled if _is_sticky(one)]
    return controlled[0] if controlled else None


def _control(folder: Path) -> str:
    """Who else controls a folder, as text; "" if nobody does but the person and root."""
    try:
        facts = folder.stat()
    except OSError as error:
        return f"{folder} cannot be read ({error.strerror})"
    persons = {os.geteuid()}
    if os.geteuid() == 0 and (sudo := os.environ.get("SUDO_UID", "")).isdecimal():
        persons.add(int(sudo))
    if facts.st_uid not in persons | {0}:
        return f"{_user(facts.st_uid)} owns {folder}"
    if facts.st_mode & stat.S_IWOTH:
        return f"every user can write to {folder}"
    if facts.st_mode & stat.S_IWGRP and facts.st_gid != 0 and (group := _shared_group(facts.st_gid, persons)):
        return f"the group {group} can write to {folder}"
    return ""


def _user(uid: int) -> str:
    import pwd  # here and below: hardly ever needed

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _shared_group(gid: int, persons: set[int]) -> str:
    """The name of a group that is not the private group of one of `persons`: named as that person, without other members."""
    import grp

    names = {_user(uid) for uid in persons}
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return "" if gid in persons else str(gid)
    return "" if group.gr_name in names and names.issuperset(group.gr_mem) else group.gr_name


def _is_sticky(folder: Path) -> bool:
    """Whether a folder is one for temporary files of all users. It never brings a project."""
    mode = folder.stat().st_mode
    return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)


def _is_safe(top: Path) -> bool:
    """Whether git's own settings of the person, or of the machine, name `top` in `safe.directory`."""
    safe: list[str] = []
    for file in git_settings.personal_files():
        for value in git_settings.values(file, "safe.directory"):
            safe = [*safe, value] if value else []  # an empty one resets the list
    return any(
        value == "*"
        or os.path.realpath(os.path.expanduser(value)) == str(top)
        or (value.endswith("/*") and top.is_relative_to(os.path.realpath(os.path.expanduser(value[:-2]))))
        for value in safe
    )
