"""`friday eval`: which settings solve more of your tasks, and for how much."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.evals.suite import Suite, load_suite
from friday_cli.extensions.trust import is_trusted

from .help import HelpCommand, HelpGroup
from .output import remark, show_painted
from .project_context import load_context

TRUST = typer.Option(False, "--trust", help="Trust the commands of the suite for this run.")
SUITE = typer.Argument(..., metavar="SUITE", help="A folder with NAME/task.toml files, a JSONL file, or sample.")


def register(app: typer.Typer, about: str) -> None:
    """Add the commands `eval ...`."""
    family = typer.Typer(cls=HelpGroup, help=about, rich_markup_mode=None)
    family.command("check", cls=HelpCommand)(check)
    app.add_typer(family, name="eval")


def check(
    suite: str = SUITE,
    times: int = typer.Option(3, "--times", metavar="N", min=1, max=100, help="How often each task is checked."),
    trust: bool = TRUST,
) -> None:
    """Check a suite: each check must fail before, and pass with the reference.

    No model is asked.

    Exit codes: 0 all tasks are right, 1 some are not, 2 usage error."""
    found = load_suite(suite)
    require_trust(found, trust=trust)
    raise typer.Exit(asyncio.run(_check(found, times)))


def require_trust(suite: Suite, *, trust: bool) -> None:
    """Raises UsageError for a suite whose commands may not run."""
    if suite.shipped or trust or is_trusted(suite.folder).ok:
        return
    commands = "; ".join(sanitize_line(command, 80) for command in suite.commands[:5])
    more = f" and {len(suite.commands) - 5:,} more" if len(suite.commands) > 5 else ""
    raise UsageError(
        f"{suite.folder} is not trusted, and its suite runs commands: {commands}{more}.",
        hint="Read them; then `friday trust` in that project, or --trust for this run.",
    )


async def _check(suite: Suite, times: int) -> int:
    from friday_cli.evals.suite_check import check_suite

    wrong, width = 0, max(len(task.name) for task in suite.tasks)
    async for found in check_suite(suite, load_context().settings, os.environ, times=times):
        wrong += bool(found.problem)
        counts = f"fails before {found.before} of {times}, passes with the reference {found.after} of {times}"
        sign: Any = ("✗", "red") if found.problem else ("✓", "green")
        show_painted(sign, (f" {found.name:<{width}}  {counts}  ({found.seconds:.1f} s)", ""))
        if found.problem:
            show_painted((f"    {found.problem}", "red"))
    right = len(suite.tasks) - wrong
    remark(f"{right} of {pluralize(len(suite.tasks), 'task')} of {suite.name} can be used")
    return 1 if wrong else 0
