"""Validates raw TOML data against the settings; errors name the key and suggest a correction."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

import msgspec

from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.suggest import closest_match

from .settings import LONGEST, Settings

PROVIDER_NAME = pattern(r"[a-z0-9][a-z0-9_-]*")
UNKNOWN = "unknown key."
_TYPE_NAMES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
"""What messages call the types of `msgspec`."""
_SECRETS = frozenset(("key", "api_key", "apikey", "token", "auth_token", "secret", "password"))


class Problem(msgspec.Struct, frozen=True):
    """An invalid key: its `path`, the problem, and a hint for correcting it."""

    path: tuple[str, ...]
    text: str
    hint: str = ""


@functools.cache
def fields(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The types of a struct's fields, by name."""
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def struct_in(kind: Any) -> type[msgspec.Struct] | None:
    """The struct of a table of type `kind`: the type itself, or the value type of a dict; None for other types."""
    inner = get_args(kind)[1] if get_origin(kind) is dict else kind
    return inner if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else None


def kind_of(path: tuple[str, ...]) -> Any:
    """The type of the setting at `path`. Raises KeyError if there is none."""
    kind: Any = Settings
    for name in path:
        struct = struct_in(kind)
        if struct is None:
            raise KeyError(name)
        kind = struct if get_origin(kind) is dict else fields(struct)[name]
    return kind


def names(struct: type[msgspec.Struct] = Settings, prefix: str = "") -> Iterator[str]:
    """The dotted names of all settings; `NAME` is a placeholder for a provider's name."""
    for name, kind in fields(struct).items():
        inner = struct_in(kind)
        if inner is None:
            yield prefix + name
        else:
            yield from names(inner, f"{prefix}{name}." + ("NAME." if get_origin(kind) is dict else ""))


def problems(data: Mapping[str, Any], kind: Any = Settings, path: tuple[str, ...] = ()) -> Iterator[Problem]:
    """All invalid keys and values in `data`, in the order of the file."""
    struct = struct_in(kind)
    assert struct is not None
    named = get_origin(kind) is dict
    known = fields(struct)
    for key, value in data.items():
        key_path = (*path, key)
        if named:
            if not PROVIDER_NAME().fullmatch(key):
                yield Problem(key_path, "a provider's name can only have lower-case letters, digits, - and _")
            inner: Any = struct
        elif key not in known:
            yield _unknown(key_path, struct)
            continue
        else:
            inner = known[key]
        if struct_in(inner) is not None:
            if isinstance(value, Mapping):
                yield from problems(value, inner, key_path)
            else:
                yield Problem(key_path, f"expected a table, got {_toml_type(value)}")
        elif (text := type_error(value, inner)) is not None:
            yield Problem(key_path, text)


def type_error(value: object, kind: Any) -> str | None:
    """Why `value` is not a valid `kind`, for the user; None if it is valid."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text = str(error)
    else:
        return None
    if f"<= {LONGEST}" in text:
        return f"{value} seconds is more than a day: this looks like milliseconds (durations are in seconds)"
    if "matching regex" in text:
        # the message must not contain the value: it may be a key
        return (
            "expected an http:// or https:// URL without a password"
            if "http" in text
            else "expected the NAME of an environment variable, such as MY_API_KEY (not the key itself)"
        )
    if "Invalid enum value" in text:
        values = [str(choice).lower() for choice in get_args(kind) if choice != ""]
        return f"must be {values[0]}" if len(values) == 1 else f"{value!r} is not one of {', '.join(values)}"
    text = re.sub(r" - at `\$.*`$", "", text).replace("`", "")
    for word, name in _TYPE_NAMES.items():
        text = re.sub(rf"\b{word}\b", name, text)
    return text[0].lower() + text[1:].replace(" | nothing", "")


def _unknown(path: tuple[str, ...], struct: type[msgspec.Struct], *, within: str = "") -> Problem:
    if path[-1].lower().replace("-", "_") in _SECRETS and path[0] == "providers":
        hint = f"Use `friday auth set {path[1]}`, or name an environment variable with key_env."
        return Problem(path, "keys cannot be stored in this file.", hint)
    return Problem(path, UNKNOWN, _suggestion_in(path, struct, within=within))


def suggestion(path: tuple[str, ...]) -> str:
    """A hint for the unknown setting `path`: the full name of the one that was probably meant."""
    for depth in range(len(path) - 1, 0, -1):
        try:
            struct = struct_in(kind_of(path[:depth]))
        except KeyError:
            continue
        if struct is not None:
            problem = _unknown(path[: depth + 1], struct, within=f"{'.'.join(path[:depth])}.")
            return problem.hint if problem.text == UNKNOWN else f"{problem.text.capitalize()} {problem.hint}"
    return _suggestion_in(path[:1])


def _suggestion_in(path: tuple[str, ...], struct: type[msgspec.Struct] = Settings, *, within: str = "") -> str:
    """The setting that was probably meant (`within` is the prefix of its name), or the known settings of the table."""

    def normalized(name: str) -> str:
        return re.sub(r"[^a-z0-9]", "", name.lower())

    wanted = normalized(path[-1])
    in_table = {normalized(name): name for name in fields(struct)}
    if close := closest_match(wanted, in_table):
        return f"Did you mean {within}{in_table[close]}?"
    by_key: dict[str, str] = {}
    for name in names():
        by_key.setdefault(normalized(name.rpartition(".")[2]), name)
    if close := closest_match(wanted, by_key, 0.75):
        return f"Did you mean {by_key[close]}?"
    return f"Known here: {', '.join(fields(struct))}."


def _toml_type(value: object) -> str:
    kinds = ((bool, "true or false"), (str, "text"), ((int, float), "a number"), (list, "a list"), (dict, "a table"))
    for kind, name in kinds:
        if isinstance(value, kind):
            return name
    return "a date"
