"""A line of a command's output is found whatever the pieces are in which it comes, in linear time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.workspace.process.line_watch import LineWatch


@pytest.mark.parametrize(
    ("pattern", "output", "found"),
    [
        ("ready", "not yet\nserver ready on 80\n", True),
        ("ready", "rea\ndy\n", False),
        ("a*b", "x a then b", True),
        ("a*b", "b then a", False),
        ("one|two", "has two", True),
        ("(a+)+$", "text (a+)+$ here", True),
        ("*|", "anything\n", False),
    ],
)  # fmt: skip
def test_what_a_pattern_finds(pattern: str, output: str, found: bool) -> None:
    watch = LineWatch(pattern)
    watch.feed(output.encode())
    assert watch.found is found


@given(st.lists(st.binary(max_size=12)), st.sampled_from(["a", "a*b", "b|c", "aa*a"]))
def test_the_pieces_of_the_output_do_not_matter(pieces: list[bytes], pattern: str) -> None:
    watch, whole = LineWatch(pattern), LineWatch(pattern)
    for piece in pieces:
        watch.feed(piece)
    whole.feed(b"".join(pieces))
    assert watch.found == whole.found


def test_a_pattern_that_would_backtrack_tries_nothing_twice() -> None:
    watch = LineWatch("a*" * 90 + "b")
    watch.feed(b"a" * 1_000_000)
    assert not watch.found
