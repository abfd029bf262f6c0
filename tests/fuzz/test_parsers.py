"""Fuzz of the parsers of untrusted input: each reads its input or refuses it with one line, never with another exception."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.style import Style

from friday_cli.config import loader
from friday_cli.core.protocol.errors import FileError, FridayError, ProviderError
from friday_cli.core.protocol.events import ToolSpec
from friday_cli.core.protocol.messages import user
from friday_cli.core.protocol.provider import Request
from friday_cli.core.text.sanitize import sanitize
from friday_cli.extensions import commands
from friday_cli.extensions.profiles.parse import parse as profile
from friday_cli.frontends.tui.widgets.diff import draw_diff
from friday_cli.frontends.tui.widgets.markdown import GrowingMarkdown, draw
from friday_cli.frontends.tui.widgets.styles import Styles, TextRenderer
from friday_cli.llm.providers.anthropic_stream import AnthropicStream
from friday_cli.llm.providers.openai_chat import ChatStream
from friday_cli.llm.providers.openai_responses import ResponsesStream
from friday_cli.llm.transport.endpoint import Endpoint
from friday_cli.llm.transport.event_stream import decode
from friday_cli.llm.transport.sse import SSEParser
from friday_cli.llm.transport.tool_arguments import parse_arguments
from friday_cli.tools.web.page import decoded, html_text, markdown
from tests.servers.fake_model_server import WIRES, Say, Wire, events

PEN = TextRenderer(Styles(*[Style()] * 14, "monokai"))
HERE = Endpoint(service="Own", base_url="http://127.0.0.1:9/v1", headers={}, key_name="OWN_KEY")
REQUEST = Request(
    agent="a", system="", tools=(ToolSpec("grep", "", {"type": "object"}),), messages=(user("x"),), max_output=10
)
WIDTHS = st.integers(1, 130)
ODD_TEXT = st.text(max_size=60) | st.sampled_from(
    [
        "\x1b]52;c;eA==\x07",
        "\u202eabc",
        "\ud800",
        "\0",
        "\r",
        "\u2028",
        "[@click=app.quit]x[/]",
        "[/x]",
        "a[b]c",
        "👩‍👩‍👧",
        "語" * 9,
        "e\u0301",
    ]
)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
LINES = st.lists(
    st.sampled_from(["# ", "## ", "- ", "1. ", "> ", "```", "```python\n", "~~~", "| a | b |\n|---|---|\n", "|", "<b>", "</", "&#x", "&amp;", "[x](", "](http://e.org)",
                     "![", "**", "__", "`", "\\", "\t", "  ", "\n", "\n\n", "---\n", "--- a\n+++ b\n", "@@ -1,2 +1,3 @@\n", "@@ -", "+", "-", " ", "\\ No newline\n",
                     "name: ", "tools: [", "description: |\n  ", ": ", "{", "}", "[", "]", '"', "'", "=", "x = ", "[a.b]\n", "#", "&a ", "*a", "!!python/object:os.system ", "<<: "])
    | ODD_TEXT,
    max_size=14,
).map("".join)  # fmt: skip


@contextmanager
def refusing(kind: type[FridayError]) -> Iterator[None]:
    """Allows a refusal with `kind` and one line of text."""
    text = "not refused"
    try:
        yield
    except kind as error:
        text = str(error)
    assert text.splitlines() == [text]


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@given(LINES, st.booleans(), st.binary(max_size=6))
def test_a_profile_or_a_line_about_it(text: str, framed: bool, junk: bytes) -> None:
    raw = as_bytes(f"---\nname: x\n{text}\n---\nbody" if framed else text) + junk
    for origin in ("user", "project"):
        with refusing(FileError):
            assert profile("x.md", raw, origin=origin).name


@given(LINES, st.booleans())
def test_a_command_of_ones_own_or_a_line_about_it(text: str, framed: bool) -> None:
    with refusing(FileError):
        assert commands.parse("x.md", "x", as_bytes(f"---\n{text}\n---\nbody" if framed else text), "user").name == "x"


@given(LINES)
@example("[permissions]\nallow = [1]")
@example("a = " + "[" * 300)
def test_settings_or_a_line_about_them(text: str) -> None:
    with refusing(FileError):
        assert isinstance(loader.parse("config.toml", text), dict)


@given(st.binary(max_size=200) | LINES.map(as_bytes), st.lists(st.integers(0, 200), max_size=5))
def test_a_stream_gives_the_same_events_wherever_it_is_cut(raw: bytes, cuts: list[int]) -> None:
    whole = SSEParser()
    expected = [*whole.feed(raw), *whole.close()]
    parts, at = SSEParser(), 0
    found = []
    for cut in [*sorted(min(c, len(raw)) for c in cuts), len(raw)]:
        found += parts.feed(raw[at:cut])
        at = cut
    assert [*found, *parts.close()] == expected


@given(ODD_TEXT | LINES | st.text('0123456789eE+-.,:{}[]"\\ntrufalsN ', max_size=40))
@example('{"a":' * 500)
@example("9" * 5000)
@example("[" * 900 + "]" * 900)
def test_arguments_are_an_object_or_words(text: str) -> None:
    found, why = parse_arguments(text)
    assert isinstance(found, dict)
    assert (why == "") or (found == {} and "\n" not in why)
    try:
        decode(text)
    except ValueError:
        pass


def read_reply(wire: Wire, found: list[Any]) -> None:
    """Read a reply to its end, as the providers do."""
    streams = {"messages": AnthropicStream, "chat": ChatStream, "responses": ResponsesStream}
    reply = streams[wire](HERE, "own/m", REQUEST)
    for event in found:
        list(reply.feed(event))
    usage = reply.finish().usage
    assert min(usage.input, usage.output, usage.cache_read, usage.cache_write) >= 0


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every value in nested JSON, as its container and key."""
    if not isinstance(value, dict | list):
        return []
    keys = range(len(value)) if isinstance(value, list) else list(value)
    return [place for key in keys for place in ((value, key), *places(value[key]))]


