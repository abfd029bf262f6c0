"""Makes tasks of commits: those that change code and its tests, whose tests fail before and pass after it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from friday_cli.config import Settings
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.text.sanitize import sanitize
from friday_cli.system.atomic_file import replace
from friday_cli.system.git_command import git

from .suite import Suite, Task, read_toml
from .suite_check import TaskCheck, check_suite

LARGEST = 400
"""Changed lines of the largest commit that becomes a task."""
READ = 2_000
"""Commits that are looked at."""
MODE = 0o644
"""Of the files of a suite, which others may read as they may the repository."""
SHORT = 8
"""Characters of a commit with which the name of its task begins."""
_TESTS = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_[^/]*$|[_.-](?:test|tests|spec)\.\w+$|(?:^|/)\w+Tests?\.\w+$"
)
_NO_CODE = re.compile(
    r"(?:^|/)(?:docs?|\.\w+)/|\.(?:md|rst|txt|adoc|lock|svg|png|jpe?g|gif|ya?ml|toml|json|cfg|ini)$|(?:^|/)[A-Z]+$"
)
_TRAILER = re.compile(r"^[A-Z][\w-]+(?:-by|-to|-Id|-On)?: .*$", re.M)


class CommitSuite(msgspec.Struct, frozen=True):
    """A suite in `folder` that is made of the commits of a repository."""

    repository: Path
    folder: Path
    since: str
    """Only commits after this one; "" for all."""
    check: str
    """The command that decides; `{tests}` stands for the tests of a commit."""
    setup: str
    """Runs once for each task; "" for nothing."""
    most: int
    """Tasks that it has at most."""

    async def tasks(
        self, settings: Settings, env: Mapping[str, str], place: Path, begun: Callable[[str], object]
    ) -> AsyncGenerator[TaskCheck, None]:
        """The newest commits that make a task, until the suite has enough; those that cannot come with their problem. Those that it
        has are not checked again, nor those between them. Close it (`aclosing`) to stop early. `place` and `begun` as for
        `check_suite`. Raises FridayError."""
        kept, candidates = len(self.there()), await asyncio.to_thread(self._candidates)
        while some := await asyncio.to_thread(list, islice(candidates, max(0, self.most - kept))):
            suite = Suite(self.repository.name, self.repository, tuple(some))
            async with aclosing(check_suite(suite, settings, env, place, begun=begun)) as checks:
                async for found in checks:
                    kept += not found.problem
                    yield found

    def there(self) -> set[str]:
        """The beginnings of the commits of its tasks. Raises UsageError where another suite is in its folder, FileError."""
        path = self.folder / "suite.toml"
        found = read_toml(path) if path.exists() else self._defaults
        if any(found.get(key) != self._defaults.get(key) for key in ("repo", "check", "setup")):
            raise UsageError(f"{self.folder} has another suite already.", hint="Name another folder with --output.")
        return {path.parent.name[:SHORT] for path in self.folder.glob("*/task.toml")}

    def add(self, task: Task) -> None:
        """Write a task into the suite, which is made with the first. Half a file is never left. Raises OSError."""
        (self.folder / task.name).mkdir(parents=True, exist_ok=True)
        if not (self.folder / "suite.toml").exists():
            replace(self.folder / "suite.toml", tomli_w.dumps(self._defaults), mode=MODE)
        data = {"task": task.task, "commit": task.commit, "reference": task.reference, "hidden": task.hidden}
        replace(self.folder / task.name / "task.toml", tomli_w.dumps(data, multiline_strings=True), mode=MODE)

    @property
    def _defaults(self) -> dict[str, Any]:
        setup = {"setup": self.setup} if self.setup else {}
        return {"repo": os.path.relpath(self.repository, self.folder), "check": [self.check], **setup}

    def _candidates(self) -> Iterator[Task]:
        """The tasks that further commits would make, the newest first. Raises FridayError."""
        span = f"{self.since}..HEAD" if self.since else "HEAD"
        words = ("log", "--no-merges", f"--max-count={READ}", "--format=%H %P", "--end-of-options", span, "--")
        try:
            listed = [line.split() for line in git(self.repository, *words).decode().splitlines()]
        except FridayError:
            raise UsageError(f"{self.since or 'HEAD'} is not a commit of {self.repository}.") from None
        there = self.there()
        known = [number for number, row in enumerate(listed) if row[0][:SHORT] in there]
        rows = [*listed[: known[0]], *listed[known[-1] + 1 :]] if known else listed
        made = (self._task(*row) for row in rows if len(row) == 2)
        return (task for task in made if task is not None)

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
        name = f"{commit[:SHORT]}-{words}".strip("-")
        return Task(
            name, text, repo=".", commit=parent, reference=commit, hidden=hidden, check=[self.check], setup=self.setup
        )
