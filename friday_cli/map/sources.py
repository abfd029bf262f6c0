"""The items of a batch: lines of JSON, files, lines of a command's output, or a list. They are read one by one."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

import msgspec

from friday_cli.core.protocol.errors import FileError, ToolError, UsageError
from friday_cli.system.gitignore import level_of, walk_files
from friday_cli.system.globs import compile_glob, names_hidden
from friday_cli.system.named_files import read_named, read_walked

from . import tables
from .job import MapJob
from .template import WHOLE, Template

LONGEST = 4_000_000
"""Bytes of one item."""
TOO_LARGE = f"is larger than {LONGEST:,} bytes"
MOST_OUTPUT = 64_000_000
"""Bytes of the output of a command whose lines are items."""


class BatchItem(msgspec.Struct, frozen=True):
    """An item. `where` names it for a person. `fields` are those of the template. `content` is a hash of the file that it names,
    if the task does not have its text. `problem`: why it cannot be used, "" if it can. `made`: fields that are not stored, because
    they follow from the others, from `where`, or from the file, which is read again."""

    where: str
    fields: Mapping[str, Any] = {}
    content: str = ""
    problem: str = ""
    made: frozenset[str] = frozenset()

    @property
    def stored(self) -> dict[str, Any]:
        """The fields without those that are `made` again."""
        return {name: value for name, value in self.fields.items() if name not in self.made}


def stored_fields(job: MapJob, where: str, text: str) -> dict[str, Any]:
    """The fields of an item that are stored as `text`, which is the JSON of `BatchItem.stored`."""
    fields: dict[str, Any] = msgspec.json.decode(text)
    match job.source:
        case "glob":
            return {WHOLE: where, "path": where, "name": os.path.basename(where), **fields}
        case "over":
            return {**fields, "line": fields[WHOLE]} if WHOLE in fields else fields
    return fields if WHOLE in fields or not fields else {WHOLE: text, **fields}


class Items:
    """The items of a batch, in order, each time that they are iterated. Iterating raises UsageError or FileError if there is
    nothing to read. An item that lacks a field of the template cannot be used, like one that cannot be read. `reading` is told what is
    read, and how many so far."""

    def __init__(
        self, job: MapJob, template: Template, reading: Callable[[str, int], None] = lambda what, count: None
    ) -> None:
        self._job, self._template, self._reading = job, template, reading
        self.usable: BatchItem | None = None
        """The first item that can be used, after `check`."""
        self._read_once: bytes | None = None  # what a command or a pipe gave

    def __iter__(self) -> Iterator[BatchItem]:
        for count, item in enumerate(self._read(), 1):
            self._reading("items", count)
            missing = [] if item.problem else self._template.missing(item.fields)
            if missing:
                yield BatchItem(item.where, item.fields, problem=f"has no field {', '.join(missing)}")
            elif not item.problem and not self._template.render(item.fields).strip():
                yield BatchItem(item.where, item.fields, problem="its task is empty")
            else:
                yield item

    def _read(self) -> Iterator[BatchItem]:
        job = self._job
        match job.source:
            case "items":
                return self._lines(Path(job.folder, job.items), job.items)
            case "glob":
                return self._files(Path(job.folder), job.items)
            case "list":
                values = msgspec.json.decode(job.items, type=list[msgspec.Raw])
                return (_json_item(bytes(value), f"item {n}") for n, value in enumerate(values, 1))
            case _:
                if self._read_once is None:
                    self._read_once = _output(job.items, job.folder)
                return _plain_items(io.BytesIO(self._read_once))

    def _lines(self, path: Path, name: str) -> Iterator[BatchItem]:
        table = tables.is_table(name, self._job.query)
        try:
            if self._read_once is None and not path.is_file():
                with path.open("rb") as pipe:
                    self._read_once = _all_of(pipe, f"--items: {name} gives")
            file = path.open("rb") if self._read_once is None else io.BytesIO(self._read_once)
        except OSError as error:
            raise FileError(name, f"cannot be read: {error.strerror}") from None
        if not table:
            return _json_items(file, name)
        return (
            _row_item(where, values, problem)
            for where, values, problem in tables.rows(path, name, self._job.query, file)
        )

    def _files(self, folder: Path, pattern: str) -> Iterator[BatchItem]:
        try:
            wanted = compile_glob(pattern)
        except ValueError as error:
            raise UsageError(f"--glob: {pattern!r} is not a pattern: {error}.") from None
        top = os.path.realpath(folder)
        begin, found = len(os.path.join(top, "")), list[str]()
        files = walk_files(top, top, level_of(Path(top))[0], hidden=names_hidden(pattern))
        for count, file in enumerate(files, 1):
            self._reading("files", count)
            if wanted.fullmatch(path := file.path[begin:].lstrip("/")):
                found.append(path)
        fields = self._template.fields
        return (_item_of(path, partial(read_walked, top, path, LONGEST + 1), fields) for path in sorted(found))

    def check(self) -> list[BatchItem]:
        """Read all items once. Returns those that cannot be used. Raises UsageError if none can be used."""
        bad: list[BatchItem] = []
        count, known = 0, None
        lacking: set[str] | None = None
        for item in self:
            count += 1
            if item.problem:
                bad.append(item)
            else:
                self.usable = self.usable or item
            if item.fields:
                known = known or item
                missing = set(self._template.missing(item.fields))
                lacking = missing if lacking is None else lacking & missing
        if lacking and known is not None:
            names = ", ".join(sorted({*known.fields} | ({"content"} if self._job.source == "glob" else set[str]())))
            raise UsageError(
                f"--task: no item has the field {', '.join(sorted(lacking))}.", hint=f"{known.where} has: {names}."
            )
        if not count:
            raise UsageError(f"--{self._job.source} {self._job.items}: there are no items.")
        if len(bad) == count:
            raise UsageError(f"{bad[0].where}: {bad[0].problem}. No item can be used ({count}).")
        return bad


def file_item(folder: Path, label: str, fields: frozenset[str]) -> BatchItem:
    """The item of the file `label` below `folder`. Its text is a field only if the template names it; otherwise a hash of it is in
    the item. A file outside of the folder, or with the name of one with secrets, cannot be used."""
    folder = Path(os.path.realpath(folder))
    path = Path(os.path.realpath(folder / label))
    read = partial(read_named, path, folder, LONGEST + 1, asked=Path(label), by_person=True)
    return _item_of(label, read, fields)


def _item_of(label: str, read: Callable[[], bytes], fields: frozenset[str]) -> BatchItem:
    """The item of the file `label`, which `read` reads."""
    try:
        data = read()
    except ToolError as error:
        return BatchItem(label, problem=f"cannot be used: {error.message.removesuffix('.')}")
    except OSError as error:
        return BatchItem(label, problem=f"cannot be read: {error.strerror}")
    if len(data) > LONGEST:
        return BatchItem(label, problem=TOO_LARGE)
    named: dict[str, Any] = {WHOLE: label, "path": label, "name": os.path.basename(label)}
    if "content" not in fields:
        return BatchItem(label, named, hashlib.sha256(data).hexdigest(), made=frozenset(named))
    made = frozenset((*named, "content"))
    try:
        return BatchItem(label, {**named, "content": data.decode("utf-8-sig")}, made=made)
    except UnicodeDecodeError:
        return BatchItem(label, problem="is not UTF-8 text")


def _all_of(pipe: IO[bytes], what: str) -> bytes:
    """What a pipe or a device gives, to its end. Raises UsageError if that is too much."""
    if len(data := pipe.read(MOST_OUTPUT + 1)) > MOST_OUTPUT:
        raise UsageError(f"{what} more than {MOST_OUTPUT:,} bytes. Nothing was started.")
    return data


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; of one that is longer than an item may be, only as much as shows that."""
    while line := file.readline(LONGEST + 1):
        end = line
        while len(end) > LONGEST and not end.endswith(b"\n"):
            end = file.readline(LONGEST + 1)
        yield line


