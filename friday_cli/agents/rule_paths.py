"""The files that the pattern of a rule names, on this machine."""

from __future__ import annotations

import os
import posixpath
import re


def path_readings(pattern: str, *, folder: str) -> tuple[str, ...]:
    """Other patterns that name the same files as `pattern`, for rules that must not be missed: absolute or from the home
    folder, with `..`, through links, and as Claude Code reads them (`/x` is x in the project, `//x` is /x). `folder`: that of
    the session, "" if unknown."""
    found: list[str] = []
    written = os.path.expanduser(pattern) if pattern.startswith("~/") else pattern
    for one in (written, written[1:]) if written.startswith("/") else (written,):
        start = re.search(r"[*?]", one)
        fixed = one if start is None else one[: start.start()].rpartition("/")[0]
        rest = one[len(fixed) :].lstrip("/")
        top = os.path.join(folder, fixed or ("/" if one.startswith("/") else ""))
        heads = (
            (posixpath.normpath(top), os.path.realpath(top))
            if os.path.isabs(top)
            else (posixpath.normpath(top or "."),)
        )
        names = [os.path.join(head, rest).rstrip("/") for head in heads]
        inside = [os.path.relpath(name, folder) for name in names if folder and _is_below(name, folder)]
        found += [name.removeprefix("./") for name in (*names, *inside)]
    return tuple(dict.fromkeys(one for one in found if one != pattern))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
