"""Friday's connection as a client of the conformance package: both revisions, and `auth/*` with its mock issuer."""

from __future__ import annotations

import sys

from tests.counterparts.conformance import PACKAGE, play, scenarios
from tests.counterparts.install import Counterparts
from tests.counterparts.report import Check

PACKAGES = (PACKAGE,)
REVISIONS = ("2025-03-26", "2025-11-25", "2026-07-28")
KNOWN: dict[str, str] = {}
DRIVER = f"{sys.executable} -m tests.counterparts.conformance_driver"


def run(tools: Counterparts, only: str) -> list[Check]:
    """Play each scenario at each revision that has it."""
    found: list[Check] = []
    for revision in REVISIONS:
        played = {check.name.partition(" [")[0] for check in found}
        extensions = ("auth/", "sep-2640-") if revision == REVISIONS[-1] else ()
        for scenario in scenarios(tools, "client", revision, extensions):
            if only in scenario and (revision != REVISIONS[0] or scenario not in played):
                found.append(play(tools, "client", scenario, revision, ["--command", DRIVER]))
                print(f"  {'ok' if found[-1].passed else 'no'} {found[-1].name}", file=sys.stderr, flush=True)
    return found