def _plain_items(file: BinaryIO) -> Iterator[BatchItem]:
    for number, line in enumerate(_lines(file), 1):
        text, where = line.rstrip(b"\r\n").decode("utf-8", "replace"), f"line {number}"
        if len(line) > LONGEST:
            yield BatchItem(where, problem=TOO_LARGE)
        elif text.strip():
            yield BatchItem(where, {WHOLE: text, "line": text}, made=frozenset(("line",)))


def _json_items(file: BinaryIO, name: str) -> Iterator[BatchItem]:
    with file:
        for number, line in enumerate(_lines(file), 1):
            text = line.removeprefix(b"\xef\xbb\xbf").strip()
            if text:
                yield _json_item(text, f"{name}:{number}")


def _json_item(text: bytes, where: str) -> BatchItem:
    if len(text) > LONGEST:
        return BatchItem(where, problem=TOO_LARGE)
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return BatchItem(where, problem=f"is not JSON: {error}")
    return _row_item(where, value) if isinstance(value, dict) else BatchItem(where, {WHOLE: value})


def _row_item(where: str, values: dict[str, Any], problem: str = "") -> BatchItem:
    """The item of a JSON object or the row of a table."""
    if problem or WHOLE in values or not values:
        whole = {} if problem else {WHOLE: msgspec.json.encode(values).decode()}
        return BatchItem(where, {**whole, **values}, problem=problem)
    text = msgspec.json.encode(values).decode()
    if len(text) > LONGEST:
        return BatchItem(where, problem=TOO_LARGE)
    return BatchItem(where, {WHOLE: text, **values}, made=frozenset((WHOLE,)))


def _output(command: str, folder: str) -> bytes:
    """The output of a command of the person, which runs as in their shell."""
    with subprocess.Popen(
        ["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            output = _all_of(process.stdout, f"--over: {command!r} prints")
        except UsageError:
            process.kill()
            raise
    if process.returncode:
        raise UsageError(f"--over: {command!r} ended with exit code {process.returncode}. Nothing was started.")
    return output
