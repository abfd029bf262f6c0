"""What a language server says of a file, and what a change did to it (LSP 3.17, "Diagnostic")."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from friday_cli.core.protocol.code_check import CodeCheck, CodeProblem
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.untrusted import neutralize_line

from .protocol import Diagnostic

ERROR, WARNING = 1, 2
"""Severities of the protocol; a larger number weighs less."""
_WORD = re.compile(r"\w+")
_Lines = Mapping[str, list[str]]
_NO_MODULE = frozenset(("2307", "2792", "2875", "7016", "7026"))
"""Codes of TypeScript: a module, its types, or those of JSX are not found."""
_LONGEST = 300
"""Characters of a message that are kept."""


def read_problems(items: Mapping[str, Sequence[Diagnostic]], worst: int = ERROR) -> list[CodeProblem]:
    """The diagnostics of files by their labels, those of a severity up to `worst`."""
    return [
        CodeProblem(path, item.range.start.line + 1, _line(item.message, _LONGEST), _line(item.code, 60), severity)
        for path, of_file in items.items()
        for item in of_file
        if (severity := item.severity or ERROR) <= worst
    ]


def _line(text: object, longest: int) -> str:
    return "" if text is None else neutralize_line(sanitize_line(str(text), longest))


def without_imports(check: CodeCheck) -> CodeCheck:
    """`check` without what TypeScript says of modules that it does not find."""
    new, fixed = (tuple(one for one in found if one.code not in _NO_MODULE) for found in (check.new, check.fixed))
    return msgspec.structs.replace(check, new=new, fixed=fixed)


def compare(
    before: Sequence[CodeProblem], old: Mapping[str, str], after: Sequence[CodeProblem], new: Mapping[str, str]
) -> CodeCheck:
    """The difference by file, code, message and text of the line: a problem that only moved is not new. `old` and `new` are
    the texts of the files by path."""
    old_lines, new_lines = ({path: text.splitlines() for path, text in side.items()} for side in (old, new))
    there = Counter(_key(problem, new_lines) for problem in after)
    fixed = [problem for problem in before if not _taken(there, _key(problem, old_lines))]
    # of equal ones the last are the new ones
    added = [problem for problem in reversed(after) if _taken(there, _key(problem, new_lines))][::-1]
    near: dict[tuple[str, int, str], list[CodeProblem]] = {}
    for problem in added:
        near.setdefault((problem.path, problem.line, problem.code), []).append(problem)
    same: set[int] = set()  # a rename changes the line and the message
    for problem in fixed:
        others = near.get((problem.path, problem.line, problem.code), [])
        if other := next((one for one in others if _renamed(problem, old_lines, one, new_lines)), None):
            others.remove(other)
            same |= {id(problem), id(other)}
    new_ones, gone = (tuple(one for one in found if id(one) not in same) for found in (added, fixed))
    return CodeCheck("", new_ones, gone, len(after) - len(new_ones), len(new))


def _taken(there: Counter[tuple[str, str, str, str]], key: tuple[str, str, str, str]) -> bool:
    """Whether one with this key was left, which is gone then."""
    there[key] -= 1
    return there[key] >= 0


def _renamed(old: CodeProblem, old_lines: _Lines, new: CodeProblem, new_lines: _Lines) -> bool:
    """Whether a problem is another one of the same place only by a name, which has changed in its line too."""
    before, after = (_WORD.findall(_key(*one)[3]) for one in ((old, old_lines), (new, new_lines)))
    names = {pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]}
    if len(before) != len(after) or len(names) != 1:
        return False
    ((name, now),) = names
    return _WORD.sub(lambda match: now if match[0] == name else match[0], old.message) == new.message


def _key(problem: CodeProblem, lines: _Lines) -> tuple[str, str, str, str]:
    text = lines.get(problem.path, [])
    line = text[problem.line - 1].strip() if problem.line <= len(text) else ""
    return problem.path, problem.code, problem.message, line
