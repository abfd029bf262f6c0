"""Which paths are those of files that run code later."""

from __future__ import annotations

import random
import re

import pytest

from friday_cli.core.permissions.runs_later import ROWS, is_protected, protected_names

NAMES = [name for _, _, names in ROWS for name in names.split()]


def one_expression() -> re.Pattern[str]:
    """What the table says, as one expression."""
    parts = [re.escape(name.rstrip("/")).replace(r"\*", "[^/]*") + "(?:/.*)?" * name.endswith("/") for name in NAMES]
    return re.compile(f"(?:.*/)?(?:{'|'.join(parts)})", re.S)


@pytest.mark.parametrize("seed", range(20))
def test_a_path_is_protected_as_the_table_says(seed: int) -> None:
    chance, expression = random.Random(seed), one_expression()
    pieces = ["a", "b.txt", "", "x\ny", "git", ".github", *NAMES, *(part for name in NAMES for part in name.split("/"))]
    pieces += [name.replace("*", "-x.y") for name in NAMES if "*" in name]
    names, matches = protected_names()
    found = 0
    for _ in range(2_000):
        path = "/".join(chance.choice(pieces) for _ in range(chance.randint(1, 4)))
        path = chance.choice([path, path.upper(), path + "/", path + "x", "/" + path, path + "\n"])
        expected = expression.fullmatch(path.lower()) is not None
        found += expected
        assert is_protected(path) == expected, path
        if "/" not in path:
            assert (path.lower() in names or bool(matches(path.lower()))) == expected, path
    assert 200 < found < 1_900
