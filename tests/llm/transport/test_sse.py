from __future__ import annotations

import pytest

from friday_cli.llm.transport import sse
from friday_cli.llm.transport.sse import ServerEvent, SSEParser

STREAMS = {
    "lf": (b'event: a\ndata: {"x":1}\n\ndata: two\n\n', [ServerEvent("a", '{"x":1}'), ServerEvent("", "two")]),
    "crlf": (b"event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", [ServerEvent("a", "1"), ServerEvent("", "2")]),
    "lone cr": (b"event: a\rdata: 1\r\rdata: 2\r\r", [ServerEvent("a", "1"), ServerEvent("", "2")]),
    "mixed ends": (
        b"data: 1\r\n\ndata: 2\n\r\ndata: 3\r\r\n",
        [ServerEvent("", "1"), ServerEvent("", "2"), ServerEvent("", "3")],
    ),
    "bom": (b"\xef\xbb\xbfdata: 1\n\n", [ServerEvent("", "1")]),
    "bom later is text": (b"data: \xef\xbb\xbf1\n\n", [ServerEvent("", "\ufeff1")]),
    "comments": (b": keep-alive\n\n:\ndata: 1\n: more\n\n", [ServerEvent("", "1")]),
    "lines of data": (b"data: a\ndata:\ndata: b\n\n", [ServerEvent("", "a\n\nb")]),
    "no space": (b"event:a\ndata:1\n\n", [ServerEvent("a", "1")]),
    "one space only": (b"data:  1\n\n", [ServerEvent("", " 1")]),
    "multi-byte": ("data: é😀漢\n\n".encode(), [ServerEvent("", "é😀漢")]),
    "line separator is text": ("data: a\u2028b\u0085c\n\n".encode(), [ServerEvent("", "a\u2028b\u0085c")]),
    "form feed is text": (b"data: a\x0bb\x0c\x1cc\n\n", [ServerEvent("", "a\x0bb\x0c\x1cc")]),
    "invalid utf-8": (b"data: a\xff\xc3(b\n\n", [ServerEvent("", "a\ufffd\ufffd(b")]),
    "id and retry": (b"id: 7\nretry: 10\nfoo: bar\nlonely\ndata: 1\n\n", [ServerEvent("", "1")]),
    "name without data": (b"event: a\n\ndata: 1\n\n", [ServerEvent("", "1")]),
    "end without empty line": (b"data: 1\n\nevent: z\ndata: 2", [ServerEvent("", "1"), ServerEvent("z", "2")]),
    "nothing": (b"", []),
}


@pytest.mark.parametrize("name", STREAMS)
def test_events_do_not_depend_on_how_bytes_are_cut(name: str) -> None:
    stream, expected = STREAMS[name]
    for size in (1, 2, 3, 7, 100_000):
        parser = SSEParser()
        got = [sent for at in range(0, len(stream), size) for sent in parser.feed(stream[at : at + size])]
        assert got + parser.close() == expected, size


def test_an_event_comes_out_with_its_empty_line_and_not_later() -> None:
    parser = SSEParser()
    assert parser.feed(b"data: 1\r") == []
    assert parser.feed(b"\n\r") == [ServerEvent("", "1")]
    assert parser.feed(b"\ndata: 2\n\n") == [ServerEvent("", "2")]


def test_a_megabyte_in_small_pieces() -> None:
    parser, text = SSEParser(), "x" * 1_000_000
    stream = f"data: {text}\n\n".encode()
    got = [sent for at in range(0, len(stream), 13) for sent in parser.feed(stream[at : at + 13])]
    assert got == [ServerEvent("", text)]


@pytest.mark.parametrize("line", [b"x" * 10, b"data: 0123\n"])
def test_an_event_without_end_is_given_up(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENT_LIMIT", 1000)
    parser = SSEParser()
    for _ in range(1000 // len(line)):
        assert parser.feed(line) == []
    with pytest.raises(sse.EventTooLong):
        parser.feed(line)
    parser = SSEParser()
    assert sum(len(parser.feed(b"data: 0123\n\n")) for _ in range(500)) == 500, "the limit is of one event only"