REPLY = Say(("The answer ", "is."), [("grep", {"x": 1}), ("grep", '{"x"')], thinking="hm")
KEYS = st.sampled_from(
    ["type", "index", "delta", "id", "usage", "error", "content", "choices", "item", "sequence_number", "output_index"]
)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "odd", [["\ud800"], {"\ud800": 1}, decode("[" * 150 + '"\\ud800"' + "]" * 150)], ids=["half", "key", "deep"]
)
def test_a_reply_with_something_odd_in_any_place_is_read_or_fails_as_a_reply(wire: Wire, odd: Any) -> None:
    found = [event for event in copy.deepcopy(events(wire, REPLY)) if isinstance(event, dict)]
    for container, key in places(found):
        held, container[key] = container[key], odd
        with refusing(ProviderError):
            read_reply(wire, [event for event in found if isinstance(event, dict)])
        container[key] = held


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_a_reply_that_strays_in_any_way_is_read_or_fails_as_a_reply(wire: Wire, data: st.DataObject) -> None:
    found = [event for event in copy.deepcopy(events(wire, REPLY)) if isinstance(event, dict)]
    for _ in range(data.draw(st.integers(1, 4))):
        change = data.draw(st.sampled_from(["value", "value", "gone", "more", "event twice", "event gone", "swap"]))
        if change.startswith("event") or change == "swap":
            at = data.draw(st.integers(0, len(found) - 1))
            if change == "swap":
                found[at], found[0] = found[0], found[at]
            elif change == "event twice":
                found.insert(at, copy.deepcopy(found[at]))
            elif len(found) > 1:
                found.pop(at)
            continue
        container, key = data.draw(st.sampled_from(places(found)))
        if change == "value" and container is not found:
            container[key] = data.draw(ODD)
        elif change == "gone" and isinstance(container, dict):
            del container[key]
        elif isinstance(container, dict):
            container[data.draw(KEYS)] = data.draw(ODD)
    with refusing(ProviderError):
        read_reply(wire, found)


def sound(strips: list[Any], width: int) -> None:
    for strip in strips:
        assert sanitize(strip.text) == strip.text
        assert strip.cell_length <= max(width, 4) + 2


@given(LINES, WIDTHS)
def test_markdown_becomes_lines_without_escapes(text: str, width: int) -> None:
    sound(draw(text, PEN, width), width)


@given(st.lists(LINES, max_size=4), WIDTHS)
def test_markdown_that_grows_ends_as_the_whole(pieces: list[str], width: int) -> None:
    growing, text = GrowingMarkdown(), ""
    for piece in pieces:
        text += piece
        sound(growing.strips(text, PEN, width), width)


@given(LINES, WIDTHS)
def test_a_diff_becomes_lines_without_escapes(text: str, width: int) -> None:
    sound(draw_diff(f"@@ -1,2 +1,2 @@\n{text}", PEN, width, most=200), width)
    sound(draw_diff(text, PEN, width, most=200), width)


@pytest.mark.parametrize("read", [markdown, html_text])
@given(
    text=st.lists(
        st.sampled_from(
            [
                "<a href='",
                "<a href=//x>",
                "<table><tr><td>",
                "</td>",
                "<script>",
                "<!--",
                "-->",
                "<pre>",
                "<![CDATA[",
                "<li>",
                "<ul>",
                "&#99999999;",
                "&nbsp;",
                "<h1>",
                ">",
            ]
        )
        | ODD_TEXT,
        max_size=12,
    ).map("".join)
)
def test_a_web_page_becomes_text(read: Callable[..., str], text: str) -> None:
    assert isinstance(read(text, url="https://e.org/a"), str)


@given(
    st.binary(max_size=80),
    st.sampled_from(
        ["text/html", "text/html; charset=", "text/html; charset=x", "text/plain; charset=utf-16", 'a; charset="utf-8']
    )
    | ODD_TEXT,
)
def test_the_bytes_of_a_web_page_become_text(body: bytes, kind: str) -> None:
    assert isinstance(decoded(body, kind), str)
