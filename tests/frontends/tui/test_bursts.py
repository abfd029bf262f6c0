"""Typed keys and pastes that the terminal does not mark: what is sent, and what only stands in the prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.frontends.tui.terminal.bursts import LONG, Bursts, Pasted

SLOW_S, FAST_S = 0.2, 0.001


def read(*pieces: str, gap_s: float = SLOW_S) -> list[str | Pasted]:
    """What becomes of pieces of input that come `gap_s` seconds apart; after a slow one the burst is over."""
    bursts, found, now = Bursts(), [], 0.0
    for piece in pieces:
        found += bursts.feed(piece, now)
        now += gap_s
        if gap_s == SLOW_S:
            found += bursts.end()
    return [*found, *bursts.end()]


@pytest.mark.parametrize(
    ("pieces", "gap_s", "found"),
    [
        (["hello\r"], SLOW_S, ["hello\r"]),
        (["h", "i", "\r", "x", "\r"], SLOW_S, ["h", "i", "\r", "x", "\r"]),
        (["\r\r"], SLOW_S, ["\r\r"]),
        (["one\rtwo\r"], SLOW_S, [Pasted("one\rtwo\r")]),
        (["one\r", "two\r", "three\r"], FAST_S, [Pasted("one\rtwo\rthree\r")]),
        (list("ab\rcd\r"), FAST_S, ["a", "b", Pasted("\rcd\r")]),
        (["one\rtwo\r\x03"], SLOW_S, [Pasted("one\rtwo\r"), "\x03"]),
        (["one\rtwo\x1b[Ithree\rfour\r"], SLOW_S, [Pasted("one\rtwo"), "\x1b[I", Pasted("three\rfour\r")]),
        (["\x1b[200~one\rtw", "o\rthree\x1b[201~\r"], FAST_S, ["\x1b[200~", "one\rtw", "o\rthree\x1b[201~", "\r"]),
        (["\x1b[20", "0~one\rtwo\r\x1b[201~"], FAST_S, ["\x1b[200~", "one\rtwo\r\x1b[201~"]),
        (["\x1b[A\x1b[B"], SLOW_S, ["\x1b[A", "\x1b[B"]),
        (["\x1b"], SLOW_S, ["\x1b"]),
        (["\x1b\r"], SLOW_S, ["\x1b\r"]),
        (["x" * (LONG + 1)], SLOW_S, [Pasted("x" * (LONG + 1))]),
    ],
)
def test_what_was_typed_and_what_was_pasted(pieces: list[str], gap_s: float, found: list[str | Pasted]) -> None:
    assert read(*pieces, gap_s=gap_s) == found


@given(st.lists(st.text("ab\r\n\x03\x1b[200~1;\t\x7f", max_size=12), max_size=12), st.sampled_from([SLOW_S, FAST_S]))
def test_nothing_is_lost_or_reordered(pieces: list[str], gap_s: float) -> None:
    found = read(*pieces, gap_s=gap_s)
    assert "".join(piece.text if isinstance(piece, Pasted) else piece for piece in found) == "".join(pieces)
