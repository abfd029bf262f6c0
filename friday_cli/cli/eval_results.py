"""Runs an eval, and shows what it found."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .eval_arms import read_arm
from .output import remark, show, show_json, show_table

if TYPE_CHECKING:
    from friday_cli.evals.baseline import Gate
    from friday_cli.evals.results import EvalResults
    from friday_cli.evals.suite import Suite
    from friday_cli.map.job import MapJob


async def run_eval(
    job: MapJob, suite: Suite, form: str, *, yes: bool, rescore: bool = False, gate: Gate | None = None
) -> int:
    """Run an eval and show its report. Returns the exit code. Raises FridayError."""
    from friday_cli.evals.arm import run_again
    from friday_cli.evals.baseline import Gate, judge
    from friday_cli.evals.options import EvalOptions
    from friday_cli.evals.results import eval_results
    from friday_cli.evals.run import EvalRun
    from friday_cli.llm.transport import aclose_all
    from friday_cli.map.store import MapStore

    from .map import watch_signals
    from .map_progress import progress_frontend

    arms = EvalOptions.of(job).arms
    store, frontend = MapStore(job.folder, os.environ), progress_frontend(yes=yes)
    running = EvalRun(
        job,
        suite,
        [read_arm(name, flags, again=bool(run_again(arms, name))) for name, flags in arms.items()],
        store,
        frontend,
        rescore=rescore,
    )
    code = watch_signals(running, frontend)
    try:
        batch, rows = await running.run()
        frontend.close()
        found = eval_results(batch, rows)
        show_results(found, form)
        judged, said = judge(found, gate or Gate())
        for line in said:
            remark(line)
        if form == "text" and any(row.outcome in ("failed", "capped") for row in rows):
            remark(f"friday eval status {batch.id} says why trials did not pass, and names their sessions")
        return code() or exit_code(found) or judged
    finally:
        frontend.close()
        await store.close()
        await aclose_all()


def exit_code(found: EvalResults) -> int:
    if found.reason.startswith("the service"):
        return 75
    if found.reason.startswith("the cap"):
        return 5
    return 1 if found.reason else 0


def show_results(found: EvalResults, form: str) -> None:
    """Print the report: `form` is text, json, junit or html."""
    from friday_cli.evals import report

    if form == "json":
        show_json(report.as_data(found))
    elif form == "junit":
        show(report.as_junit(found))
    elif form == "html":
        from friday_cli.evals.page import as_html

        print(as_html(found), end="")
    else:
        show(report.head(found))
        show()
        show_table(report.TITLES, [report.arm_cells(arm) for arm in found.arms], right=report.NUMBERS)
        show()
        for line in report.remarks(found):
            show(line)
