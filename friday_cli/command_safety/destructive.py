"""Detects destructive commands: they need approval in every mode."""

from __future__ import annotations

import re
from collections.abc import Iterable

from . import git

_SYSTEM = re.compile(
    r"(?:/|/\*|~|~/|~/\*|\*|\.|\./|\.\.|\.\./.*|\./\*|/(?:bin|boot|dev|etc|home|lib\w*|opt|proc|root|sbin|srv|sys|usr|var|tmp|Users|System|Library)(?:/\*?|/[^/]+/?)?|(?:\./)?\.git(?:/.*)?)",
    re.S,
)
_DISK = re.compile(r">\s*/dev/(?:sd|nvme|hd|vd|disk)")
_FORK_BOMB = re.compile(r":\s*\(\s*\)\s*\{.*\|.*&")
_MACHINE = frozenset(("shutdown", "reboot", "halt", "poweroff", "wipefs", "fdisk", "parted"))


def reason(text: str, commands: Iterable[str] = ()) -> str:
    """Why shell text is destructive, or "". `commands`: its simple commands, unquoted words separated by blanks."""
    if found := next(filter(None, map(_of_command, commands)), ""):
        return found
    if _DISK.search(text):
        return "writes to a disk device"
    return "a fork bomb" if _FORK_BOMB.search(text) else ""


def _of_command(command: str) -> str:
    words = command.split()
    if not words:
        return ""
    name, flags = words[0], [w for w in words[1:] if w.startswith("-")]
    operands = [w for w in words[1:] if not w.startswith("-")]
    short = "".join(f[1:] for f in flags if not f.startswith("--"))
    if name == "rm" and ("r" in short.lower() or "--recursive" in flags):
        if not operands:
            return "recursive delete of files that are not named"
        if bad := next((o for o in operands if "$" in o or o.startswith(("/", "~")) or _SYSTEM.fullmatch(o)), None):
            return f"recursive delete of {bad}"
    if name == "find" and ("-delete" in words or "rm" in words):
        top = words[1] if not words[1].startswith("-") else "."
        if _SYSTEM.fullmatch(top) or top.startswith(("/", "~", "$")):
            return f"recursive delete below {top}"
    if name == "git" and git.without_global_options(words)[1:2] == ["clean"] and ("f" in short or "--force" in flags):
        return "git clean deletes untracked files"
    if name.startswith("mkfs") or name in _MACHINE:
        return f"{name} affects the whole machine"
    if name == "dd" and any(o.startswith("of=/dev/") for o in operands):
        return "dd writes to a device"
    recursive = "R" in short or "--recursive" in flags
    if name in ("chmod", "chown") and recursive and any(map(_SYSTEM.fullmatch, operands)):
        return f"recursive {name} of a system folder"
    return ""
