"""The files that the pattern of a rule names, on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence


def path_readings(pattern: str, *, folders: Sequence[str]) -> tuple[str, ...]:
    """Other patterns that name the same files as `pattern`, for rules that must not be missed: absolute or from the home
    folder, with `..`, through links, and as Claude Code reads them (`/x` is x in the project, `//x` is /x). `folders`: the folder
    of the session, to which the names in calls are relative, and that of the project; () if unknown."""
    found: list[str] = []
    written = os.path.expanduser(pattern) if pattern.startswith("~/") else pattern
    for one in (written, written[1:]) if written.startswith("/") else (written,):
        start = re.search(r"[*?\[{]", one)
        fixed = one if start is None else one[: start.start()].rpartition("/")[0]
        rest = one[len(fixed) :].lstrip("/")
        for folder in folders:
            top = os.path.join(folder, fixed or ("/" if one.startswith("/") else ""))
            names = [os.path.join(head, rest).rstrip("/") for head in (os.path.normpath(top), os.path.realpath(top))]
            inside = [os.path.relpath(name, folders[0]) for name in names if _is_below(name, folders[0])]
            found += [*names, *inside]
    return tuple(dict.fromkeys(one for one in found if one != pattern))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
