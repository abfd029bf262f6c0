"""Limits of size for files, functions and positional arguments; no name of the machine they were written on."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
LINES, TEST_LINES, FUNCTION_LINES = 400, 600, 60
"""Tests may be longer: a table of cases is read row by row."""
ARGUMENTS = 6
"""Positional arguments at most: more are passed by name, so that a reader sees which is which."""
FOREIGN = re.compile(
    "|".join(("/" + "work/(?:main|shared|venv)", r"(?<!\w)/" + "root/", r"\." + "pyenv/", "/tmp/" + "bash_jobs"))
)
ROOTS = ("friday_cli", "tests", "docs", "profiles", ".ci")
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "pyproject.toml")


def python_files(*folders: str) -> list[Path]:
    found = [f for folder in folders for f in (PROJECT / folder).rglob("*.py")]
    assert found
    return sorted(found)


def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


parsed = cache(parse)
"""For files of the package, which several tests read. Trees that are kept make every later search for garbage slower."""


def in_each_file(check: Callable[[ast.Module], list[str]], folder: str) -> dict[str, list[str]]:
    """The findings of `check` by file, without the files that have none."""
    read = parsed if folder == "friday_cli" else parse
    return {name_of(file): found for file in python_files(folder) if (found := check(read(file)))}


def name_of(file: Path) -> str:
    return file.relative_to(PROJECT).as_posix()


def lines_of(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    too_long = [f for f in python_files("friday_cli") if lines_of(f) > LINES]
    too_long += [f for f in python_files("tests") if lines_of(f) > TEST_LINES]
    assert [f"{name_of(f)}: {lines_of(f)} lines" for f in too_long] == []


def long_functions(tree: ast.Module) -> list[str]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    sizes = {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    return [f"{name}: {lines} lines" for name, lines in sizes.items() if lines > FUNCTION_LINES]


def long_definitions(tree: ast.Module) -> list[str]:
    """Functions with too many parameters that can be passed by position, without `self` and `cls`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            if len(names) - (names[:1] in (["self"], ["cls"])) > ARGUMENTS:
                found.append(f"{node.lineno}: {node.name}")
    return found


def long_calls(tree: ast.Module) -> list[str]:
    """Calls of a class (a name in CapWords) with too many arguments by position."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > ARGUMENTS]
    names = [(node.lineno, ast.unparse(node.func).rpartition(".")[2].lstrip("_")) for node in calls]
    return [f"{line}: {name}" for line, name in names if name[:1].isupper()]


def test_no_function_is_too_long_to_be_read_at_once() -> None:
    assert {**in_each_file(long_functions, "friday_cli"), **in_each_file(long_functions, "tests")} == {}


def test_no_function_or_object_takes_too_many_arguments_by_position() -> None:
    assert in_each_file(lambda tree: long_definitions(tree) + long_calls(tree), "friday_cli") == {}


def test_too_long_and_too_many_are_found() -> None:
    names = ", ".join("abcdefg")
    source = (
        f"def long({names}): ...\nclass A:\n    def short(self, {names[:-3]}): ...\nm.Struct({names})\nlong({names})"
    )
    assert (long_definitions(ast.parse(source)), long_calls(ast.parse(source))) == (["1: long"], ["4: Struct"])
    assert long_functions(ast.parse("def f():\n" + "    x\n" * FUNCTION_LINES)) == [f"f: {FUNCTION_LINES + 1} lines"]


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
