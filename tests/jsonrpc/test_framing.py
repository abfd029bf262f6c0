"""Messages in a stream of bytes, cut anywhere: whole, bounded, and nothing that is sent breaks more than a FramingError."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.jsonrpc.framing import HEADER_BYTES, ContentLength, Framing, FramingError, Lines, LongMessage

LONGEST = 900
FRAMINGS = (Lines, ContentLength)
bodies = st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b" ")), max_size=6)
cuts = st.lists(st.integers(1, 30), min_size=1, max_size=8)


def fed(framing: Framing, data: bytes, sizes: list[int]) -> list[bytes | LongMessage]:
    """The messages of `data`, fed in pieces of these sizes, again and again."""
    found, number = [], 0
    while data:
        size = sizes[number % len(sizes)]
        found += framing.feed(data[:size])
        data, number = data[size:], number + 1
    return found


@pytest.mark.parametrize("kind", FRAMINGS)
@given(messages=bodies, sizes=cuts)
def test_what_was_framed_is_found_however_it_is_cut(
    kind: type[Lines | ContentLength], messages: list[bytes], sizes: list[int]
) -> None:
    sender = kind(LONGEST)
    assert fed(kind(LONGEST), b"".join(map(sender.frame, messages)), sizes) == messages


@pytest.mark.parametrize("kind", FRAMINGS)
@given(sizes=cuts, more=st.integers(1, 3_000))
def test_a_long_message_is_left_out_and_the_next_one_is_found(
    kind: type[Lines | ContentLength], sizes: list[int], more: int
) -> None:
    sender = kind(LONGEST)
    long = b'{"jsonrpc":"2.0","id":17,"result":"' + b"x" * (LONGEST + more) + b'"}'
    many = b'{"result":[' + b"[]," * 9 + b'0],"id":18}'
    stream = b"".join(map(sender.frame, (long, many, b"{}", b"x" * (LONGEST + 1))))
    first, second, third, fourth = fed(kind(LONGEST, most_parts=9), stream, sizes)
    assert isinstance(first, LongMessage)
    assert (first.ident, first.size, first.head + first.tail) == (17, len(long), long[:400] + long[-400:])
    assert isinstance(second, LongMessage)
    assert (second.ident, third) == (18, b"{}")
    assert isinstance(fourth, LongMessage)
    assert fourth.ident is None


def test_what_is_kept_of_an_endless_message_is_bounded() -> None:
    for framing, begin in ((Lines(LONGEST), b""), (ContentLength(LONGEST), b"Content-Length: 99999999\r\n\r\n")):
        assert framing.feed(begin) == []
        for _ in range(1_000):
            assert framing.feed(b"x" * 1_000) == []
        collector = vars(framing).get("_line") or vars(framing)["_body"]
        assert sum(map(len, collector._pieces)) <= LONGEST + 1_000


@given(data=st.binary(max_size=200), sizes=cuts)
def test_garbage_is_refused_in_one_way(data: bytes, sizes: list[int]) -> None:
    try:
        fed(ContentLength(LONGEST), data + b"\r\n\r\n", sizes)
    except FramingError:
        return
    assert b"ontent-" in data.lower(), "without a length nothing was found"


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        b"Content-Type: x",
        b"Content-Length: -1",
        b"Content-Length: 1_0",
        b"Content-Length: " + b"9" * 5_000,
        b"Content-Length: 2\r\nContent-Length: 3",
        b"Content-Length: \xd9\xa3",
        b"Content-Length 3",
        b"x" * (HEADER_BYTES + 1),
    ],
)
def test_headers_that_cannot_be_read_end_the_stream(headers: bytes) -> None:
    with pytest.raises(FramingError):
        ContentLength(LONGEST).feed(headers + b"\r\n\r\n{}")
    with pytest.raises(FramingError):
        fed(ContentLength(LONGEST), headers + b"\r\n\r\n{}", [1])


def test_headers_in_any_case_and_beside_others() -> None:
    body = json.dumps({"text": "ä"}, ensure_ascii=False).encode()
    given = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-LENGTH:%d \r\n\r\n" % len(body)
    assert ContentLength(LONGEST).feed(given + body) == [body]
