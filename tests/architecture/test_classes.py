"""A class is small enough to be one thing, counted with its bases in this package; a class name means one thing."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache

from tests.architecture.test_files import parsed, python_files

LINES, METHODS = 250, 25


@cache
def classes() -> dict[str, tuple[int, int, tuple[str, ...]]]:
    """Each class of the package with its lines, methods and names of bases."""
    found = {}
    for file in python_files("friday_cli"):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ClassDef):
                methods = sum(isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) for child in node.body)
                bases = tuple(ast.unparse(base).split("[")[0].rpartition(".")[2] for base in node.bases)
                found[node.name] = ((node.end_lineno or 0) - node.lineno + 1, methods, bases)
    return found


def size(name: str) -> tuple[int, int]:
    """Lines and methods of a class with its bases."""
    lines, methods, bases = classes()[name]
    for base in bases:
        if base in classes():
            more = size(base)
            lines, methods = lines + more[0], methods + more[1]
    return lines, methods


def test_no_class_with_its_bases_is_too_large() -> None:
    assert {name: size(name) for name in classes() if size(name)[0] > LINES or size(name)[1] > METHODS} == {}


def test_a_class_name_means_one_thing() -> None:
    names = Counter(
        node.name
        for file in python_files("friday_cli")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []
