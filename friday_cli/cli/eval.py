"""`friday eval`: which settings solve more of your tasks, and for how much."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.evals.suite import Suite, load_suite
from friday_cli.extensions.trust import is_trusted
from friday_cli.system.paths import text_of, working_folder
from friday_cli.system.project_search import repository_top

from .eval_arms import read_arm, with_again
from .eval_results import run_eval, show_results
from .help import add_family
from .output import remark, show, show_painted, show_table, when
from .project_context import load_context
from .session_args import YES

if TYPE_CHECKING:
    from friday_cli.evals.from_git import CommitSuite
    from friday_cli.evals.results import EvalResults
    from friday_cli.map.store import MapStore

TRUST = typer.Option(False, "--trust", help="Trust the commands of the suite for this run.")
SUITE = typer.Argument(..., metavar="SUITE", help="A folder with NAME/task.toml files, a JSONL file, or sample.")
ID = typer.Argument(..., metavar="ID", help="An eval of this folder, or the beginning of its id.")
FORMAT = typer.Option(
    "text", "--format", "-f", metavar="FORMAT", help="text, json, junit, or html (a page that runs nothing)."
)
ARMS = typer.Option(
    [], "--arm", metavar="NAME='FLAGS'", help="Settings to compare: flags of `friday ask`; may be repeated."
)
FORMATS = ("text", "json", "junit", "html")


def register(app: typer.Typer, about: str) -> None:
    """Add the commands `eval ...`."""
    commands: dict[str, Callable[..., None]] = {
        "run": run,
        "check": check,
        "from-git": from_git,
        "status": status,
        "report": report,
        "retry": retry,
        "rescore": rescore,
        "save": save,
        "cancel": cancel,
    }
    add_family(app, "eval", about, commands)


def check(
    suite: str = SUITE,
    times: int = typer.Option(3, "--times", metavar="N", min=1, max=100, help="How many times each task is checked."),
    trust: bool = TRUST,
) -> None:
    """Check a suite: checks must fail before, pass with the reference.

    No model is asked.

    Exit codes: 0 all tasks are right, 1 some are not, 2 usage error."""
    raise typer.Exit(asyncio.run(_check(_trusted_suite(suite, trust=trust), times)))


def run(
    suite: str = SUITE,
    *,
    arms: list[str] = ARMS,
    model: str = typer.Option("", "--model", "-m", metavar="NAME", help="Model for arms that do not name one."),
    trials: int = typer.Option(
        3, "--trials", metavar="N", min=1, max=100, help="How many times each arm tries each task."
    ),
    max_cost: float = typer.Option(
        None, "--max-cost", metavar="USD", min=0.000001, help="US dollars for the whole eval."
    ),
    parallel: int = typer.Option(4, "--parallel", metavar="N", min=1, max=64, help="Trials that run at the same time."),
    aa: bool = typer.Option(False, "--aa", help="Run the first arm twice: the report shows what chance alone makes."),
    seed: int = typer.Option(
        0, "--seed", metavar="N", help="Random seed for the order of the trials and the statistics."
    ),
    against: str = typer.Option(
        "", "--against", metavar="FILE", help="A baseline of `eval save`: fail if an arm is worse."
    ),
    margin: float = typer.Option(
        0.05, "--margin", metavar="SHARE", min=0, max=1, help="With --against: the loss that is tolerated."
    ),
    min_pass: float = typer.Option(
        None, "--min-pass", metavar="SHARE", min=0, max=1, help="Fail if the share of passed trials is certainly lower."
    ),
    max_errors: float = typer.Option(
        0.1,
        "--max-errors",
        metavar="SHARE",
        min=0,
        max=1,
        help="If more trials than this have no result, nothing is decided.",
    ),
    lenient: bool = typer.Option(False, "--lenient", help="Exit with 0 if the result is inconclusive."),
    form: str = FORMAT,
    trust: bool = TRUST,
    yes: bool = YES,
) -> None:
    """Try the tasks of a suite with each arm, and compare the arms.

    A trial is a session in a copy of the task's files. The same command continues an eval that was stopped; what is done is not paid again.

    Exit codes: 0 done, 1 worse than --against or --min-pass, 2 usage error, 5 the cap was reached, 6 it cannot tell, 75 the service failed,
    130 interrupted."""
    from friday_cli.evals.baseline import Gate, read
    from friday_cli.evals.options import EvalOptions

    gate = Gate(read(Path(against)) if against else None, margin, min_pass, max_errors, lenient)
    _require_format(form)
    found = _trusted_suite(suite, trust=trust)
    given = dict(_named(text) for text in arms) or {"default": ""}
    if len(given) < len(arms):
        raise UsageError("--arm: two arms have the same name.")
    flags = {name: _with_model(name, text, model) for name, text in given.items()}
    if aa:
        flags = with_again(flags)
    named = suite if found.shipped else text_of(Path(suite).resolve())
    options = EvalOptions(flags, trials, seed)
    job = options.job(text_of(working_folder()), named, cost=max_cost, parallel=parallel)
    raise typer.Exit(asyncio.run(run_eval(job, found, form, yes=yes, gate=gate)))


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
    the message of the commit. The commands run in the sandbox.

    Exit codes: 0 a suite was written, 1 no commit makes a task, 2 usage error."""
    from friday_cli.evals.from_git import CommitSuite

    folder = working_folder()
    if (top := repository_top(folder)) is None:
        raise UsageError(f"{folder} is not in a git repository.")
    raise typer.Exit(asyncio.run(_from_git(CommitSuite(top, since, check, setup, most), Path(output))))


def status(name: str = typer.Argument("", metavar="ID", help="One of them: all its trials.")) -> None:
    """List the evals of this folder, or the trials of one."""
    asyncio.run(_status(name))


def report(name: str = ID, form: str = FORMAT) -> None:
    """Show what an eval found so far."""
    _require_format(form)
    show_results(asyncio.run(_results(name)), form)


def retry(name: str = ID, form: str = FORMAT, trust: bool = TRUST, yes: bool = YES) -> None:
    """Run the trials of an eval that have no result yet."""
    _require_format(form)
    raise typer.Exit(asyncio.run(_again(name, form, trust=trust, yes=yes, rescore=False)))


def rescore(name: str = ID, form: str = FORMAT, trust: bool = TRUST) -> None:
    """Run the checks of the suite as they are now on what was kept. No model is asked, so it costs nothing."""
    _require_format(form)
    raise typer.Exit(asyncio.run(_again(name, form, trust=trust, yes=True, rescore=True)))


def save(
    name: str = ID, file: str = typer.Argument(..., metavar="FILE", help="Where the baseline is written.")
) -> None:
    """Write a baseline for `eval run --against`."""
    from friday_cli.evals import baseline

    found = asyncio.run(_results(name))
    baseline.save(found, Path(file))
    remark(f"{file} has {pluralize(len(found.arms), 'arm')} of eval {found.id}")


def cancel(name: str = ID) -> None:
    """Start no more trials of an eval."""
    asyncio.run(_cancel(name))


# ---- the suite and the arms -------------------------------------------------------


def _trusted_suite(named: str, *, trust: bool) -> Suite:
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


def _named(text: str) -> tuple[str, str]:
    name, equals, flags = text.partition("=")
    if not equals:
        raise UsageError(f"--arm: {text!r} is not NAME='FLAGS'.", hint="Example: --arm careful='--effort high'.")
    return name.strip(), flags.strip()


def _with_model(name: str, flags: str, model: str) -> str:
    """The flags of an arm with the model that all have. Raises UsageError for flags that an arm cannot have."""
    given = read_arm(name, flags)
    return f"{flags} --model {shlex.quote(model)}".strip() if model and given.options.model is None else flags


