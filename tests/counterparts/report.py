"""What a counterpart found: one line for each check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing that was tried. `note`: what failed."""

    name: str
    passed: bool
    note: str = ""


def judged(checks: list[Check], known: Mapping[str, str]) -> tuple[str, bool]:
    """The report, and whether it is as expected. `known`: the reasons of checks that do not pass, by name."""
    lines, expected = [], True
    for check in checks:
        reason = known.get(check.name)
        if check.passed and reason is None:
            lines.append(f"  ok     {check.name}")
        elif check.passed:
            lines.append(f"  PASSES {check.name}: remove it from the known ones")
            expected = False
        elif reason is not None:
            lines.append(f"  known  {check.name}: {reason}")
        else:
            lines.append(f"  FAILED {check.name}: {check.note}")
            expected = False
    passed = sum(check.passed for check in checks)
    return "\n".join([*lines, f"  {passed} of {len(checks)} passed"]), expected
