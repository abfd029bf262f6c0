"""What the fuzz reached is said at the end of every run, with the seed that repeats it."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The engine logs each defect of a tool with its trace; here there are thousands, on purpose."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reached: Counter[str] = Counter()
    seeds = []
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, value in getattr(report, "user_properties", []):
                if name == "fuzz reached":
                    reached.update(json.loads(value))
                if name == "fuzz seed":
                    seeds.append(value)
    if reached:
        terminalreporter.section("fuzz")
        terminalreporter.write_line(f"seeds: {', '.join(sorted(set(seeds)))}")
        terminalreporter.write_line(", ".join(f"{name} {number}" for name, number in sorted(reached.items())))
