"""The calls and tasks of the demo."""

from __future__ import annotations

from typing import Any

from .play import Wish

READ_TASK = """\
Read what this folder says about itself. List it, read its README and its manifest, find the lines marked TODO or FIXME, \
and count the definitions per language. Give each finding with the call it came from. Change nothing."""
COUNT_TASK = """\
Count what this folder holds: its files, its lines of text, both per kind of file, and its longest files. Say how each \
figure was got, and where a figure is only a lower bound. Change nothing."""
WRITE_TASK = """\
Write two or three sentences on this folder from the findings given along, for a reader who has not seen it. Count the text \
files and lines a second time before you pass the figures on. Change nothing."""

MARKED = r"\b(TODO|FIXME)\b"
DEFINITIONS = {
    "py": ("Python", "*.py", r"^\s*(async def|def|class)\s"),
    "js": ("JavaScript", "*.{js,mjs,jsx}", r"^\s*(export )?(default )?(async )?(function|class)\s"),
    "ts": ("TypeScript", "*.{ts,tsx}", r"^\s*(export )?(default )?(async )?(function|class|interface|type)\s"),
    "go": ("Go", "*.go", r"^(func|type)\s"),
    "rs": ("Rust", "*.rs", r"^\s*(pub )?(async )?(fn|struct|enum|trait)\s"),
    "java": ("Java", "*.java", r"^\s*(public |private |protected |abstract |final |static )*(class|interface|enum)\s"),
}
"""Per language: its name, its files, and what a line that defines something begins with."""


def listing(pattern: str = "*", path: str = ".") -> Wish:
    """The names of files below `path` that fit a pattern."""
    return Wish("glob", {"pattern": pattern, **_at(path)})


def files(glob: str = "", path: str = ".") -> Wish:
    """How many files have a line of text: one is shown, the rest is counted."""
    return Wish("grep", {"pattern": "^", "mode": "files", "limit": 1, **_in(glob), **_at(path)})


def lines(glob: str = "", path: str = ".", *, pattern: str = "^", literal: bool = False) -> Wish:
    """How many lines match: one is shown, the rest is counted."""
    plain = {"literal": True} if literal else {}
    return Wish("grep", {"pattern": pattern, "limit": 1, **plain, **_in(glob), **_at(path)})


def matches(pattern: str, *, path: str = ".", glob: str = "", limit: int = 20, **more: bool) -> Wish:
    """The lines that match, the first `limit` of them."""
    return Wish("grep", {"pattern": pattern, "limit": limit, **_in(glob), **_at(path), **more})


def longest(limit: int = 800, glob: str = "", path: str = ".") -> Wish:
    """How many lines each file has."""
    return Wish("grep", {"pattern": "^", "mode": "count", "limit": limit, **_in(glob), **_at(path)})


def look(path: str = ".") -> Wish:
    """What lies in a folder."""
    return Wish("list_dir", {"path": path})


def read(path: str, limit: int) -> Wish:
    """The first `limit` lines of a file."""
    return Wish("read_file", {"path": path, "limit": limit})


def delegate(profile: str, task: str, context: str = "") -> Wish:
    """A task for a sub-agent."""
    arguments: dict[str, Any] = {"profile": profile, "task": task}
    return Wish("delegate_task", {**arguments, "context": context} if context else arguments)


def _in(glob: str) -> dict[str, str]:
    return {"glob": glob} if glob else {}


def _at(path: str) -> dict[str, str]:
    return {"path": path} if path != "." else {}
