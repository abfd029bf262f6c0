"""What every file keeps to: its size, and no word of the machine it was written on."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
LINES, TEST_LINES, FUNCTION_LINES = 400, 600, 60
"""Tests may be longer: a table of cases is read row by row."""
EXCEPTIONS: dict[str, str] = {}
"""Files or functions (`path` or `path:name`) that may be longer, with the reason."""

FOREIGN = re.compile(
    "|".join(("/" + "work/(?:main|shared|venv)", r"(?<!\w)/" + "root/", r"\." + "pyenv", "/tmp/" + "bash_jobs"))
)
ROOTS = ("friday_cli", "tests", "docs", "profiles", ".ci")
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "pyproject.toml")


def python_files(*folders: str) -> list[Path]:
    found = [f for folder in folders for f in (PROJECT / folder).rglob("*.py")]
    assert found
    return sorted(found)


def name_of(file: Path) -> str:
    return file.relative_to(PROJECT).as_posix()


def lines_of(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    too_long = [f for f in python_files("friday_cli") if lines_of(f) > LINES]
    too_long += [f for f in python_files("tests") if lines_of(f) > TEST_LINES]
    assert [f"{name_of(f)}: {lines_of(f)} lines" for f in too_long if name_of(f) not in EXCEPTIONS] == []


def test_no_function_is_too_long_to_be_read_at_once() -> None:
    found = []
    for file in python_files("friday_cli", "tests"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES and f"{name_of(file)}:{node.name}" not in EXCEPTIONS:
                    found.append(f"{name_of(file)}:{node.name}: {length} lines")
    assert not found


def test_no_exception_is_out_of_date() -> None:
    for entry in EXCEPTIONS:
        path, _, function = entry.partition(":")
        text = (PROJECT / path).read_text(encoding="utf-8")
        assert re.search(rf"def {re.escape(function)}\(", text) if function else text


def test_nothing_names_the_machine_it_was_written_on() -> None:
    files = [PROJECT / name for name in TOP]
    files += [f for root in ROOTS for f in (PROJECT / root).rglob("*") if f.is_file() and "__pycache__" not in f.parts]
    found = []
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if FOREIGN.search(line):
                found.append(f"{name_of(file)}:{number}: {line.strip()[:100]}")
    assert not found


@pytest.mark.parametrize("name", ["utils", "helpers", "manager", "base", "common", "misc"])
def test_every_module_is_named_for_what_it_holds(name: str) -> None:
    assert [f for f in python_files("friday_cli") if name in (f.stem, f.parent.name)] == []
