"""The arguments of a tool call, read the way every provider needs it."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import msgspec

from friday_cli.core.protocol.messages import ToolCall

from .text import deeper_than, whole, whole_json

DEPTH_LIMIT = 100
"""Levels of nesting that arguments may have."""
RAW_LIMIT = 64 * 1024
"""Characters kept of arguments that cannot be read."""
_KINDS = {list: "an array", str: "a string", bool: "true or false", int: "a number", float: "a number"}


def call_of(call_id: str, name: str, text: str) -> ToolCall:
    """The call with the arguments in `text`, or with `error` and `raw` where they are no JSON object."""
    arguments, error = parse_arguments(text)
    return ToolCall(call_id, name, arguments, error, whole(text[:RAW_LIMIT]) if error else "")


def as_text(arguments: Any) -> str:
    """JSON text of arguments that a service sent as a value."""
    return msgspec.json.encode(whole_json(arguments)).decode()


def parse_arguments(text: str) -> tuple[dict[str, Any], str]:
    """The arguments and "", or {} and the reason, in words for the model, why they cannot be read.

    No text at all means no arguments. Raw control characters in strings are taken; null, arrays, strings, NaN,
    numbers beyond 64 bits, a key twice, trailing text and nesting beyond `DEPTH_LIMIT` are not.
    """
    if not text.strip():
        return {}, ""
    try:
        value = json.loads(
            text, strict=False, object_pairs_hook=_unique, parse_constant=_constant, parse_float=_float, parse_int=_int
        )
        deep = deeper_than(value, DEPTH_LIMIT)
    except RecursionError:
        deep, value = True, None
    except json.JSONDecodeError as error:
        return {}, f"the arguments are no valid JSON: {error.msg} at character {error.pos} of {len(text)}"
    except ValueError as error:
        return {}, f"the arguments cannot be used: {whole(str(error))}"
    if deep:
        return {}, f"the arguments are nested deeper than {DEPTH_LIMIT} levels"
    if not isinstance(value, dict):
        kind = "null" if value is None else _KINDS[type(value)]
        return {}, f"the arguments must be a JSON object, not {kind}"
    return (whole_json(value) if "\\ud" in text.lower() or whole(text) != text else value), ""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:80]!r} stands twice in one object")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _int(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= (value := int(text)) < 2**64:
        raise ValueError(f"the number {text[:40]} has more than 64 bits")
    return value
