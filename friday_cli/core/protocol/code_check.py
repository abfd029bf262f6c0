"""What a change did to the code, as a language server sees it: evidence for results and receipts."""

from __future__ import annotations

from collections import Counter

import msgspec

from .format import pluralize

FILE_SHOWN, SHOWN = 8, 20
"""Problems of one file and of one check that a text names."""
FLOOD, FLOOD_SHOWN = 40, 3
"""Problems of a file above which only the first few are named."""
TOLD = 2
"""How often an agent reads of the same problem."""


class CodeProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One problem. Its texts are a server's: untrusted, in one line, without control characters. `path` as shown to people."""

    path: str
    line: int
    """From 1."""
    message: str
    code: str = ""
    severity: int = 1
    """1: an error, 2: a warning."""

    @property
    def text(self) -> str:
        """`model.py:8 Expected str, found int [invalid-argument-type]`."""
        return f"{self.path}:{self.line} {self.message}" + (f" [{self.code}]" if self.code else "")

    @property
    def key(self) -> tuple[str, str, str]:
        """The parts of a problem that stay the same when its line moves."""
        return self.path, self.code, self.message


class CodeCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of a language `server` about a change. `unknown` is not empty: nothing can be said, and why. Otherwise empty `new` means: no new
    problems. `left` counts those that were there before and are there still, `files` those that were looked at. `final`: what is not
    known stays so."""

    server: str = ""
    new: tuple[CodeProblem, ...] = ()
    fixed: tuple[CodeProblem, ...] = ()
    left: int = 0
    files: int = 0
    unknown: str = ""
    final: bool = False

    def summary(self, *, left: bool = False) -> str:
        """The answer in one line. `left`: of the sum of several changes."""
        if self.unknown:
            return f"{self.server}: it is not known whether there are new problems: {self.unknown}"
        more = f", {len(self.fixed)} fixed" if self.fixed else ""
        count = pluralize(len(self.new), "new problem") if self.new else "no new problems"
        looked = "" if self.new else f" ({pluralize(self.files, 'file')})"
        return f"{self.server}: {count}{' left' if left else ''}{more}{looked}"

    @property
    def warning(self) -> str:
        """The summary with the first new problem, for a person; "" if there is none."""
        return f"{self.summary()}: {self.new[0].text}" if self.new else ""

    def lines(self, told: Counter[tuple[str, str, str]]) -> list[str]:
        """The answer for a model: the summary, and the new problems by file. `told`: how often it read of a problem before, by `key`;
        those of this answer are added."""
        rows, by_file, again = [self.summary()], dict[str, list[CodeProblem]](), 0
        for problem in self.new:
            again += told[problem.key] >= TOLD
            if told[problem.key] < TOLD:
                by_file.setdefault(problem.path, []).append(problem)
        told.update({problem.key for problem in self.new})
        room, left, files = SHOWN, 0, 0
        for path, problems in by_file.items():
            if not room:
                left, files = left + len(problems), files + 1
                continue
            shown = min(room, FLOOD_SHOWN if len(problems) > FLOOD else FILE_SHOWN)
            rows += [problem.text for problem in problems[:shown]]
            room -= min(shown, len(problems))
            if (more := len(problems) - shown) > 0:
                rows.append(f"{path}: {more} more")
        rows += [f"{left} more in {pluralize(files, 'file')}"] if left else []
        return [*rows, *([f"{again} that you were told of before"] if again else [])]

    def rows_left(self) -> list[str]:
        """The sum of several changes for a receipt."""
        return [self.summary(left=True), *(problem.text for problem in self.new[:FILE_SHOWN])]

    def followed_by(self, later: CodeCheck) -> CodeCheck:
        """The sum of this check and a later one by the same server. One without an answer leaves it open until what it was about was
        asked again."""
        if later.unknown:
            return msgspec.structs.replace(self, unknown=later.unknown, final=later.final)
        gone = {problem.key for problem in later.fixed}
        own = {problem.key for problem in self.new}
        kept = tuple(problem for problem in self.new if problem.key not in gone)
        new = tuple(problem for problem in later.new if problem.key not in {k.key for k in kept})
        fixed = (*self.fixed, *(problem for problem in later.fixed if problem.key not in own))
        return msgspec.structs.replace(
            self if self.final else CodeCheck(self.server),
            new=kept + new,
            fixed=fixed,
            left=later.left,
            files=max(self.files, later.files),
        )


class LanguageServerRow(msgspec.Struct, frozen=True):
    """A language server of a session for a person. `state`: runs, starts, ended, off, not started."""

    name: str
    state: str
    root: str
    program: str
    error: str = ""
    version: str = ""
    """What it said of itself at its start."""
    mb: int = 0
    """Megabytes of memory that it takes, 0 if that is not known."""
