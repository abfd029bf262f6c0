"""Changes one key of the user's settings file and keeps the rest, comments and layout included."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from friday_cli import atomic_file
from friday_cli.core.protocol.errors import FridayError, UsageError

from . import validate
from .loader import parse, text, user_file


class SavedSetting(msgspec.Struct, frozen=True):
    """What was written where; `value` is None for a removed key."""

    path: Path
    value: object


def set_value(name: str, written: str, *, file: Path | None = None) -> SavedSetting:
    """Set the dotted `name` to what a person typed: TOML (`true`, `5`, `["a", "b"]`) or plain text.

    Raises UsageError for an unknown name or a value that does not fit, FileError when the file is already wrong,
    FridayError when it cannot be written.
    """
    parts = tuple(name.split("."))
    value = value_of(parts, written)
    return _change(parts, lambda _: value, file) or SavedSetting(_path(file), value)


def unset_value(name: str, *, file: Path | None = None) -> SavedSetting | None:
    """Remove the dotted `name`, so that the default holds; None where the file does not have it. Raises as `set_value`."""
    parts = tuple(name.split("."))
    _leaf(parts)
    return _change(parts, lambda _: None, file)


def add_value(name: str, item: str, *, file: Path | None = None) -> SavedSetting | None:
    """Append `item` to the list `name`; None where it is in it already. Raises FileError and FridayError as `set_value`."""
    return _change(tuple(name.split(".")), lambda old: old if item in (old or ()) else [*(old or ()), item], file)


def remove_value(name: str, item: str, *, file: Path | None = None) -> SavedSetting | None:
    """Remove `item` from the list `name`; None where it is not in it. Raises FileError and FridayError as `set_value`."""
    return _change(
        tuple(name.split(".")),
        lambda old: [entry for entry in old if entry != item] if item in (old or ()) else old,
        file,
    )


def _path(file: Path | None) -> Path:
    """The file to write: a settings file is often a link into a folder of dotfiles."""
    return Path(os.path.realpath(file or user_file()))


def _change(parts: tuple[str, ...], change: Callable[[Any], Any], file: Path | None) -> SavedSetting | None:
    """Replace a key's present value (None: there is none) by what `change` returns; None where that is the same object."""
    path = _path(file)
    try:
        with atomic_file.locked(path):
            old = text(path)
            data = parse(str(path), old)
            present: Any = data
            for part in parts:
                present = present.get(part) if isinstance(present, dict) else None
            value = change(present)
            if value is present:
                return None
            _put(data, parts, value)
            new = _edited(path, old, parts, value, data)
            parse(str(path), new)
            atomic_file.replace(path, new)
    except OSError as error:
        raise FridayError(f"{path} cannot be written: {error.strerror}.") from None
    return SavedSetting(path, value)


def value_of(parts: tuple[str, ...], written: str) -> Any:
    """What `written` means for the setting `parts`. Raises UsageError."""
    name = ".".join(parts)
    kind = _leaf(parts)
    if (problem := next(validate.problems(_nest(parts, _FitsNothing())), None)) and problem.path != parts:
        raise UsageError(f"{'.'.join(problem.path)}: {problem.text}.")
    guesses: list[Any] = [written]
    try:
        guesses.insert(0, tomllib.loads(f"x = {written}")["x"])
    except (tomllib.TOMLDecodeError, RecursionError):
        pass
    guesses.append([part.strip() for part in written.split(",") if part.strip()])
    for guess in guesses:
        if validate.misfit(guess, kind) is None:
            return guess
    raise UsageError(f"{name}: {validate.misfit(guesses[0], kind)}.")


def _leaf(parts: tuple[str, ...]) -> Any:
    """The type of the setting `parts`. Raises UsageError where there is none, or where it is a table."""
    name = ".".join(parts)
    try:
        kind = validate.kind_of(parts)
    except KeyError:
        raise UsageError(f"There is no setting {name}.", hint=validate.meant(parts)) from None
    if validate.struct_in(kind) is not None:
        raise UsageError(f"{name} is a table.", hint=f"Name one of its keys, such as {_inside(name)}.")
    return kind


class _FitsNothing:
    """Fits no setting."""


def _inside(name: str) -> str:
    start = "providers.NAME" if name.startswith("providers") else name
    found = next(known for known in validate.names() if known.startswith(start + "."))
    return found.replace("providers.NAME", name, 1) if name.count(".") else found


def _edited(path: Path, old: str, parts: tuple[str, ...], value: object, data: dict[str, Any]) -> str:
    """The file's text with one key replaced, added or (None) removed, which means `data`. Raises FridayError."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    plain = old.replace("\r\n", "\n")
    try:
        document = tomlkit.parse(plain if not plain or plain.endswith("\n") else plain + "\n")
        _put(document, parts, value)
        new = document.as_string()
        if tomllib.loads(new) == data:
            return new.replace("\n", "\r\n") if "\r\n" in old else new
    except (TOMLKitError, tomllib.TOMLDecodeError):
        pass  # dotted keys and tables in an unusual order: tomlkit writes some of them wrongly
    name = ".".join(parts)
    raise FridayError(f"{path} was not changed: {name} cannot be added to its layout.", hint="Edit the file by hand.")


def _nest(parts: tuple[str, ...], value: object) -> Any:
    for part in reversed(parts):
        value = {part: value}
    return value


def _put(data: Any, parts: tuple[str, ...], value: Any) -> None:
    """Change one key of plain data or of a document; the items that stay in a list keep their comments."""
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
