"""`friday eval check` and `friday eval from-git`: suites before an eval."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.evals.suite import Suite, load_suite
from friday_cli.extensions.trust import is_trusted
from friday_cli.frontends.oneshot.signals import SignalHandler
from friday_cli.system.paths import text_of, working_folder
from friday_cli.system.project_search import repository_top

from .output import remark, show_painted, terminal_width
from .project_context import load_context

if TYPE_CHECKING:
    from friday_cli.evals.from_git import CommitSuite

TRUST = typer.Option(False, "--trust", help="Trust the commands of the suite for this run.")
SUITE = typer.Argument(..., metavar="SUITE", help="A folder with NAME/task.toml files, a JSONL file, or sample.")
NOT_FOUND = (
    "the check could not be started in the sandbox: name its program by its whole path, such as"
    " /home/me/app/.venv/bin/pytest; if commands cannot read its folder, add that to `read` below `[sandbox]` in your config.toml"
)


def check(
    suite: str = SUITE,
    times: int = typer.Option(3, "--times", metavar="N", min=1, max=100, help="How many times each task is checked."),
    trust: bool = TRUST,
) -> None:
    """Check a suite: checks must fail before, pass with the reference.

    No model is asked.

    Exit codes: 0 all tasks are right, 1 some are not, 2 usage error, 130 interrupted."""
    _Checks().run(lambda checks, place: _check(trusted_suite(suite, trust=trust), times, checks, place))


def from_git(
    *,
    check: str = typer.Option(
        ..., "--check", metavar="COMMAND", help="The command that decides, such as 'pytest -q {tests}'."
    ),
    since: str = typer.Option("", "--since", metavar="REF", help="Only commits after this one."),
    most: int = typer.Option(20, "--most", metavar="N", min=1, max=500, help="The most tasks to make."),
    setup: str = typer.Option("", "--setup", metavar="COMMAND", help="Run once for each task, before the trials."),
    output: str = typer.Option("evals", "--output", metavar="FOLDER", help="Where the suite is written."),
) -> None:
    """Make a suite of the commits of this repository.

    A commit becomes a task if it changes code and tests (at most 400 lines), and its tests fail before and pass after it, three times. The task is
    the message of the commit. The commands run in the sandbox. Each task is written when it is found, and the same command continues.

    Exit codes: 0 a suite was written, 1 no commit makes a task, 2 usage error, 130 interrupted."""
    from friday_cli.evals.from_git import CommitSuite

    folder = working_folder()
    if (top := repository_top(folder)) is None:
        raise UsageError(f"{folder} is not in a git repository.")
    made = CommitSuite(top, Path(output), since, check, setup, most)
    _Checks().run(lambda checks, place: _from_git(made, checks, place))


def trusted_suite(named: str, *, trust: bool) -> Suite:
    """The suite of a name. Raises UsageError for one whose commands may not run, FileError."""
    suite = load_suite(named)
    others = ", ".join(sanitize_line(text_of(path), 400) for path in suite.others[:5])
    trusted = is_trusted(suite.folder).ok
    if suite.shipped or trust or (trusted and not others):
        return suite
    if trusted:
        raise UsageError(
            f"Agents would get files of repositories that the suite is not in: {others}.",
            hint="--trust allows it for this run.",
        )
    commands = "; ".join(sanitize_line(command, 80) for command in suite.commands[:5])
    more = f" and {len(suite.commands) - 5:,} more" if len(suite.commands) > 5 else ""
    raise UsageError(
        f"{suite.folder} is not trusted, and its suite runs commands: {commands}{more}"
        + (f", and gives agents files of {others}." if others else "."),
        hint="Read them; then `friday trust` in that project, or --trust for this run.",
    )


class _Checks:
    """Shows checks of tasks. `seen`, `kept`: how many ended, and how many of these can be used."""

    def __init__(self) -> None:
        self.seen = self.kept = 0
        self._running: list[str] = []
        self._in_place = sys.stderr is not None and sys.stderr.isatty()

    def run(self, command: Callable[[_Checks, Path], Coroutine[Any, Any, int]]) -> None:
        """Run a command with a folder that is removed when it ends, also by a signal, and exit with its code."""

        async def watched(place: Path) -> int:
            signals = SignalHandler()
            signals.watch(lambda code: None)
            try:
                return await command(self, place)
            except asyncio.CancelledError:
                self.clear()
                return signals.code

        with TemporaryDirectory(prefix="friday-eval-") as name:
            code = asyncio.run(watched(Path(name)))  # ends when its threads do, so nothing is written there any more
        raise typer.Exit(code)

    def begun(self, name: str) -> None:
        """The check of a task begins."""
        self._running.append(name)
        self._draw()
        if not self._in_place:
            remark(f"checking {name}")

    def ended(self, found: Any, text: str = "") -> None:
        """Show what the check of a task found, with `text` beside its name."""
        self.seen += 1
        self.kept += not found.problem
        self._running.remove(found.task.name)
        self.clear()
        sign: Any = ("✗", "red") if found.problem else ("✓", "green")
        show_painted(sign, (f" {text or found.task.name}", ""))
        if found.problem:
            show_painted((f"    {found.problem}", "red"))
        print(end="", flush=True)  # a pipe gets each when its check ends
        self._draw()

    def clear(self) -> None:
        """Remove the line about checks that run."""
        if self._in_place:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _draw(self) -> None:
        if self._in_place and self._running:
            self.clear()
            text = sanitize_line(f"checking {', '.join(self._running)}", terminal_width() - 1)
            print(text, end="", file=sys.stderr, flush=True)


async def _check(suite: Suite, times: int, checks: _Checks, place: Path) -> int:
    from friday_cli.evals.suite_check import check_suite

    width = max(len(task.name) for task in suite.tasks)
    tasks = check_suite(suite, load_context().settings, os.environ, place, times=times, begun=checks.begun)
    ran = True
    async with aclosing(tasks):
        async for found in tasks:
            counts = f"fails before {found.before} of {times}, passes with the reference {found.after} of {times}"
            checks.ended(found, f"{found.task.name:<{width}}  {counts}  ({found.seconds:.1f} s)")
            ran = ran and found.started
    if not ran:
        remark(NOT_FOUND)
    remark(f"{checks.kept} of {pluralize(len(suite.tasks), 'task')} of {suite.name} can be used")
    return 0 if checks.kept == len(suite.tasks) else 1


async def _from_git(suite: CommitSuite, checks: _Checks, place: Path) -> int:
    before, folder = len(suite.there()), suite.folder
    wanted = f"until {folder} has {pluralize(suite.most, 'task')}" + f" (it has {before})" * bool(before)
    remark(f"each commit that changes code and tests is checked six times, the newest first, {wanted}")
    try:
        async with aclosing(suite.tasks(load_context().settings, os.environ, place, checks.begun)) as tasks:
            async for found in tasks:
                if not found.problem:
                    await asyncio.to_thread(suite.add, found.task)  # at once: what was found outlives an interrupt
                checks.ended(found)
                if not found.started and checks.seen == 1:
                    remark(f"{NOT_FOUND}; the other commits were not tried")
                    return 1
    except asyncio.CancelledError:
        checks.clear()
        remark(f"stopped: {_made(checks, folder, before)}; the same command continues")
        raise
    remark(_made(checks, folder, before))
    if not before + checks.kept:
        return 1
    named = shlex.quote(str(folder))
    remark(f"now: friday eval run {named} --trust --arm one='--profile coder' --arm two='--effort high' --max-cost 5")
    return 0


def _made(checks: _Checks, folder: Path, before: int) -> str:
    """What was found, and what there is now."""
    some = f"{checks.kept} of {pluralize(checks.seen, 'commit')} can be made a task"
    found = some if checks.seen else "no commit was checked"
    total = before + checks.kept
    return f"{found}; " + (f"{folder} has {pluralize(total, 'task')}" if total else "no suite was written")
