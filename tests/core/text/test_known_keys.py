"""Keys are masked by their value, in texts, structs and streams, and their variables reach no child process."""

from __future__ import annotations

import json

import pytest

from friday_cli.cli.output import show_json
from friday_cli.core.protocol.events import MessageAdded
from friday_cli.core.protocol.messages import Message, Text, ToolCall, ToolResult
from friday_cli.core.text import known_keys
from friday_cli.core.text.known_keys import StreamMasker, mask_keys, mask_keys_in, without_keys
from friday_cli.core.text.sanitize import mask, sanitize

KEY, LONGER = "plain value", "plain value and more"


@pytest.fixture(autouse=True)
def remembered() -> None:
    known_keys.remember((KEY, LONGER, "short", "lm-studio"), ("MYSVC",))


@pytest.mark.parametrize("clean", [mask_keys, sanitize, mask])
def test_values_are_masked_the_longest_first(clean: object) -> None:
    assert callable(clean)
    text = f"<{LONGER}> {KEY}, short and lm-studio"
    assert clean(text) == "<[secret]> [secret], short and lm-studio"


@pytest.mark.parametrize("inside", ["\x1b[01;31m", "\x1b]0;x\x07", "\u200b", "\x00", "\u202e", "\U00013437"])
def test_a_key_is_masked_that_only_hidden_characters_divide(inside: str) -> None:
    """grep colours its match."""
    assert sanitize(f"<{KEY[:4]}{inside}{KEY[4:]}>") == "<[secret]>"


def test_all_strings_of_an_event_are_masked_and_others_are_the_same_object() -> None:
    call = ToolCall("c1", "bash", {"command": f"echo {KEY}", "list": [KEY, 1], KEY: None})
    event = MessageAdded(Message("assistant", (Text(f"it is {KEY}"), call)))
    masked = mask_keys_in(event)
    assert masked.message.text == "it is [secret]"
    assert masked.message.calls[0].arguments == {"command": "echo [secret]", "list": ["[secret]", 1], "[secret]": None}
    plain = MessageAdded(Message("tool", (ToolResult("c1", "plain"),)))
    assert mask_keys_in(plain) is plain


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_a_stream_is_masked_wherever_it_is_cut(size: int) -> None:
    data = f"a{KEY}b plain {LONGER}{KEY[:4]}".encode()
    masker = StreamMasker()
    pieces = [masker.feed(data[at : at + size]) for at in range(0, len(data), size)]
    out = b"".join([*pieces, masker.feed(b"", last=True)])
    assert KEY.encode() not in out
    assert out.replace(b"[secret] and more", b"[secret]") == b"a[secret]b plain [secret]plai"


def test_a_key_that_is_not_valid_text_is_masked_as_well() -> None:
    """A variable of the environment can have any bytes."""
    known_keys.remember((broken := "key-\udcff-of-bytes", KEY))
    assert mask_keys_in(f"{broken} {KEY}") == "[secret] [secret]"


def test_no_variable_with_a_key_is_passed() -> None:
    environ = {"MYSVC": "x", "COPY": f"with {KEY}", "PATH": "/bin"}
    assert without_keys(environ) == {"PATH": "/bin"}


def test_a_key_of_digits_does_not_break_the_numbers_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    known_keys.remember(["17123456"])
    show_json({"at": 1712345678.5, "text": "it is 17123456"})
    assert json.loads(capsys.readouterr().out) == {"at": 1712345678.5, "text": "it is [secret]"}
