"""Detects destructive commands: they need approval in every mode."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterable

from friday_cli.core.text.lazy_regex import pattern

from . import git

_SYSTEM = pattern(
    r"(?:/|/\*|~|~/|~/\*|(?:\./)?[.?*]*\*|\.|\./|\.\.|\.\./.*|/(?:bin|boot|dev|etc|home|lib\w*|opt|proc|root|sbin|srv|sys|usr|var|tmp|Users|System|Library)(?:/\*?|/[^/]+/?)?|(?:\./)?\.git(?:/.*)?)",
    re.S,
)
_DISK = pattern(r">\s*/dev/(?:sd|nvme|hd|vd|disk)")
_HOME_OR_SYSTEM = pattern(
    r"(?:/|~|\$HOME|\$\{HOME\}|/(?:bin|boot|dev|etc|home|lib\w*|opt|proc|root|sbin|srv|sys|usr|var|Users|System|Library)"
    r"|/(?:home|Users)/[^/]+)(?:/|/\*)?|(?:\./)?\.git/?|/\*"
)
_WORD = r"[^\s;{}()&|]"
_FUNCTION = pattern(rf"(?<!{_WORD})({_WORD}{{1,50}})\s{{0,9}}\(\s{{0,9}}\)|\bfunction\s{{1,9}}({_WORD}{{1,50}})")
_MAX_FUNCTIONS, _MAX_BODY = 50, 1_000
"""Functions of a text that are examined, and characters of each."""
_MACHINE = frozenset((
    "shutdown", "reboot", "halt", "poweroff", "wipefs", "fdisk", "parted", "sfdisk", "sgdisk", "gdisk", "mke2fs", "mkswap", "blkdiscard",
    "cryptsetup", "killall5",
))  # fmt: skip
_STOPS = pattern(r"(?:systemctl(?: -\S+)* (?:poweroff|reboot|halt|kexec|emergency|rescue)|(?:tel)?init [016])\b")
_WRITERS = frozenset(("tee", "cp", "mv", "shred", "truncate", "install", "hdparm", "badblocks"))
_DEVICE = pattern(r"/dev/(?:sd|nvme|hd|vd|disk|mmcblk)")


def reason(text: str, commands: Iterable[str] = ()) -> str:
    """Why shell text is destructive, or "". `commands`: its simple commands, unquoted words separated by blanks."""
    if found := next(filter(None, map(_of_command, commands)), ""):
        return found
    if _DISK().search(text):
        return "writes to a disk device"
    return fork_bomb(text)


def fork_bomb(text: str) -> str:
    """Why shell text may be a fork bomb: a function of it starts processes in which it is called again; "" if not."""
    text = re.sub(r"['\"\\]", "", text)
    bodies: dict[str, str] = {}
    for found in itertools.islice(_FUNCTION().finditer(text), _MAX_FUNCTIONS):
        name = found[1] or found[2]
        bodies[name] = (_body(text[found.end() : found.end() + _MAX_BODY]) + bodies.get(name, ""))[: 2 * _MAX_BODY]
    calls = {name: {n for n in re.findall(rf"{_WORD}+", body) if n in bodies} for name, body in bodies.items()}
    for name, body in bodies.items():
        for other in calls[name]:
            word = rf"(?<!{_WORD}){re.escape(other)}(?!{_WORD})"
            spawns = re.search(rf"{word}[^;\n&|{{}}]*(?:\|(?!\|)|&(?![&>]))|(?<!\|)\|&?\s*{word}", body)
            if spawns and name in _reachable(other, calls):
                return "a fork bomb"
    return ""


def _body(text: str) -> str:
    """The body of a function, at the start of `text`."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char in "{(") - (char in "})")
        if depth == 0 and char in "})":
            return text[:at]
    return text


def _reachable(name: str, calls: dict[str, set[str]]) -> set[str]:
    """The functions that are called when `name` is, with itself."""
    found, left = {name}, [name]
    while left:
        new = calls[left.pop()] - found
        found |= new
        left += new
    return found


def _has(flags: Iterable[str], option: str) -> bool:
    """Whether a long option is among `flags`, perhaps abbreviated."""
    return any(len(flag) > 2 and option.startswith(flag) for flag in flags)


def _is_system(path: str) -> bool:
    """Whether a path is the current folder, one above it, a home or a folder of the system."""
    return any(map(_SYSTEM().fullmatch, (path, posixpath.normpath(path))))


def _of_command(command: str) -> str:
    words = command.split()
    if not words:
        return ""
    name, flags = words[0], [w for w in words[1:] if w.startswith("-")]
    operands = [w for w in words[1:] if not w.startswith("-")]
    short = "".join(f[1:] for f in flags if not f.startswith("--"))
    if name == "rm" and ("r" in short.lower() or _has(flags, "--recursive")):
        if not operands:
            return "recursive delete of files that are not named"
        if bad := next((o for o in operands if "$" in o or o.startswith(("/", "~")) or _is_system(o)), None):
            return f"recursive delete of {bad}"
    if name == "mv" and len(operands) > 1:
        if bad := next((o for o in operands if _HOME_OR_SYSTEM().fullmatch(posixpath.normpath(o))), None):
            return f"mv of {bad}"
        if "/dev/null" in operands:
            return "mv to /dev/null"
    if name == "find" and ("-delete" in words or "rm" in words):
        top = words[1] if not words[1].startswith("-") else "."
        if _is_system(top) or top.startswith(("/", "~", "$")):
            return f"recursive delete below {top}"
    forced = "f" in short or _has(flags, "--force") or "requireforce" in command.lower()
    if name == "git" and git.without_global_options(words)[1:2] == ["clean"] and forced:
        return "git clean deletes untracked files"
    if name.startswith("mkfs") or name in _MACHINE or _STOPS().match(command):
        return f"{name} affects the whole machine"
    if name == "kill" and len(words) > 2 and words[-1] == "-1":
        return "kill -1 ends all your processes"
    if name == "dd" and any(o.startswith("of=/dev/") for o in operands):
        return "dd writes to a device"
    if name in _WRITERS and any(map(_DEVICE().match, operands)):
        return f"{name} writes to a disk device"
    if name == "rsync" and any(f.startswith("--del") for f in flags) and operands and _is_system(operands[-1]):
        return f"rsync deletes files in {operands[-1]}"
    recursive = "R" in short or _has(flags, "--recursive")
    if name in ("chmod", "chown", "chgrp", "chattr", "setfacl") and recursive and any(map(_is_system, operands)):
        return f"recursive {name} of a system folder"
    return ""
