"""What a change did to the code: the old and the new text are asked about one after the other, by one server, after the write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from friday_cli.core.protocol.code_check import CodeCheck, CodeProblem

from .connection import LanguageServer, NoAnswer, NotKnown
from .problems import ERROR, compare, read_problems

OPEN = 64
"""Documents that are open at the same time."""


class ChangedText(NamedTuple):
    """A file of the check, `label` as shown to people. A file that only uses what was changed has the same text twice."""

    path: Path
    label: str
    language: str
    old: str
    new: str


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
