"""What the fuzz reached is reported at the end of every run, with the seeds that repeat it."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.fuzz.seeds import TIMES

FIXED_PARTS = 1 if TIMES == 1 else 2 * TIMES
"""One finds every mutant (`test_mutants.py`)."""
RARE = {"continued twice": 2 * FIXED_PARTS, "detached": 2 * FIXED_PARTS, "worktrees applied": FIXED_PARTS // 2}
"""What all parts of test_trees.py with fixed seeds must reach together: too rare to demand it of each."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """No log output: the scenes have thousands of defects of tools on purpose, and each is logged with a traceback."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run whose fixed scenes reached too little of what is rare."""
    if _missed(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reached: Counter[str] = Counter()
    found = _parts(config)
    for _, of_part in found:
        reached.update(of_part)
    if reached:
        terminalreporter.section("fuzz")
        terminalreporter.write_line(f"seeds: {', '.join(sorted({seed for seed, _ in found}))}")
        terminalreporter.write_line(", ".join(f"{name} {number}" for name, number in sorted(reached.items())))
    if missed := _missed(config):
        terminalreporter.write_line(f"reached too little in all fixed parts (number, least): {missed}", red=True)


def _parts(config: pytest.Config) -> list[tuple[str, dict[str, int]]]:
    """The first seed of each part that ran, as `kind number`, and what it reached."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")  # None in a process of xdist
    reports = [report for end in ("passed", "failed") for report in (reporter.stats.get(end, []) if reporter else [])]
    properties = [dict(getattr(report, "user_properties", [])) for report in reports]
    return [(of["fuzz seed"], json.loads(of["fuzz reached"])) for of in properties if "fuzz reached" in of]


def _missed(config: pytest.Config) -> dict[str, tuple[int, int]]:
    """What the fixed parts reached too little, with how often and the least; nothing where not all of them ran."""
    fixed = [reached for seed, reached in _parts(config) if seed.startswith("fixed")]
    total = {name: sum(reached.get(name, 0) for reached in fixed) for name in RARE}
    short = {name: (total[name], least) for name, least in RARE.items() if total[name] < least}
    return short if len(fixed) == FIXED_PARTS else {}