def _require_format(form: str) -> None:
    if form not in FORMATS:
        raise UsageError(f"--format: {form!r} is not one of {', '.join(FORMATS)}.")


# ---- what the commands do ---------------------------------------------------------


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


async def _from_git(suite: CommitSuite, output: Path) -> int:
    suite.require_new(output)
    candidates, kept, seen = await asyncio.to_thread(suite.candidates), 0, 0
    if candidates:
        commits = pluralize(len(candidates), "commit")
        remark(
            f"{commits} may make a task; each is checked six times, the newest first, until {suite.most} can be used"
        )
    async with aclosing(suite.tasks(candidates, load_context().settings, os.environ)) as tasks:
        async for found in tasks:
            seen += 1
            if not found.check.problem:
                await asyncio.to_thread(suite.add, output, found.task)  # at once: what was found outlives an interrupt
                kept += 1
            sign: Any = ("✗", "red") if found.check.problem else ("✓", "green")
            show_painted(
                sign, (f" {found.task.name}" + (f": {found.check.problem}" if found.check.problem else ""), "")
            )
            if not found.check.started and seen == 1:
                remark("the program of the check could not be started in the sandbox; the other commits were not tried")
                return 1
    if not kept:
        remark(
            f"none of {pluralize(seen, 'commit')} that change code and tests can be made a task; no suite was written"
        )
        return 1
    remark(
        f"{output} has {pluralize(kept, 'task')} of {pluralize(seen, 'commit')}; its commands are the ones that you gave"
    )
    remark(
        f"now: friday eval run {shlex.quote(str(output))} --trust --arm one='--profile coder' --arm two='--effort high' --max-cost 5"
    )
    return 0


async def _status(name: str) -> None:
    from friday_cli.evals.options import EvalOptions
    from friday_cli.evals.report import failures
    from friday_cli.map.report import spent

    if name:
        found = await _results(name)
        show_results(found, "text")
        for line in failures(found):
            show(line)
        return
    async with _store() as store:
        rows = []
        for batch in [each for each in await store.batches() if each.job.source == "eval"]:
            counts = await store.counts(batch.id)
            state = "running" if store.runs(batch.id) else batch.state
            suite, arms = Path(batch.job.items).name, ", ".join(EvalOptions.of(batch.job).arms)
            done = f"{counts.done:,} of {counts.total:,}"
            rows.append((batch.id, when(batch.updated, short=True), state, suite, arms, done, spent(batch) or "$0.00"))
        if rows:
            show_table(("ID", "CHANGED", "STATE", "SUITE", "ARMS", "DONE", "SPENT"), rows, right=("DONE", "SPENT"))
        else:
            show("No evals in this folder.")


async def _results(name: str) -> EvalResults:
    """What an eval found. Raises UsageError."""
    from friday_cli.evals.results import eval_results, trial_rows
    from friday_cli.evals.run import find_eval

    async with _store() as store:
        batch = await find_eval(store, name)
        return eval_results(batch, await trial_rows(store, batch.id))


async def _again(name: str, form: str, *, trust: bool, yes: bool, rescore: bool) -> int:
    from friday_cli.evals.run import find_eval

    async with _store() as store:
        job = (await find_eval(store, name)).job
    return await run_eval(job, _trusted_suite(job.items, trust=trust), form, yes=yes, rescore=rescore)


async def _cancel(name: str) -> None:
    from friday_cli.evals.run import find_eval

    async with _store() as store:
        batch = await find_eval(store, name)
        if batch.state == "ended":
            remark(f"eval {batch.id} has ended already")
        else:
            await store.update(batch.id, state="cancelled", reason="it was cancelled")
            remark(f"eval {batch.id}: no more trials start")


@asynccontextmanager
async def _store() -> AsyncIterator[MapStore]:
    """The batches of this folder."""
    from friday_cli.map.store import MapStore

    store = MapStore(text_of(working_folder()), os.environ)
    try:
        yield store
    finally:
        await store.close()
