from __future__ import annotations

import json

import pytest

from friday_cli.llm.transport.text import (
    StreamedText,
    one_line,
    replace_surrogates,
    replace_surrogates_in,
)


def test_plain_is_one_printable_line() -> None:
    text = "a\x1b[31mred\r\nb\u202ec\u200bd\u2028e\x9b0m"
    assert one_line(text) == "a [31mred b c d e 0m"
    assert one_line("x" * 1000, 10) == "x" * 9 + "…"


def test_whole_joins_pairs_and_replaces_halves() -> None:
    pair = json.loads('"\\ud83d"') + json.loads('"\\ude00"')
    assert replace_surrogates(pair) == "😀"
    assert replace_surrogates("a\ud83db") == "a\ufffdb"
    assert replace_surrogates_in({"\ud83d": ["\ude00", 1, None]}) == {"\ufffd": ["\ufffd", 1, None]}


@pytest.mark.parametrize(("pieces", "shown", "text"), [
    (["a", "b"], ["a", "b"], "ab"),
    (["a\ud83d", "\ude00b"], ["a", "😀b"], "a😀b"),
    (["a\ud83d", "b"], ["a", "\ufffdb"], "a\ufffdb"),
    (["a\ud83d"], ["a"], "a\ufffd"),
    (["\ud83d", "", "\ude00"], ["", "", "😀"], "😀"),
    (["\ude00"], ["\ufffd"], "\ufffd"),
])  # fmt: skip
def test_pieces_never_show_half_a_character(pieces: list[str], shown: list[str], text: str) -> None:
    gathered = StreamedText()
    assert [gathered.add(p) for p in pieces] == shown
    assert gathered.text == text
    gathered.text.encode()
