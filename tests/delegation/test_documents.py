"""The worked examples of docs/delegation.md, docs/profiles.md, docs/skills.md and docs/worktrees.md are run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from friday_cli.system.project_search import CEILINGS

PROJECT = Path(__file__).parents[2]
PAGES = ("docs/delegation.md", "docs/profiles.md", "docs/skills.md", "docs/worktrees.md")


@dataclass
class Example:
    """A section with its files by name, its commands, and what these print."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    commands: str = ""
    output: list[str] = field(default_factory=list)


def examples(page: str) -> list[Example]:
    """The sections below "## Examples" of a page: files have their name in the line before, the rest is commands and what
    they print."""
    found: list[Example] = []
    inside, name, kind, body = False, "", "", [""]
    for line in (PROJECT / page).read_text(encoding="utf-8").splitlines():
        if kind and line == "```":
            if kind == "name":
                found[-1].files[name] = "\n".join(body) + "\n"
            elif kind == "sh":
                found[-1].commands += "\n".join(body) + "\n"
            else:
                found[-1].output += body
            name = kind = ""
        elif kind:
            body.append(line)
        elif line.startswith("## "):
            inside = line == "## Examples"
        elif inside and line.startswith("### "):
            found.append(Example(f"{Path(page).stem}: {line[4:]}"))
        elif inside and line.startswith("```"):
            kind, body = "name" if name else line[3:], []
        elif inside and (named := re.fullmatch(r"`([\w./-]+)`:", line)):
            name = named[1]
    return found


ALL = [example for page in PAGES for example in examples(page)]


def unlike(expected: list[str], printed: list[str]) -> str:
    """The first expected line that did not come in its turn, "" when all did. `...` skips lines, and the start of one."""
    rest = iter(printed)
    skipping = False
    for line in expected:
        if line == "...":
            skipping = True
            continue
        for actual in rest:
            if actual == line or (line.startswith("...") and actual.endswith(line[3:])):
                break
            if not skipping:
                return f"{line!r} was expected, and came {actual!r}"
        else:
            return f"{line!r} did not come"
        skipping = False
    if not skipping and (left := next(rest, None)) is not None:
        return f"and then came {left!r}"
    return ""


@pytest.mark.parametrize("example", ALL, ids=lambda e: e.name)
def test_an_example_of_the_pages_does_what_the_page_says(example: Example, tmp_path: Path) -> None:
    place, programs = tmp_path / "project", tmp_path / "bin"
    place.mkdir()
    programs.mkdir()
    (programs / "friday").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m friday_cli "$@"\n')
    (programs / "friday").chmod(0o755)
    for name, body in example.files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(body, encoding="utf-8")
    env = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path),
           "FRIDAY_HOME": str(tmp_path / "home"), "PYTHONPATH": str(PROJECT), "LC_ALL": "C.UTF-8", "FRIDAY_SANDBOX": "none",
           CEILINGS: os.environ[CEILINGS]}  # fmt: skip
    ran = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", example.commands],
        cwd=place,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert unlike(example.output, ran.stdout.splitlines()) == "", f"{ran.stdout}\n{ran.stderr}"
    assert ran.returncode == 0, ran.stderr


def test_the_scenarios_of_the_design_documents_are_among_them() -> None:
    names = " | ".join(e.name for e in ALL)
    for words in (
        "Three parts of a pipeline at once",
        "A review of many files, then one report",
        "Five migrations side by side",  # D28
        "Three reviewers and one report",  # A22
        "Research, waited for",
        "A review in the background",
        "A profile that can only read",  # R23, R24, R25
    ):
        assert words in names
    assert all(e.commands and e.output and e.files for e in ALL)


def test_a_line_that_is_not_printed_would_be_noticed() -> None:
    assert unlike(["a", "...", "d"], ["a", "b", "c", "d"]) == ""
    assert unlike(["a", "b"], ["a", "c", "b"])
    assert unlike(["a", "..."], ["b"])
    assert unlike(["a"], ["a", "b"])
    assert unlike(["...x.md: no"], ["/tmp/x.md: no"]) == ""
    assert unlike(["a", "...", "z"], ["a", "b"])
