"""`friday eval`: which settings solve more of your tasks, and for how much."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.system import event_loop
from friday_cli.system.paths import text_of, working_folder

from .eval_arms import read_arm, with_again
from .eval_results import run_eval, show_results
from .eval_suites import SUITE, TRUST, check, from_git, trusted_suite
from .help import add_family
from .output import remark, show, show_table, when
from .session_args import YES

if TYPE_CHECKING:
    from friday_cli.evals.results import EvalResults
    from friday_cli.map.store import BatchRow, MapStore

ID = typer.Argument(..., metavar="ID", help="An eval of this folder, or the beginning of its id.")
Format = Literal["text", "json", "junit", "html"]
FORMAT = typer.Option("text", "--format", "-f", help="html: a page that runs nothing.")
ARMS = typer.Option(
    [], "--arm", metavar="NAME='FLAGS'", help="Settings to compare: flags of `friday ask`; may be repeated."
)


def register(app: typer.Typer, about: str) -> None:
    """Add the commands `eval ...`."""
    commands: list[Callable[..., None]] = [run, check, from_git, status, report, retry, rescore, save, cancel]
    add_family(app, "eval", about, {command.__name__.replace("_", "-"): command for command in commands})


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
    form: Format = FORMAT,
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
    found = trusted_suite(suite, trust=trust)
    flags = _flags(arms or ["default="], model)
    if aa:
        flags = with_again(flags)
    named = suite if found.shipped else text_of(Path(suite).resolve())
    options = EvalOptions(flags, trials, seed)
    job = options.job(text_of(working_folder()), named, cost=max_cost, parallel=parallel)
    raise typer.Exit(event_loop.run(run_eval(job, found, form, yes=yes, gate=gate)))


def status(name: str = typer.Argument("", metavar="ID", help="One of them: all its trials.")) -> None:
    """List the evals of this folder, or the trials of one."""
    asyncio.run(_status(name))


def report(name: str = ID, form: Format = FORMAT) -> None:
    """Show what an eval found so far."""
    show_results(asyncio.run(_results(name)), form)


def retry(name: str = ID, form: Format = FORMAT, trust: bool = TRUST, yes: bool = YES) -> None:
    """Run the trials of an eval that have no result yet."""
    raise typer.Exit(event_loop.run(_again(name, form, trust=trust, yes=yes, rescore=False)))


def rescore(name: str = ID, form: Format = FORMAT, trust: bool = TRUST) -> None:
    """Run the checks of the suite as they are now on what was kept. No model is asked, so it costs nothing."""
    raise typer.Exit(event_loop.run(_again(name, form, trust=trust, yes=True, rescore=True)))


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


def _flags(arms: Iterable[str], model: str) -> dict[str, str]:
    """The flags of each arm, with the model that all have. Raises UsageError for flags that an arm cannot have."""
    found: dict[str, str] = {}
    for text in arms:
        name, equals, flags = map(str.strip, text.partition("="))
        if not equals:
            raise UsageError(f"--arm: {text!r} is not NAME='FLAGS'.", hint="Example: --arm careful='--effort high'.")
        if name in found:
            raise UsageError("--arm: two arms have the same name.")
        given = read_arm(name, flags)
        more = f"--model {shlex.quote(model)}" if model and given.options.model is None else ""
        found[name] = f"{flags} {more}".strip()
    return found


async def _evals(store: MapStore) -> list[BatchRow]:
    return [row for row in await store.batches() if row.job.source == "eval"]


async def _find(store: MapStore, prefix: str) -> BatchRow:
    """The eval of this folder with this id, or the beginning of it. Raises UsageError if there is not exactly one."""
    found = [row for row in await _evals(store) if row.id.startswith(prefix.lower())]
    if len(found) != 1:
        problem = f"matches {len(found)} evals" if found else "is not an eval of this folder"
        raise UsageError(f"{prefix!r} {problem}.", hint="`friday eval status` lists them.")
    return found[0]


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
        for batch in await _evals(store):
            counts = await store.counts(batch.id)
            state = "running" if store.runs(batch.id) else batch.state
            suite, arms = Path(batch.job.items).name, ", ".join(EvalOptions.of(batch.job).arms)
            done = f"{counts.done:,} of {counts.total:,}"
            rows.append((batch.id, when(batch.updated, short=True), state, suite, arms, done, spent(batch) or "n/a"))
        if rows:
            show_table(("ID", "CHANGED", "STATE", "SUITE", "ARMS", "DONE", "SPENT"), rows, right=("DONE", "SPENT"))
        else:
            show("No evals in this folder.")


async def _results(name: str) -> EvalResults:
    """What an eval found. Raises UsageError."""
    from friday_cli.evals.results import eval_results, trial_rows

    async with _store() as store:
        batch = await _find(store, name)
        return eval_results(batch, await trial_rows(store, batch.id))


async def _again(name: str, form: str, *, trust: bool, yes: bool, rescore: bool) -> int:
    async with _store() as store:
        job = (await _find(store, name)).job
    return await run_eval(job, trusted_suite(job.items, trust=trust), form, yes=yes, rescore=rescore)


async def _cancel(name: str) -> None:
    async with _store() as store:
        batch = await _find(store, name)
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
