"""Changes one key of the user's settings file and keeps the rest, including comments and layout."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.system import atomic_file

from . import validate
from .loader import kind_of, parse, text, user_file


class SavedSetting(msgspec.Struct, frozen=True):
    """The written value and its file; `value` is None for a removed key."""

    path: Path
    value: object


def set_value(name: str, written: str, *, file: Path | None = None) -> SavedSetting:
    """Set the dotted `name` to `written`: TOML (`true`, `5`, `["a", "b"]`) or plain text. Raises UsageError for an
    unknown name or an invalid value, FileError if the file is already invalid, FridayError if it cannot be written."""
    parts = tuple(name.split("."))
    value = value_of(parts, written)
    return _change(parts, lambda _: value, file) or SavedSetting(_path(file), value)


def unset_value(name: str, *, file: Path | None = None) -> SavedSetting | None:
    """Remove the dotted `name`, which restores the default. None if the file does not have it. Raises as `set_value`."""
    parts = tuple(name.split("."))
    _leaf(parts)
    return _change(parts, lambda _: None, file)


def add_value(name: str, item: str, *, file: Path | None = None) -> SavedSetting | None:
    """Append `item` to the list `name`. None if it is already in it. Raises FileError and FridayError as `set_value`."""
    return _change(tuple(name.split(".")), lambda old: old if item in (old or ()) else [*(old or ()), item], file)


def remove_value(name: str, item: str, *, file: Path | None = None) -> SavedSetting | None:
    """Remove `item` from the list `name`. None if it is not in it. Raises FileError and FridayError as `set_value`."""
    parts = tuple(name.split("."))
    return _change(parts, lambda old: [entry for entry in old if entry != item] if item in (old or ()) else old, file)


def _path(file: Path | None) -> Path:
    """The file to write, with symlinks resolved: a settings file is often a link into a dotfiles repository."""
    return Path(os.path.realpath(file or user_file()))


def _change(parts: tuple[str, ...], change: Callable[[Any], Any], file: Path | None) -> SavedSetting | None:
    """Replace a key's current value (None if it has none) by the result of `change`. None if it is the same object."""
    path = _path(file)
    try:
        with atomic_file.locked(path):
            old = text(path)
            data = parse(str(path), old)
            current: Any = data
            for part in parts:
                current = current.get(part) if isinstance(current, dict) else None
            value = change(current)
            if value is current:
                return None
            _put(data, parts, value)
            new = _edited(path, old, parts, value, data)
            parse(str(path), new)
            atomic_file.replace(path, new)
    except OSError as error:
        raise FridayError(f"{path} cannot be written: {error.strerror}.") from None
    return SavedSetting(path, value)


def value_of(parts: tuple[str, ...], written: str) -> Any:
    """The value of the text `written` for the setting `parts`. Raises UsageError."""
    kind = _leaf(parts)
    invalid = object()  # for every setting: a problem above the setting comes first
    if (problem := next(validate.problems(_nest(parts, invalid)), None)) and problem.path != parts:
        raise UsageError(f"{'.'.join(problem.path)}: {problem.text}.")
    guesses: list[Any] = [written]
    try:
        guesses.insert(0, tomllib.loads(f"x = {written}")["x"])
    except (tomllib.TOMLDecodeError, RecursionError):
        pass
    guesses.append([part.strip() for part in written.split(",") if part.strip()])
    for guess in guesses:
        if validate.type_error(guess, kind) is None:
            return guess
    raise UsageError(f"{'.'.join(parts)}: {validate.type_error(guesses[0], kind)}.")


def _leaf(parts: tuple[str, ...]) -> Any:
    """The type of the setting `parts`. Raises UsageError if it does not exist or is a table."""
    kind = kind_of(parts)
    if validate.struct_in(kind) is not None:
        name = ".".join(parts)
        start = "providers.NAME" if name.startswith("providers") else name
        found = next(known for known in validate.names() if known.startswith(start + "."))
        key = found.replace("providers.NAME", name, 1) if name.count(".") else found
        raise UsageError(f"{name} is a table.", hint=f"Use one of its keys, such as {key}.")
    return kind


def _edited(path: Path, old: str, parts: tuple[str, ...], value: object, data: dict[str, Any]) -> str:
    """The file's text with one key replaced, added or (None) removed; its data is `data`. Raises FridayError."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    unix = old.replace("\r\n", "\n")
    try:
        document = tomlkit.parse(unix if not unix or unix.endswith("\n") else unix + "\n")
        _put(document, parts, value)
        new = document.as_string()
        if tomllib.loads(new) == data:
            return new.replace("\n", "\r\n") if "\r\n" in old else new
    except (TOMLKitError, tomllib.TOMLDecodeError):
        pass  # tomlkit writes some dotted keys and tables in an unusual order incorrectly
    name = ".".join(parts)
    raise FridayError(f"{path} was not changed: {name} cannot be added to its layout.", hint="Edit the file by hand.")


def _nest(parts: tuple[str, ...], value: object) -> Any:
    for part in reversed(parts):
        value = {part: value}
    return value


def _put(data: Any, parts: tuple[str, ...], value: Any) -> None:
    """Change one key of a dict or a tomlkit document; remaining list items keep their comments."""
    key, *rest = parts
    if rest and key in data:
        _put(data[key], tuple(rest), value)
    elif value is None:
        del data[key]
    elif not rest and isinstance(value, list) and isinstance(known := data.get(key), list):
        kept = [entry for entry in known if entry in value]
        if value[: len(kept)] != kept:
            data[key] = value
            return
        for entry in [entry for entry in known if entry not in value]:
            known.remove(entry)
        known.extend(value[len(kept) :])
    else:
        data[key] = _nest(tuple(rest), value)
