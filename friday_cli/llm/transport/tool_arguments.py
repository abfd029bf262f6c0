"""Tool calls, for all providers: parses their JSON arguments; names and ids that a service accepts."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NoReturn

import msgspec

from friday_cli.core.protocol.messages import ToolCall
from friday_cli.core.text.lazy_regex import pattern

from .text import deeper_than, replace_surrogates, replace_surrogates_in

DEPTH_LIMIT = 100
"""Maximum levels of nesting in arguments."""
RAW_LIMIT = 64 * 1024
"""Characters kept of arguments that cannot be parsed."""
INCOMPLETE_CALL = "the reply reached its output limit before the arguments were complete; the call was not run"
"""The error of a call whose arguments were cut off at the output limit."""
_SHORT_ID = pattern(r"[A-Za-z0-9]{9}")
_KINDS = {list: "an array", str: "a string", bool: "true or false", int: "a number", float: "a number"}


def call_of(call_id: str, name: str, text: str) -> ToolCall:
    """The call with the arguments in `text`; with `error` and `raw` if they are not a JSON object."""
    arguments, error = parse_arguments(text)
    return ToolCall(call_id, name, arguments, error, replace_surrogates(text[:RAW_LIMIT]) if error else "")


def incomplete(call: ToolCall) -> ToolCall:
    """The last call of a reply that reached its output limit: with an error if its arguments are not complete."""
    if call.error or not call.arguments:
        return msgspec.structs.replace(call, arguments={}, error=INCOMPLETE_CALL)
    return call


def as_text(arguments: Any) -> str:
    """JSON text of arguments that a service sent as a JSON value instead of a string."""
    return msgspec.json.encode(replace_surrogates_in(arguments)).decode()


def api_tool_name(name: str) -> str:
    """A tool name of letters, digits, `_` and `-`, at most 64 characters; a model can invent any name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def api_call_id(call_id: str, valid: re.Pattern[str], *, short: bool = False) -> str:
    """A call id: unchanged if it matches `valid`, else a hash of it, always the same. `short`: nine letters and digits,
    because the chat templates of Mistral, which any server can use, refuse others."""
    if (_SHORT_ID() if short else valid).fullmatch(call_id):
        return call_id
    return short_hash(call_id) if short else f"call_{short_hash(call_id, 24)}"


def short_hash(call_id: str, digits: int = 9) -> str:
    """The first hexadecimal digits of a hash of a call id."""
    return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:digits]


def parse_arguments(text: str) -> tuple[dict[str, Any], str]:
    """The arguments and "", or {} and an error message for the model.

    Empty text means no arguments. Raw control characters in strings are accepted. Not accepted: null, arrays,
    strings, NaN, numbers beyond 64 bits, duplicate keys, trailing text and nesting beyond `DEPTH_LIMIT`.
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
        return {}, f"the arguments are not valid JSON: {error.msg} at character {error.pos} of {len(text)}"
    except ValueError as error:
        return {}, f"the arguments cannot be used: {replace_surrogates(str(error))}"
    if deep:
        return {}, f"the arguments are nested deeper than {DEPTH_LIMIT} levels"
    if not isinstance(value, dict):
        kind = "null" if value is None else _KINDS[type(value)]
        return {}, f"the arguments must be a JSON object, not {kind}"
    return (replace_surrogates_in(value) if "\\ud" in text.lower() or replace_surrogates(text) != text else value), ""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        duplicate = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {duplicate[:80]!r} appears twice in one object")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _int(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= (value := int(text)) < 2**64:
        raise ValueError(f"the number {text[:40]} has more than 64 bits")
    return value
