"""Faults put into the engine: a place is found by the shape of its code, in whichever module of the package it stands."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import friday_cli

PACKAGE = Path(friday_cli.__file__).parent
WILDCARD = re.compile(r"ANY(_\w+)?")

Seed = Callable[[pytest.MonkeyPatch], None]


def changed(name: str, old: str, new: str) -> Seed:
    """The function `name` ("function" or "Class.method") with `old` replaced by `new`. `old` is an expression or a
    statement and must stand there once, however it is formatted. ANY, ANY_1 ... in it stand for any expression, and `...`
    as the only statement of a body for any body; `new` may use them. Everybody who holds the function gets the fault."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        (searched,), made = _parsed(old), _parsed(new)
        pattern = searched.value if isinstance(searched, ast.Expr) and isinstance(made[0], ast.Expr) else searched
        found = [
            (file, tree, place)
            for file in _files(name)
            for tree in [_tree(file)]
            for place in _places(tree, name, pattern)
        ]
        assert len(found) == 1, f"{name} has {len(found)} places like `{old}`: this mutant must be adapted"
        file, tree, place = found[0]
        place.fill(made)
        code = compile(ast.fix_missing_locations(tree), f"<mutant of {name}>", "exec", dont_inherit=True)
        held: Any = importlib.import_module(".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts))
        for part in name.split("."):
            held = getattr(held, part)
            code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == part)
        patch.setattr(inspect.unwrap(held), "__code__", code)

    return apply


@cache
def _files(name: str) -> tuple[Path, ...]:
    """The files that define something of the name."""
    defines = re.compile(rf"^\s*(?:async )?def {name.rpartition('.')[2]}\(", re.M)
    return tuple(file for file in PACKAGE.rglob("*.py") if defines.search(file.read_text(encoding="utf-8")))


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _parsed(text: str) -> list[ast.stmt]:
    return ast.parse(textwrap.dedent(text).strip()).body


@dataclass
class _Place:
    """The node that `field` of `parent` holds, in a list at `at`, and what its pattern's wildcards stand for."""

    parent: ast.AST
    field: str
    at: int
    bound: dict[str, Any]

    def fill(self, new: list[ast.stmt]) -> None:
        """Replace the node; a statement by any number of them, an expression by one."""
        made: list[Any] = [_Fill(self.bound).visit(statement) for statement in new]
        value = getattr(self.parent, self.field)
        node = value[self.at] if isinstance(value, list) else value
        if not isinstance(node, ast.stmt):
            (statement,) = made
            made = [statement.value]
        if isinstance(value, list):
            value[self.at : self.at + 1] = made
        else:
            setattr(self.parent, self.field, made[0])


def _places(tree: ast.Module, name: str, old: ast.AST) -> Iterator[_Place]:
    for parent in (
        node for qualified, function in _functions(tree) if qualified == name for node in ast.walk(function)
    ):
        for field, value in ast.iter_fields(parent):
            for at, node in enumerate(value if isinstance(value, list) else [value]):
                bound: dict[str, Any] = {}
                if _same(old, node, bound):
                    yield _Place(parent, field, at, bound)


def _functions(node: ast.AST, above: str = "") -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield above + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{above}{child.name}.")
        elif isinstance(child, ast.If | ast.Try):
            yield from _functions(child, above)


def _same(pattern: Any, node: Any, bound: dict[str, Any]) -> bool:
    if isinstance(pattern, ast.Name) and WILDCARD.fullmatch(pattern.id) and isinstance(node, ast.expr):
        return ast.unparse(bound.setdefault(pattern.id, node)) == ast.unparse(node)
    if isinstance(pattern, list) and isinstance(node, list):
        if len(pattern) == 1 and _is_dots(pattern[0]) and node and isinstance(node[0], ast.stmt):
            bound["..."] = node
            return True
        return len(pattern) == len(node) and all(_same(p, n, bound) for p, n in zip(pattern, node, strict=True))
    if not isinstance(pattern, ast.AST):
        return bool(pattern == node)
    return type(pattern) is type(node) and all(
        _same(value, getattr(node, field), bound) for field, value in ast.iter_fields(pattern) if field != "ctx"
    )


def _is_dots(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


class _Fill(ast.NodeTransformer):
    """Puts what was found for ANY and `...` into the replacement."""

    def __init__(self, bound: dict[str, Any]) -> None:
        self._bound = bound

    def visit_Name(self, node: ast.Name) -> Any:
        return self._bound.get(node.id, node)

    def visit_Expr(self, node: ast.Expr) -> Any:
        return self._bound["..."] if _is_dots(node) and "..." in self._bound else self.generic_visit(node)
