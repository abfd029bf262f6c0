"""What a change did to the code: the old and the new text are asked about one after the other, by one server, after the write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from friday_cli.core.protocol.code_check import CodeCheck, CodeProblem

from .connection import LanguageServer, NoAnswer, NotKnown
from .pool import Alternatives, RunningServer, first_running
from .problems import compare, read_problems, without_imports
from .project_files import CHANGED, CREATED, DELETED, changed_names, read_text
from .protocol import Diagnostic

OPEN = 64
"""Documents that are open at the same time."""


class TextChange(NamedTuple):
    """The texts of a file before and after a change; None: it does not exist."""

    old: str | None
    new: str | None


async def check_files(
    alternatives: Alternatives, changes: Mapping[Path, TextChange], wait_s: float, worst: int
) -> CodeCheck:
    """What the first server that runs says of changes, and of the files that use what they changed: new problems, none, or not known
    with the reason. After its start it has `wait_s` seconds."""
    kinds = {
        path: CREATED if change.old is None else DELETED if change.new is None else CHANGED
        for path, change in changes.items()
    }

    async def compared(one: RunningServer, server: LanguageServer) -> CodeCheck:
        until = asyncio.get_running_loop().time() + wait_s
        texts = {**changes, **await asyncio.to_thread(_users, one, changes)}
        old, new = ({path: change[at] or "" for path, change in texts.items()} for at in (0, 1))
        before, after = await _diagnostics(server, old, until), await _diagnostics(server, new, until)

        def difference() -> CodeCheck:
            found = [_problems(one, answers, worst) for answers in (before, after)]
            labelled = [{one.label(path): text for path, text in side.items()} for side in (old, new)]
            check = compare(found[0], labelled[0], found[1], labelled[1])
            return without_imports(check) if one.lacks_modules else check

        return await asyncio.to_thread(difference)

    return await _asked(alternatives, compared, kinds)


def _users(one: RunningServer, changes: Mapping[Path, TextChange]) -> dict[Path, TextChange]:
    """The files that use what changes changed. Blocks."""
    if one.found.entry.lints:
        return {}
    names = [name for path, change in changes.items() for name in changed_names(path, *change)]
    found = one.files.users(names, changes)[: max(0, OPEN - len(changes))]
    return {path: TextChange(text, text) for path in found if isinstance(text := read_text(path), str)}


async def problems_in(alternatives: Alternatives, paths: Sequence[Path], wait_s: float, worst: int) -> CodeCheck:
    """All problems of files, as new ones."""

    async def all_of(one: RunningServer, server: LanguageServer) -> CodeCheck:
        until, found = asyncio.get_running_loop().time() + wait_s, list[CodeProblem]()
        for first in range(0, len(paths), OPEN):
            texts = {path: await asyncio.to_thread(read_text, path) for path in paths[first : first + OPEN]}
            if large := next((text for text in texts.values() if isinstance(text, Exception)), None):
                raise NotKnown(str(large))
            answers = await _diagnostics(server, {path: str(text or "") for path, text in texts.items()}, until)
            found += await asyncio.to_thread(_problems, one, answers, worst)
            server.close_documents()
        return CodeCheck("", tuple(found), files=len(paths))

    return await _asked(alternatives, all_of, {})


async def _asked(
    alternatives: Alternatives,
    ask: Callable[[RunningServer, LanguageServer], Awaitable[CodeCheck]],
    kinds: Mapping[Path, int],
) -> CodeCheck:
    """The answer to a question about documents, which are closed again."""
    try:
        one = await first_running(alternatives)
    except NotKnown as error:
        return CodeCheck(alternatives[0].name, unknown=str(error))
    async with one.busy:
        try:
            server = await one.fresh(kinds)
            try:
                check = await ask(one, server)
            finally:
                server.close_documents()
        except NotKnown as error:
            check = CodeCheck(unknown=str(error))
            if isinstance(error, NoAnswer):
                await one.give_up(str(error))
        if check.unknown and one.state == "ended":
            with suppress(NotKnown):
                await one.ready()  # counts the end, and starts it for the next change
            check = msgspec.structs.replace(check, unknown=one.error or check.unknown)
        return msgspec.structs.replace(check, server=one.name)


async def _diagnostics(server: LanguageServer, texts: Mapping[Path, str], until: float) -> dict[Path, list[Diagnostic]]:
    """What a server says of files with these texts, which stay open. `until` is a time of the event loop. Raises NotKnown."""
    for path in sorted(texts, key=lambda path: not path.suffix.startswith(".h")):
        # clangd compiles with the headers it has
        server.write(path, texts[path])
        await asyncio.sleep(0)  # large texts together would hold the event loop
    left = max(0.0, until - asyncio.get_running_loop().time())
    answers = await asyncio.gather(*(server.problems(path, left) for path in texts), return_exceptions=True)
    if failed := next((answer for answer in answers if isinstance(answer, BaseException)), None):
        raise failed
    return dict(zip(texts, answers, strict=True))  # type: ignore[arg-type]


def _problems(one: RunningServer, answers: Mapping[Path, list[Diagnostic]], worst: int) -> list[CodeProblem]:
    return read_problems({one.label(path): items for path, items in answers.items()}, worst)
