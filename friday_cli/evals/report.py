"""The report of an eval: as text, JSON or JUnit's XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import msgspec

from friday_cli.core.protocol.format import pluralize, seconds
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.map.caps import dollars

from .results import ArmResult, EvalResults, TrialRow
from .statistics import FEWEST

TITLES = ("ARM", "PASSED", "95 %", "ALL TRIALS", "COST", "PER PASS", "TOKENS", "TIME", "DENIED", "WARNINGS")
NUMBERS = TITLES[1:]
SHOWN = 10
"""Errors that a report names, and trials that changed what steers their check."""
LINE = 200


def money(cost: float, tokens: int) -> str:
    """US dollars, `n/a` for work whose model has no price."""
    return dollars(cost) if cost or not tokens else "n/a"


def arm_cells(arm: ArmResult) -> tuple[str, ...]:
    """The cells of an arm, for `TITLES`."""
    rate, known = arm.rate, arm.outcomes.clusters >= FEWEST
    each = arm.cost_per_pass
    return (
        arm.name,
        f"{arm.passed} of {arm.trials}",
        f"{100 * rate.low:.0f} to {100 * rate.high:.0f} %" if known else "too few tasks",
        f"{100 * arm.pass_k:.0f} %" if arm.k else "-",
        money(arm.cost, arm.tokens),
        "-" if each is None else money(each, arm.tokens),
        f"{arm.tokens:,}",
        seconds(arm.seconds),
        f"{arm.denied:,}",
        f"{arm.warnings:,}",
    )


def head(found: EvalResults) -> str:
    """The first line."""
    size = (
        f"{pluralize(found.tasks, 'task')} x {pluralize(len(found.arms), 'arm')} x {pluralize(found.trials, 'trial')}"
    )
    if found.cap is not None:
        return f"eval {found.id}: {found.suite}, {size}; {dollars(found.spent)} of {dollars(found.cap)} spent"
    return f"eval {found.id}: {found.suite}, {size}"


def remarks(found: EvalResults) -> Iterator[str]:
    """What is said below the table: each pair in words, then what a reader must know of the trials."""
    for pair in found.pairs:
        yield pair.text
    if found.reason:
        yield f"stopped: {sanitize_line(found.reason, LINE)}"
    for arm in found.arms:
        if arm.capped:
            yield f"{arm.name}: {pluralize(arm.capped, 'trial')} failed at a limit of its own (capped)"
        if arm.unsteady:
            tasks = ", ".join(f"{task} ({how})" for task, how in arm.unsteady.items())
            yield f"{arm.name}: trials of a task ended differently: {tasks}"
    steered = [row for row in found.rows if row.record is not None and row.record.steering]
    for row in steered[:SHOWN]:
        assert row.record is not None
        yield f"{row.label}: changed what steers the check: {sanitize_line(', '.join(row.record.steering), LINE)}"
    bad = [row for row in found.rows if row.outcome == "error"]
    if bad:
        yield f"{pluralize(len(bad), 'trial')} ended through no fault of an agent and {'counts' if len(bad) == 1 else 'count'} for none:"
    alike: dict[str, list[TrialRow]] = {}
    for row in bad:
        alike.setdefault(row.error.removeprefix(f"{row.task}: "), []).append(row)
    for error, (first, *others) in list(alike.items())[:SHOWN]:
        more = f" and {len(others):,} more" if others else ""
        yield f"  {first.label}{more}: {sanitize_line(error, LINE)}"
    if missing := sum(row.outcome == "not run" for row in found.rows):
        yield f"{pluralize(missing, 'trial')} not run yet: friday eval retry {found.id}"


def short_reason(row: TrialRow) -> str:
    """Why a trial did not pass, in a line: of the output of its check only the last line."""
    first, *rest = row.why.strip().split("\n")
    if rest and " ended with exit code " in first:
        first = f"{first.partition(': ')[0]}: {rest[-1]}"
    return sanitize_line(first, LINE)


def failures(found: EvalResults) -> Iterator[str]:
    """A line for each trial that did not pass, with its session."""
    for row in found.rows:
        if row.record is not None and row.record.outcome != "passed":
            yield f"{row.record.outcome}  {row.record.work.session[:8]}  {row.label}: {short_reason(row)}"


def as_data(found: EvalResults) -> dict[str, Any]:
    """The report as a JSON document."""
    document: dict[str, Any] = msgspec.to_builtins(found)
    for arm, data in zip(found.arms, document["arms"], strict=True):
        data["cost_per_pass"] = arm.cost_per_pass
    for pair, data in zip(found.pairs, document["pairs"], strict=True):
        data["text"] = pair.text
    for row, data in zip(found.rows, document["rows"], strict=True):
        data["outcome"] = row.outcome
    return document


def as_junit(found: EvalResults) -> str:
    """The report as JUnit's XML: a suite an arm, a case a trial."""
    out = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for arm in found.arms:
        rows = [row for row in found.rows if row.arm == arm.name]
        tags = Counter(_TAGS.get(row.outcome) for row in rows)
        numbers = f'failures="{tags["failure"]}" errors="{tags["error"]}" skipped="{tags["skipped"]}"'
        out.append(f'<testsuite name={quoteattr(arm.name)} tests="{len(rows)}" {numbers} time="{arm.seconds:.1f}">')
        for row in rows:
            took = row.record.work.seconds if row.record is not None else 0.0
            name = f"{row.task} trial {row.trial}"
            out.append(f'<testcase classname={quoteattr(arm.name)} name={quoteattr(name)} time="{took:.1f}">')
            why = sanitize_line(row.why, 2_000)
            if tag := _TAGS.get(row.outcome):
                out.append(f"<{tag} message={quoteattr(row.outcome)}>{escape(why)}</{tag}>")
            out.append("</testcase>")
        out.append("</testsuite>")
    return "\n".join([*out, "</testsuites>"])


_TAGS = {"failed": "failure", "capped": "failure", "error": "error", "not run": "skipped"}
