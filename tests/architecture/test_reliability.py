"""docs/reliability.md names every requirement and figure once, and only tests that there are; what it says of our code holds."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.architecture.test_files import parsed, python_files

PROJECT = Path(__file__).parents[2]
TEXT = (PROJECT / "docs" / "reliability.md").read_text(encoding="utf-8")
COUNTS = {"Q": 76, "G": 11}
ROWS = re.findall(r"^\| ([QG]\d+) \|(.*)\|$", TEXT, re.M)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
SHELLS = {"system", "popen", "create_subprocess_shell", "getoutput", "getstatusoutput"}
"""Functions that take a text and hand it to a shell."""


@cache
def found_in(path: str) -> set[str]:
    """The names of the tests in a file, those in classes too."""
    return set(re.findall(r"^ *(?:async )?def (test_\w+)", (PROJECT / path).read_text(encoding="utf-8"), re.M))


def test_every_requirement_and_figure_is_there_once() -> None:
    assert [name for name, _ in ROWS] == [f"{key}{n}" for key, count in COUNTS.items() for n in range(1, count + 1)]


def test_what_a_row_names_is_there() -> None:
    for name, shown in ROWS:
        tests = TEST.findall(shown)
        assert tests, name
        for path, test in tests:
            assert (PROJECT / path).is_file(), path
            assert test in found_in(path), f"{path} has no {test}"
        if name.startswith("G"):
            _, reached, _ = (cell.strip() for cell in shown.strip().split(" | "))
            assert reached, name


def test_q44_nothing_of_friday_s_own_goes_through_a_shell() -> None:
    """What a model wrote for `bash` is handed to it as one word of a list; nothing else ever is shell text."""
    found = []
    for path in python_files("friday_cli"):
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.Call):
                continue
            named = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            owner = getattr(node.func.value, "id", "") if isinstance(node.func, ast.Attribute) else ""
            shell = any(
                word.arg == "shell" and not (isinstance(word.value, ast.Constant) and word.value.value is False)
                for word in node.keywords
            )
            if shell or (named in SHELLS and owner in ("os", "asyncio", "subprocess")):
                found.append(f"{path.name}:{node.lineno} {named}")
    assert found == []
