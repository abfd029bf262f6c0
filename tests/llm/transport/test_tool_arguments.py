from __future__ import annotations

import functools
import json

import pytest

from friday_cli.core.protocol.messages import ToolCall
from friday_cli.llm.transport.tool_arguments import RAW_LIMIT, call_of, parse_arguments

GOOD = [
    ("", {}),
    (" \n", {}),
    ("{}", {}),
    ('{"a": 1, "b": [1, 2.5, null, true], "c": {"d": "é😀"}}', {"a": 1, "b": [1, 2.5, None, True], "c": {"d": "é😀"}}),
    ('{"a": "line\nbreak\ttab\x01"}', {"a": "line\nbreak\ttab\x01"}),
    ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
    ('{"a": "\\ud83d!"}', {"a": "\ufffd!"}),
    ('{"a": "\\UD83D"}'.replace("\\U", "\\u"), {"a": "\ufffd"}),
    (json.dumps({"n": 2**64 - 1, "m": -(2**63)}), {"n": 2**64 - 1, "m": -(2**63)}),
    ('{"a":' * 99 + "{}" + "}" * 99, functools.reduce(lambda inner, _: {"a": inner}, range(99), {})),
    (json.dumps({"content": "x" * 5_000_000}), {"content": "x" * 5_000_000}),
]
BAD = [("null", "null"), ("[1]", "an array"), ('"{\\"a\\": 1}"', "a string"), ("true", "true or false"), ("12", "a number"),
       ('{"a": NaN}', "NaN"), ('{"a": -Infinity}', "-Infinity"), ('{"a": 1e999}', "too large"),
       ('{"a": 18446744073709551616}', "64 bits"), ('{"a": ' + "9" * 5000 + "}", "64 bits"), ('{"a": 1, "a": 2}', "twice"),
       ('{"b": {"a": 1, "a": 2}}', "twice"), ('{"a": 1} and more', "character 9"), ('{"a": 1}{"a": 1}', "character 8"),
       ('{"a": "unfinis', "JSON"), ('{"a": 1', "JSON"), ("{'a': 1}", "JSON"), ('{"a":' * 100 + "{}" + "}" * 100, "nested"),
       ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "nested"), ("{" * 100_000, "JSON"), ("\x00", "JSON")]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), GOOD, ids=lambda v: str(v)[:20])
def test_arguments_that_can_be_used(text: str, value: dict[str, object]) -> None:
    assert parse_arguments(text) == (value, "")
    assert call_of("i", "n", text) == ToolCall("i", "n", value)


@pytest.mark.parametrize(("text", "words"), BAD, ids=lambda v: v[:20])
def test_arguments_that_cannot(text: str, words: str) -> None:
    value, error = parse_arguments(text)
    assert value == {}
    assert words in error
    assert len(error) < 300
    call = call_of("i", "n", text)
    assert (call.arguments, call.error, call.raw) == ({}, error, text[:RAW_LIMIT])
