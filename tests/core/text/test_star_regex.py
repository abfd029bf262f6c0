"""Patterns with stars mean what they always meant, and none is matched for ever."""

from __future__ import annotations

import random
import re

import pytest

from friday_cli.core.permissions.patterns import strict_glob
from friday_cli.core.text.star_regex import ANY, FOLDERS, NAME, star_regex
from friday_cli.system.globs import to_regex

PLAIN = {NAME: "[^/]*", ANY: ".*", FOLDERS: "(?:.*/)?"}
PIECES = ("a", "b", "ab", "[^/]", "/", "a/", "/b", NAME, NAME, ANY, f"/{FOLDERS}", FOLDERS)
TEXTS = ("a", "b", "/", "a/", "ab")


def pieces(rng: random.Random) -> list[str]:
    found: list[str] = []
    for piece in rng.choices(PIECES, k=rng.randint(1, 8)):
        if piece == FOLDERS and found and not found[-1].endswith("/"):
            continue
        found += ["/", FOLDERS] if piece == f"/{FOLDERS}" else [piece]
    return found


def test_what_is_taken_once_changes_no_answer() -> None:
    rng, met = random.Random(5), 0
    for _ in range(20_000):
        given = pieces(rng)
        text = "".join(rng.choices(TEXTS, k=rng.randint(1, 9)))
        plain = re.fullmatch("".join(PLAIN.get(piece, piece) for piece in given), text, re.S)
        assert (plain is None) == (re.fullmatch(star_regex(given), text, re.S) is None), (given, text)
        met += plain is not None
    assert met > 1_000


LONG = ("a" * 3_000, "a/" * 1_500, "ab/a" * 700, "/" * 2_000, "." * 2_000)


@pytest.mark.parametrize("pattern", ["*a" * 30 + "b", "**/a" * 30 + "/b", "**/*a" * 30 + "b", "a**" * 30 + "c", "**/" * 40 + "b", "*/" * 40 + "b",
                                     "**a*" * 20 + "b", "*?" * 30 + "b", "[a-b]*" * 30 + "c", "***/" * 30 + "b", "a**/" * 30 + "b"])  # fmt: skip
def test_no_pattern_is_matched_for_ever(pattern: str) -> None:
    for text in LONG:
        strict_glob(pattern).fullmatch(text)
        re.compile(to_regex(pattern, braces=False), re.S).fullmatch(text)
