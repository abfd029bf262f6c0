"""The keys that this process knows, masked by their value. One table for the process: a key has no form by which it could
be recognized, and text with it can come from any tool, service, file or session (docs/decisions/027-known-keys.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

MASK = "[secret]"
SHORTEST = 8
"""Characters of the shortest value that is masked: a shorter one is also part of ordinary words."""
_PLACEHOLDERS = frozenset(
    (
        "lm-studio",
        "not-needed",
        "placeholder",
        "no-key-required",
        "no-key-needed",
        "dummy-key",
        "password",
        "changeme",
        "anything",
    )
)
"""Values that people write where a local server needs no key."""

_Value = TypeVar("_Value")
_values: tuple[str, ...] = ()
_in_json: tuple[bytes, ...] = ()
_variables: frozenset[str] = frozenset()


def remember(values: Iterable[str], variables: Iterable[str] = ()) -> None:
    """Mask these values from now on. `variables` are environment variables of keys, which no child process gets."""
    global _values, _in_json, _variables
    found = {v for v in values if len(v) >= SHORTEST and v not in _PLACEHOLDERS}
    if not found.issubset(_values):
        _values = tuple(
            sorted({*_values, *found}, key=len, reverse=True)
        )  # a key that contains another one comes first
        _in_json = tuple(map(_encoded, _values))
    _variables = _variables.union(variables)


def _encoded(value: str) -> bytes:
    """A value as it is inside JSON text."""
    try:
        return msgspec.json.encode(value)[1:-1]
    except UnicodeEncodeError:  # a lone surrogate, which no JSON text has
        return value.encode("utf-8", "surrogatepass")


def forget() -> None:
    """Forget all keys and variables."""
    global _values, _in_json, _variables
    _values, _in_json, _variables = (), (), frozenset()


def known_keys() -> tuple[str, ...]:
    """The values that are masked, longest first."""
    return _values


def is_key_variable(name: str) -> bool:
    """Whether a remembered environment variable has this name."""
    return name in _variables


def mask_keys(text: str) -> str:
    """`text` with each remembered key replaced by `[secret]`."""
    for value in _values:
        if value in text:
            text = text.replace(value, MASK)
    return text


def mask_keys_in(value: _Value) -> _Value:
    """`value` (a struct, JSON data or a text) with the remembered keys masked in all its strings. The same object if it
    contains none."""
    return _masked(value) if _values and _may_contain_keys(value) else value


def _may_contain_keys(value: Any) -> bool:
    """Whether a key may be in `value`: its JSON is searched faster than its strings one by one."""
    try:
        return contain_keys(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return True


def contain_keys(data: bytes) -> bool:
    """Whether JSON text contains a remembered key."""
    return any(map(data.__contains__, _in_json))


def without_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without the variables of keys, and without those that contain a remembered key."""
    return {name: text for name, text in environ.items() if name not in _variables and mask_keys(text) is text}


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask_keys(value)
    if isinstance(value, msgspec.Struct):
        changed = {}
        for name in value.__struct_fields__:
            old = getattr(value, name)
            if (new := _masked(old)) is not old:
                changed[name] = new
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, dict):
        masked = {_masked(name): _masked(item) for name, item in value.items()}
        return value if masked == value else masked
    if isinstance(value, list | tuple):
        items = [_masked(item) for item in value]
        same = all(old is new for old, new in zip(value, items, strict=True))
        return value if same else tuple(items) if isinstance(value, tuple) else items
    return value


class StreamMasker:
    """Masks the remembered keys in a stream of bytes. Bytes at the end that may begin a key wait for the next piece."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes, *, last: bool = False) -> bytes:
        """The bytes that are certain now; with `last` all of them."""
        keys = [value.encode("utf-8", "replace") for value in _values]
        data, self._held = self._held + data, b""
        for key in keys:
            data = data.replace(key, MASK.encode())
        if not last and keys:
            longest = min(len(keys[0]) - 1, len(data))
            held = next((n for n in range(longest, 0, -1) if any(key.startswith(data[-n:]) for key in keys)), 0)
            data, self._held = data[: len(data) - held], data[len(data) - held :]
        return data
