"""At most six arguments by position: more are passed by name, so that a reader sees which is which."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]
MOST = 6


def _sources() -> Iterator[tuple[str, ast.Module]]:
    files = sorted((PROJECT / "friday_cli").rglob("*.py"))
    assert files
    for file in files:
        yield file.relative_to(PROJECT).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def long_definitions(tree: ast.Module) -> list[str]:
    """Functions with more than MOST parameters that can be passed by position, without `self` and `cls`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            if len(names) - (names[:1] in (["self"], ["cls"])) > MOST:
                found.append(f"{node.lineno}: {node.name}")
    return found


def long_calls(tree: ast.Module) -> list[str]:
    """Calls of a class (a name in CapWords) with more than MOST arguments by position."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and len(node.args) > MOST:
            name = ast.unparse(node.func).rpartition(".")[2].lstrip("_")
            if name[:1].isupper():
                found.append(f"{node.lineno}: {name}")
    return found


def test_no_function_has_too_many_parameters_by_position() -> None:
    assert {name: found for name, tree in _sources() if (found := long_definitions(tree))} == {}


def test_no_object_is_filled_with_too_many_values_by_position() -> None:
    assert {name: found for name, tree in _sources() if (found := long_calls(tree))} == {}


def test_too_many_are_found() -> None:
    names = ", ".join("abcdefg")
    tree = ast.parse(
        f"def long({names}): ...\nclass A:\n    def short(self, {names[:-3]}): ...\nm.Struct({names})\nlong({names})"
    )
    assert (long_definitions(tree), long_calls(tree)) == (["1: long"], ["4: Struct"])
