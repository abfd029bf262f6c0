"""docs/requirements.md names every requirement once, and only tests and commands that there are."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[2]
TEXT = (PROJECT / "docs" / "requirements.md").read_text(encoding="utf-8")
COUNTS = {
    "D": 29, "A": 22, "S": 37, "R": 25, "P": 34, "C": 15, "M": 6, "E": 42, "N": 5, "MC": 8, "MT": 15, "MS": 8, "H": 13,
    "K": 13, "PL": 10, "FC": 5, "MP": 25, "ML": 7, "AC": 12, "PY": 8, "OT": 7, "CI": 5,
}  # fmt: skip
ROWS = re.findall(r"^\| ([A-Z]{1,2}\d+|\d+\. [^|]*) \|(.*)\|$", TEXT, re.M)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
MODULE = re.compile(r"`python -m (tests\.[\w.]+)[^`]*`")
COMMAND = re.compile(r"`(friday [^`]*)`")


@cache
def found_in(path: str) -> set[str]:
    """The names of the tests in a file, those in classes too."""
    return set(re.findall(r"^ *(?:async )?def (test_\w+)", (PROJECT / path).read_text(encoding="utf-8"), re.M))


def test_every_requirement_is_in_the_table_once() -> None:
    ids = [name for name, _ in ROWS if name[0].isalpha()]
    assert len(ids) == len(set(ids))
    counted = [name for name in ids if name[1].isalpha() or name[0] != "F"]  # F has the numbers of its page, with gaps
    assert sorted(counted) == sorted(f"{key}{n}" for key, count in COUNTS.items() for n in range(1, count + 1))


def test_every_bug_class_is_in_the_table_and_every_test_of_one_is_named() -> None:
    rows = {int(name.split(".")[0]): shown for name, shown in ROWS if name[0].isdigit()}
    assert sorted(rows) == list(range(1, 12))
    for name in found_in("tests/delegation/test_bug_classes.py"):
        assert f"::{name}`" in rows[int(name.split("_")[1])], name


def test_every_decision_has_tests_of_its_own() -> None:
    numbers = {int(name.split("_")[1][1:]) for name in found_in("tests/delegation/test_decisions.py")}
    assert numbers == set(range(1, COUNTS["C"] + 1))


def test_what_a_row_names_is_there() -> None:
    for name, shown in ROWS:
        tests, commands = TEST.findall(shown), COMMAND.findall(shown)
        for path, test in tests:
            assert (PROJECT / path).is_file(), path
            assert test in found_in(path), f"{path} has no {test}"
        modules = MODULE.findall(shown)
        for module in modules:
            assert (PROJECT / Path(*module.split("."))).with_suffix(".py").is_file() or (
                PROJECT / Path(*module.split(".")) / "__main__.py"
            ).is_file(), module
        for command in commands:
            words = [*shlex.split(command), "map"] if command == "friday map" else shlex.split(command)
            sources = [f.read_text(encoding="utf-8") for f in (PROJECT / "friday_cli" / "cli").glob(f"{words[1]}*.py")]
            assert any(f'"{words[2]}"' in source for source in sources), command
        assert tests or commands or modules or name == "R17", name
