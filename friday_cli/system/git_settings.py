"""Reads git's settings files without git (https://git-scm.com/docs/git-config#_syntax)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

MAX_SETTINGS = 1_000_000
"""Characters of a file with git's settings that are read."""
MAX_INCLUDES = 10
"""Files that include each other, one below the other."""
_SECTION = r'\[\s*([\w.-]+)\s*("(?:[^"\\]|\\.)*")?\s*\](.*)'


def personal_files() -> Iterator[str]:
    """The files with git's settings that no repository can change, in git's order."""
    if os.environ.get("GIT_CONFIG_NOSYSTEM", "0").lower() in ("", "0", "false", "no", "off"):
        yield os.environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig"
    if (given := os.environ.get("GIT_CONFIG_GLOBAL")) is not None:
        yield given
        return
    yield os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "git/config")
    yield os.path.expanduser("~/.gitconfig")


def values(file: str, key: str, *, conditional: bool = False, depth: int = 0) -> Iterator[str]:
    """The values of a setting (`safe.directory`, lower-case) in a file and those that it includes; `conditional`: also with a
    condition, whether it holds or not. Blocks."""
    section = ""
    for line in _lines(file):
        if header := re.match(_SECTION, line):
            section, line = f"{header[1].lower()}{header[2] or ''}", header[3].strip()
        name, equals, text = line.partition("=")
        if not equals:
            continue
        full = f"{section}.{name.strip().lower()}"
        if full == key:
            yield _value(text)
        elif depth < MAX_INCLUDES and (
            full == "include.path" or (conditional and section.startswith("includeif") and full.endswith(".path"))
        ):
            other = os.path.join(os.path.dirname(file), os.path.expanduser(_value(text)))
            yield from values(other, key, conditional=conditional, depth=depth + 1)


def _lines(file: str) -> Iterator[str]:
    """The lines of a file, with those that a backslash continues joined."""
    try:
        if not os.path.isfile(file):
            return  # reading a pipe would block
        with open(file, encoding="utf-8", errors="surrogateescape") as opened:
            text = opened.read(MAX_SETTINGS).removeprefix("\ufeff")
    except OSError:
        return
    yield from (line.strip() for line in text.replace("\\\n", "").split("\n"))


def _value(text: str) -> str:
    """A value without its quotes and comment."""
    found, quoted, letters = "", False, iter(text.strip())
    for letter in letters:
        if letter == "\\":
            escaped = next(letters, "")
            found += {"n": "\n", "t": "\t", "b": "\b"}.get(escaped, escaped)
        elif letter == '"':
            quoted = not quoted
        elif letter in "#;" and not quoted:
            return found.rstrip()
        else:
            found += letter
    return found
