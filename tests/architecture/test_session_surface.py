"""Frontends and commands use a session by its public surface, which does not contain the engine."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
ENGINE = {"root", "services", "tree", "rules", "log"}
SESSION = {"session", "_session", "window", "shown", "require_session"}
"""Names under which a frontend holds a `Session` or a `SessionObserver`."""


def _name(node: ast.expr) -> str:
    """The last name of an expression: `x` of `a.x` and of `a.x()`."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def engine_names(source: str) -> list[str]:
    """Where a source names a part of the engine, or anything private, through a session."""
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and _name(node.value) in SESSION
        and (node.attr in ENGINE or node.attr.startswith("_"))
    ]
    return [ast.unparse(node) for node in found]


@pytest.mark.parametrize("folder", ["frontends", "cli", "diagnostics"])
def test_nobody_reaches_through_a_session_to_the_engine(folder: str) -> None:
    files = sorted((PROJECT / "friday_cli" / folder).rglob("*.py"))
    assert files
    found = {file.name: lines for file in files if (lines := engine_names(file.read_text(encoding="utf-8")))}
    assert found == {}


def test_what_reaches_through_is_found() -> None:
    through = ["self.session.root", "x.require_session().rules", "session._tree"]
    source = "\n".join(["self.session.root.provider", *through[1:], "session.rewind.to(1)", "state.root"])
    assert sorted(engine_names(source)) == sorted(through)
