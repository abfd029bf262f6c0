"""What a counterpart found: one line for each check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing that was tried. `note`: what failed."""

    name: str
    passed: bool
    note: str = ""


def report(checks: Iterable[Check], known: Mapping[str, str]) -> int:
    """Print the checks as they are found, and return 1 if any is not as expected, else 0. `known`: the reasons of checks that
    do not pass, by name."""
    count, passed, code = 0, 0, 0
    for check in checks:
        reason = known.get(check.name)
        if check.passed:
            line = f"ok     {check.name}" if reason is None else f"PASSES {check.name}: remove it from the known ones"
        else:
            line = f"FAILED {check.name}: {check.note}" if reason is None else f"known  {check.name}: {reason}"
        print(f"  {line}", flush=True)
        count, passed = count + 1, passed + check.passed
        code = code if check.passed == (reason is None) else 1
    print(f"  {passed} of {count} passed", flush=True)
    return code
