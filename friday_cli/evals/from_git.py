"""Makes tasks of commits: those that change code and its tests, whose tests fail before and pass after it."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec
import tomli_w

from friday_cli.config import Settings
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.sanitize import sanitize
from friday_cli.system.git_command import git

from .suite import Suite, Task
from .suite_check import TaskCheck, check_suite

LARGEST = 400
"""Changed lines of the largest commit that becomes a task."""
READ = 2_000
"""Commits that are looked at."""
_TESTS = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_[^/]*$|[_.-](?:test|tests|spec)\.\w+$|(?:^|/)\w+Tests?\.\w+$"
)
_NO_CODE = re.compile(
    r"(?:^|/)(?:docs?|\.\w+)/|\.(?:md|rst|txt|adoc|lock|svg|png|jpe?g|gif|ya?ml|toml|json|cfg|ini)$|(?:^|/)[A-Z]+$"
)
_TRAILER = re.compile(r"^[A-Z][\w-]+(?:-by|-to|-Id|-On)?: .*$", re.M)


class CommitTask(msgspec.Struct, frozen=True):
    """A task that was made of a commit, and what its check found."""

    task: Task
    check: TaskCheck


class CommitSuite(msgspec.Struct, frozen=True):
    """A suite that is made of the commits of a repository."""

    repository: Path
    since: str
    """Only commits after this one; "" for all."""
    check: str
    """The command that decides; `{tests}` stands for the tests of a commit."""
    setup: str
    """Runs once for each task; "" for nothing."""
    most: int
    """Tasks that it has at most."""

    async def tasks(
        self, candidates: Sequence[Task], settings: Settings, env: Mapping[str, str]
    ) -> AsyncGenerator[CommitTask, None]:
        """The newest of the candidates that make a task, until enough of them can be used; those that cannot come with their problem.
        Close it (`aclosing`) to stop early. Raises FridayError."""
        waiting, kept = list(candidates), 0
        while waiting and kept < self.most:
            some, waiting = waiting[: self.most - kept], waiting[self.most - kept :]
            suite = Suite(self.repository.name, self.repository, tuple(some))
            number = 0
            async with aclosing(check_suite(suite, settings, env)) as checks:
                async for found in checks:
                    kept += not found.problem
                    yield CommitTask(some[number], found)
                    number += 1

    def require_new(self, folder: Path) -> None:
        """Raises UsageError where there is a suite already."""
        if (folder / "suite.toml").exists():
            raise UsageError(f"{folder} has a suite already.", hint="Name another folder with --output, or remove it.")

    def add(self, folder: Path, task: Task) -> None:
        """Write a task into the suite, which is made with the first. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        defaults = {"repo": os.path.relpath(self.repository, folder), "check": [self.check]}
        defaults |= {"setup": self.setup} if self.setup else {}
        (folder / "suite.toml").write_text(tomli_w.dumps(defaults), encoding="utf-8")
        (folder / task.name).mkdir(exist_ok=True)
        data = {"task": task.task, "commit": task.commit, "reference": task.reference, "hidden": task.hidden}
        (folder / task.name / "task.toml").write_text(tomli_w.dumps(data, multiline_strings=True), encoding="utf-8")

    def candidates(self) -> list[Task]:
        """The tasks that commits would make, the newest first. Raises FridayError."""
        span = f"{self.since}..HEAD" if self.since else "HEAD"
        try:
            listed = git(
                self.repository,
                "log",
                "--no-merges",
                f"--max-count={READ}",
                "--format=%H %P",
                "--end-of-options",
                span,
                "--",
            )
        except FridayError:
            raise UsageError(f"{self.since or 'HEAD'} is not a commit of {self.repository}.") from None
        found = []
        for line in listed.decode().splitlines():
            commit, *parents = line.split()
            if len(parents) == 1 and (task := self._task(commit, parents[0])) is not None:
                found.append(task)
        return found

    def _task(self, commit: str, parent: str) -> Task | None:
        """The task that a commit makes, None if it makes none."""
        rows = git(self.repository, "diff-tree", "-r", "-z", "--numstat", "--no-renames", parent, commit).split(b"\0")[
            :-1
        ]
        changed = {}
        for row in rows:
            added, removed, name = row.decode("utf-8", "surrogateescape").split("\t")
            changed[name] = None if added == "-" else int(added) + int(removed)
        lines = sum(count or 0 for count in changed.values())
        tests = [name for name in changed if _TESTS.search(name)]
        code = [name for name in changed if name not in tests and not _NO_CODE.search(name)]
        if not tests or not code or lines > LARGEST or None in changed.values():
            return None
        there = git(self.repository, "ls-tree", "-z", "--name-only", "-r", commit, "--", *tests).split(b"\0")[:-1]
        hidden = [name for name in tests if os.fsencode(name) in there and name.isprintable()]
        text = sanitize(git(self.repository, "show", "-s", "--format=%B", commit).decode("utf-8", "replace"))
        text = _TRAILER.sub("", text).strip()
        if not hidden or not text:
            return None
        words = re.sub(r"[^a-z0-9]+", "-", text.splitlines()[0].lower()).strip("-")[:40].strip("-")
        name = f"{commit[:8]}-{words}".strip("-")
        return Task(
            name, text, repo=".", commit=parent, reference=commit, hidden=hidden, check=[self.check], setup=self.setup
        )
