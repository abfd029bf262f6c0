"""Changes one key of the user's settings file and leaves the rest, comments included, as it was."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from friday_cli import atomic_file
from friday_cli.core.protocol.errors import FridayError, UsageError

from . import validate
from .load import parse, text, user_file


class SavedSetting(msgspec.Struct, frozen=True):
    """What was written where; `backup` is the old file when its comments could not be kept."""

    path: Path
    value: object
    backup: Path | None = None


def set_value(name: str, written: str, *, file: Path | None = None) -> SavedSetting:
    """Set the dotted `name` to what a person typed: TOML (`true`, `5`, `["a", "b"]`) or plain text.

    Raises UsageError for an unknown name or a value that does not fit, FileError when the file is already wrong,
    FridayError when it cannot be written.
    """
    parts = tuple(name.split("."))
    value = value_of(parts, written)
    return _change(parts, value, file)


def unset_value(name: str, *, file: Path | None = None) -> SavedSetting | None:
    """Take the dotted `name` out of the file, so that the default holds; None where it is not in it. Raises as `set_value`."""
    parts = tuple(name.split("."))
    _leaf(parts)
    path = Path(os.path.realpath(file or user_file()))
    here: Any = parse(str(path), text(path))
    for part in parts:
        if not isinstance(here, dict) or part not in here:
            return None
        here = here[part]
    return _change(parts, _ABSENT, file)


def _change(parts: tuple[str, ...], value: Any, file: Path | None) -> SavedSetting:
    # a settings file is often a link into a folder of dotfiles: write what it points to
    path = Path(os.path.realpath(file or user_file()))
    try:
        with atomic_file.locked(path):
            old = text(path)
            data = parse(str(path), old)
            _put(data, parts, value)
            new = changed(old, parts, value)
            backup = None
            if not _same(new, data):
                new = tomli_w.dumps(data)
                backup = path.with_name(path.name + ".bak")
                atomic_file.replace(backup, old)
            parse(str(path), new)
            atomic_file.replace(path, new)
    except OSError as error:
        raise FridayError(f"{path} cannot be written: {error.strerror}.") from None
    return SavedSetting(path, value, backup)


def add_value(name: str, item: str, *, file: Path | None = None) -> SavedSetting | None:
    """Add `item` to the list of texts `name`; None where it is in it already. Raises as `set_value` does."""
    path = Path(os.path.realpath(file or user_file()))
    here: Any = parse(str(path), text(path))
    for part in name.split("."):
        here = here.get(part, {}) if isinstance(here, dict) else {}
    known = [str(entry) for entry in here] if isinstance(here, list) else []
    if item in known:
        return None
    return set_value(name, tomli_w.dumps({"x": [*known, item]}).partition("=")[2].strip(), file=file)


def remove_value(name: str, item: str, *, file: Path | None = None) -> SavedSetting | None:
    """Take `item` out of the list `name`; None when it is not in it. Raises as `set_value`."""
    path = Path(os.path.realpath(file or user_file()))
    here: Any = parse(str(path), text(path))
    for part in name.split("."):
        here = here.get(part, {}) if isinstance(here, dict) else {}
    known = [str(entry) for entry in here] if isinstance(here, list) else []
    if item not in known:
        return None
    left = [entry for entry in known if entry != item]
    return set_value(name, tomli_w.dumps({"x": left}).partition("=")[2].strip(), file=file)


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


_ABSENT = _FitsNothing()
"""In place of a value: the key goes."""


def _inside(name: str) -> str:
    start = "providers.NAME" if name.startswith("providers") else name
    found = next(known for known in validate.names() if known.startswith(start + "."))
    return found.replace("providers.NAME", name, 1) if name.count(".") else found


def changed(old: str, parts: tuple[str, ...], value: object) -> str:
    """`old` with one key replaced, added or (`_ABSENT`) taken out, nothing else touched."""
    end = "\r\n" if "\r\n" in old else "\n"
    lines = old.replace("\r\n", "\n").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    *table, key = parts
    entry = [] if value is _ABSENT else tomli_w.dumps({key: value}).strip().split("\n")
    start, stop, found = _table(lines, tuple(table))
    if not found and entry:
        if lines:
            lines.append("")
        lines += [f"[{'.'.join(table)}]", *entry]
    elif found:
        at = next((i for i in range(start, stop) if re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", lines[i])), None)
        if at is None:
            while stop > start and not lines[stop - 1].strip():
                stop -= 1
            lines[stop:stop] = entry
        else:
            last = _value_end(lines, at)
            comment = re.search(r"(?<=[\s\w\"'\]])\s+#.*$", lines[last]) if "#" in lines[last] else None
            if comment and len(entry) == 1 and "#" not in lines[last][: comment.start()]:
                entry = [entry[0] + comment.group(0)]
            lines[at : last + 1] = entry
    return end.join(lines) + end


def _table(lines: list[str], table: tuple[str, ...]) -> tuple[int, int, bool]:
    """Where the keys of `table` stand: first line, line after the last, and whether it is there."""
    headers = [
        (number, tuple(part.strip().strip("\"'") for part in match.group(1).split(".")))
        for number, line in enumerate(lines)
        if (match := re.match(r"\s*\[\[?([^\[\]]+)\]\]?\s*(#.*)?$", line))
    ]
    if not table:
        return 0, headers[0][0] if headers else len(lines), True
    for index, (number, name) in enumerate(headers):
        if name == table:
            return number + 1, headers[index + 1][0] if index + 1 < len(headers) else len(lines), True
    return 0, 0, False


def _value_end(lines: list[str], at: int) -> int:
    """The last line of the value that begins in line `at`."""
    for last in range(at, len(lines)):
        try:
            tomllib.loads("\n".join(lines[at : last + 1]))
        except tomllib.TOMLDecodeError:
            continue
        return last
    return at


def _nest(parts: tuple[str, ...], value: object) -> dict[str, Any]:
    data: dict[str, Any] = {}
    _put(data, parts, value)
    return data


def _put(data: dict[str, Any], parts: tuple[str, ...], value: object) -> None:
    *parents, last = parts
    for part in parents:
        data = data.setdefault(part, {})
    if value is _ABSENT:
        data.pop(last, None)
    else:
        data[last] = value


def _same(content: str, data: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(content) == data
    except tomllib.TOMLDecodeError:
        return False
