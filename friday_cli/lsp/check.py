"""What a change did to the code: the old and the new text are asked about one after the other, by one server, after the write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from friday_cli.core.protocol.code_check import CodeCheck, CodeProblem

from .connection import LanguageServer, NoAnswer, NotKnown
from .problems import ERROR, compare, read_problems, without_imports
from .project_files import CHANGED, CREATED, DELETED, changed_names, read_text

if TYPE_CHECKING:
    from .pool import RunningServer

OPEN = 64
"""Documents that are open at the same time."""


class ChangedText(NamedTuple):
    """A file of the check, `label` as shown to people. A file that only uses what was changed has the same text twice."""

    path: Path
    label: str
    language: str
    old: str
    new: str


async def check_files(
    one: RunningServer,
    changes: Mapping[Path, tuple[str | None, str | None]],
    label: Callable[[Path], str],
    wait_s: float,
    worst: int,
) -> CodeCheck:
    """What a server says of changes (the texts before and after, None: no such file), and of the files that use what they changed, after
    `wait_s` seconds at most."""
    languages = one.found.entry.languages
    kinds = {p: CREATED if old is None else DELETED if new is None else CHANGED for p, (old, new) in changes.items()}
    names = [name for path, change in changes.items() for name in changed_names(path, *change)]

    def texts() -> list[ChangedText]:
        users = [] if one.found.entry.lints else one.files.users(names, changes)[: max(0, OPEN - len(changes))]
        same = {path: (text, text) for path in users if (text := read_text(path)) is not None}
        return [
            ChangedText(path, label(path), languages[path.suffix], old or "", new or "")
            for path, (old, new) in {**changes, **same}.items()
        ]

    async with one.busy:
        try:
            server = await one.fresh(kinds)
            check = await check_change(server, await asyncio.to_thread(texts), wait_s, worst)
            check = without_imports(check) if one.found.without_modules else check
        except NoAnswer as error:
            check = CodeCheck(unknown=str(error))
            await one.give_up(str(error))
        except NotKnown as error:
            check = CodeCheck(unknown=str(error))
        if check.unknown and one.state == "ended":
            with suppress(NotKnown):
                await one.ready()  # counts the end, and starts it for the next change
            check = msgspec.structs.replace(check, unknown=one.error or check.unknown)
        return msgspec.structs.replace(check, server=one.name)


async def problems_in(
    one: RunningServer, paths: Sequence[Path], label: Callable[[Path], str], wait_s: float, worst: int
) -> CodeCheck:
    """All problems of files, as new ones, after `wait_s` seconds at most."""
    until, found, unknown = asyncio.get_running_loop().time() + wait_s, list[CodeProblem](), ""
    languages = one.found.entry.languages
    async with one.busy:
        try:
            server = await one.ready()
            for first in range(0, len(paths), OPEN):
                part = []
                for path in paths[first : first + OPEN]:
                    content = await asyncio.to_thread(read_text, path)
                    part.append(ChangedText(path, label(path), languages[path.suffix], content or "", content or ""))
                try:
                    found += await problems_of(server, part, {text.label: text.new for text in part}, until, worst)
                finally:
                    for text in part:
                        server.forget(text.path)
        except NotKnown as error:
            unknown = str(error)
    return CodeCheck(one.name, tuple(found), files=len(paths), unknown=unknown)


async def check_change(
    server: LanguageServer, changes: Sequence[ChangedText], wait_s: float, worst: int = ERROR
) -> CodeCheck:
    """New problems, none, or not known with the reason. The documents are closed again. Raises NoAnswer after `wait_s` seconds."""
    until = asyncio.get_running_loop().time() + wait_s
    old = {change.label: change.old for change in changes}
    new = {change.label: change.new for change in changes}
    try:
        before = await problems_of(server, changes, old, until, worst)
        after = await problems_of(server, changes, new, until, worst)
    except NoAnswer:
        raise
    except NotKnown as error:
        return CodeCheck(files=len(changes), unknown=str(error))
    finally:
        for change in changes:
            server.forget(change.path)
    return compare(before, old, after, new)


async def problems_of(
    server: LanguageServer, files: Sequence[ChangedText], texts: dict[str, str], until: float, worst: int = ERROR
) -> list[CodeProblem]:
    """The problems of `files` with these `texts` by label, which stay open. `until` is a time of the event loop. Raises NotKnown."""
    for one in files:
        server.write(one.path, texts[one.label], one.language)
    left = max(0.0, until - asyncio.get_running_loop().time())
    asked = (server.problems(one.path, left) for one in files)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    found: list[CodeProblem] = []
    for one, answer in zip(files, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        found += read_problems(one.label, answer, worst)
    return found
