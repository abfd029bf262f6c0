"""The JSON of a request: `encode` turns a body into pieces of bytes, some of which may be from an earlier request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from friday_cli.core.text.known_keys import contain_keys, mask_keys_in

from .text import replace_surrogates_in

_PLACEHOLDER = b"\0"
"""Never part of JSON text, in which control characters are escaped."""


class EncodedList(NamedTuple):
    """A list of a body that is encoded already: `pieces` joined are the JSON text between the brackets. `marked`: the end of
    the request before has a cache breakpoint."""

    pieces: Sequence[bytes]
    marked: bool = False


def encode(body: dict[str, Any]) -> list[bytes]:
    """The pieces of `body` as JSON. At most one value of it is an `EncodedList`."""
    name = next((name for name, value in body.items() if isinstance(value, EncodedList)), None)
    if name is None:
        return [encode_value(body)]
    before, _, after = encode_value({**body, name: msgspec.Raw(_PLACEHOLDER)}).partition(_PLACEHOLDER)
    return [before + b"[", *body[name].pieces, b"]" + after]


def encode_value(value: Any) -> bytes:
    """`value` as JSON; characters that UTF-8 cannot encode are replaced, and known keys are masked."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        value = replace_surrogates_in(value)
        data = msgspec.json.encode(value)
    return msgspec.json.encode(mask_keys_in(value)) if contain_keys(data) else data
