"""The folder with the login of a program, which the program can write: what in it can run code when the person starts that program, and
whether that changed."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path

from friday_cli.core.text.sanitize import sanitize_line

PLACES = (
    "settings.json", "settings.local.json", "config.toml", "hooks.json", "CLAUDE.md", "AGENTS.md", "AGENTS.override.md",
    "hooks", "agents", "commands", "skills", "plugins", "prompts", "rules", "output-styles",
)  # fmt: skip
"""Files and folders of it with settings, servers, hooks and instructions."""
MIXED = ".claude.json"
"""A file that changes in each run, and has the servers of the person too."""
FILES, BYTES = 20_000, 1024 * 1024
"""Files that are compared, and the size in bytes up to which they are read."""
NAMED = 10
"""Changed files that a warning names."""


class LoginFolder:
    """Such a folder as it is before a run. `fixed` is what the program must not change, as far as the sandbox can prevent that: a path
    that does not exist cannot be made read-only. Blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fixed = tuple(place for name in PLACES if (place := path / name).exists())
        self._before = _marks(path)

    def warnings(self, program: str) -> list[str]:
        """What changed in it while `program` ran, in a sentence. Blocks."""
        after = _marks(self.path)
        names = sorted(name for name in self._before.keys() | after.keys() if self._before.get(name) != after.get(name))
        if not names:
            return []
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        shown = ", ".join(sanitize_line(name, 100) for name in names[:NAMED]) + more
        return [f"{shown} changed in {self.path} while {program} ran, and may run code at its next start: check it"]


def _marks(folder: Path) -> dict[str, str]:
    """What tells whether the files changed, by their names in the folder. No link is followed below it."""
    found: dict[str, str] = {}
    for name in PLACES:
        _walk(str(folder), name, found)
    if servers := _servers(str(folder / MIXED)):
        found[MIXED] = servers
    return found


def _walk(folder: str, name: str, found: dict[str, str]) -> None:
    path = os.path.join(folder, name)
    if len(found) >= FILES:
        return
    try:
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            for below in sorted(os.listdir(path)):
                _walk(folder, f"{name}/{below}", found)
        elif stat.S_ISLNK(status.st_mode):
            found[name] = f"link {os.readlink(path)}"
        elif stat.S_ISREG(status.st_mode) and status.st_size <= BYTES:
            found[name] = f"{status.st_mode} {hashlib.sha256(_content(path)).hexdigest()}"
        else:
            found[name] = f"{status.st_mode} {status.st_size} {status.st_ctime_ns} {status.st_ino}"
    except FileNotFoundError:
        return
    except OSError as error:
        found[name] = f"unreadable {error.errno}"


def _content(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        return file.read(BYTES + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""


def _servers(path: str) -> str:
    """The servers that a file of settings and figures names, for the person and by project; "" for none."""
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            return f"{status.st_mode}"
        document = json.loads(_content(path))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, RecursionError) as error:
        return type(error).__name__
    if not isinstance(document, dict):
        return ""
    projects = document.get("projects")
    projects = projects if isinstance(projects, dict) else {}
    rows = [("", document), *projects.items()]
    named = {key: row["mcpServers"] for key, row in rows if isinstance(row, dict) and row.get("mcpServers")}
    return json.dumps(named, sort_keys=True) if named else ""
