"""Holds raw TOML against the settings: which key is wrong, what is wrong with it, and what was meant."""

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
_SECRETS = frozenset(("key", "api_key", "apikey", "token", "auth_token", "secret", "password"))


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with the key `path`, and what to do about it."""

    path: tuple[str, ...]
    text: str
    hint: str = ""


@functools.cache
def fields(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The types of a struct's fields, by name."""
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def struct_in(kind: Any) -> type[msgspec.Struct] | None:
    """The struct that a table of type `kind` is made of: the type itself, or the values of a dict."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if get_origin(kind) is dict:
        inner = get_args(kind)[1]
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            return inner
    return None


def kind_of(path: tuple[str, ...]) -> Any:
    """The type of the setting at `path`. Raises KeyError when there is none."""
    kind: Any = Settings
    for name in path:
        struct = struct_in(kind)
        if struct is None:
            raise KeyError(name)
        kind = struct if get_origin(kind) is dict else fields(struct)[name]
    return kind


def names(struct: type[msgspec.Struct] = Settings, prefix: str = "") -> Iterator[str]:
    """The dotted names of all settings; `NAME` stands for a provider's name."""
    for name, kind in fields(struct).items():
        inner = struct_in(kind)
        if inner is None:
            yield prefix + name
        else:
            yield from names(inner, f"{prefix}{name}." + ("NAME." if get_origin(kind) is dict else ""))


def problems(data: Mapping[str, Any], kind: Any = Settings, path: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Everything in `data` that does not fit the settings, in the file's order."""
    struct = struct_in(kind)
    assert struct is not None
    named = get_origin(kind) is dict
    known = fields(struct)
    for key, value in data.items():
        here = (*path, key)
        if named:
            if not PROVIDER_NAME().fullmatch(key):
                yield Problem(here, "a provider's name has small letters, digits, - and _ only")
            inner: Any = struct
        elif key not in known:
            yield _unknown(here, struct)
            continue
        else:
            inner = known[key]
        if struct_in(inner) is not None:
            if isinstance(value, Mapping):
                yield from problems(value, inner, here)
            else:
                yield Problem(here, f"expected a table, got {_toml_type(value)}")
        elif (text := misfit(value, inner)) is not None:
            yield Problem(here, text)


def misfit(value: object, kind: Any) -> str | None:
    """Why `value` cannot be a `kind`, in words; None when it can."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text = str(error)
    else:
        return None
    if f"<= {LONGEST}" in text:
        return f"{value} seconds is more than a day: looks like milliseconds (durations are in seconds)"
    if "matching regex" in text:
        # the pattern and the value stay out of the sentence: someone may have put a key here
        return (
            "expected an http:// or https:// address without a password in it"
            if "http" in text
            else "expected the NAME of an environment variable, such as MY_API_KEY (not the key itself)"
        )
    if "Invalid enum value" in text:
        values = [str(choice).lower() for choice in get_args(kind) if choice != ""]
        return f"must be {values[0]}" if len(values) == 1 else f"{value!r} is none of {', '.join(values)}"
    text = re.sub(r" - at `\$.*`$", "", text).replace("`", "")
    for word, name in (
        ("str", "text"),
        ("int", "a whole number"),
        ("float", "a number"),
        ("bool", "true or false"),
        ("array", "a list"),
        ("object", "a table"),
        ("null", "nothing"),
    ):
        text = re.sub(rf"\b{word}\b", name, text)
    return text[0].lower() + text[1:].replace(" | nothing", "")


def _unknown(path: tuple[str, ...], struct: type[msgspec.Struct], *, within: str = "") -> Problem:
    if path[-1].lower().replace("-", "_") in _SECRETS and path[0] == "providers":
        return Problem(
            path,
            "keys do not stand in this file.",
            f"Use `friday auth set {path[1]}`, or name an environment variable with key_env.",
        )
    return Problem(path, UNKNOWN, _meant_in(path, struct, within=within))


def meant(path: tuple[str, ...]) -> str:
    """What to do about `path`, which is no setting: the one that was probably meant, by its whole name."""
    for depth in range(len(path) - 1, 0, -1):
        try:
            struct = struct_in(kind_of(path[:depth]))
        except KeyError:
            continue
        if struct is not None:
            problem = _unknown(path[: depth + 1], struct, within=f"{'.'.join(path[:depth])}.")
            return problem.hint if problem.text == UNKNOWN else f"{problem.text.capitalize()} {problem.hint}"
    return _meant_in(path[:1])


def _meant_in(path: tuple[str, ...], struct: type[msgspec.Struct] = Settings, *, within: str = "") -> str:
    """A sentence naming the setting that was probably meant (`within` stands before its name), or those that exist at
    that place."""

    def plain(name: str) -> str:
        return re.sub(r"[^a-z0-9]", "", name.lower())

    asked = plain(path[-1])
    here = {plain(name): name for name in fields(struct)}
    if close := closest_match(asked, here):
        return f"Did you mean {within}{here[close]}?"
    ends: dict[str, str] = {}
    for name in names():
        ends.setdefault(plain(name.rpartition(".")[2]), name)
    if close := closest_match(asked, ends, 0.75):
        return f"Did you mean {ends[close]}?"
    return f"Known here: {', '.join(fields(struct))}."


def _toml_type(value: object) -> str:
    for kinds, name in (
        (bool, "true or false"),
        (str, "text"),
        ((int, float), "a number"),
        (list, "a list"),
        (dict, "a table"),
    ):
        if isinstance(value, kinds):
            return name
    return "a date"
