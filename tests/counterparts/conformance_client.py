"""Friday's connection as a client of the conformance package: both revisions, and `auth/*` with its mock issuer."""

from __future__ import annotations

import sys

from tests.counterparts.conformance import PACKAGE, play, scenarios
from tests.counterparts.install import Counterparts
from tests.counterparts.report import Check

PACKAGES = (PACKAGE,)
REVISIONS = ("2025-03-26", "2025-11-25", "2026-07-28", "extension")
MACHINE = "logins without a person are not built: a session has no secret of a service account"
SKILLS = "skills of servers are not read; they come as ordinary resources"
KNOWN = {
    "sep-2322-client-request-state [2026-07-28]": "all checks pass; the library refuses a result without resultType",
    "auth/client-credentials-jwt [extension]": MACHINE,
    "auth/client-credentials-basic [extension]": MACHINE,
    "auth/enterprise-managed-authorization [extension]": MACHINE,
    "auth/wif-jwt-bearer [extension]": MACHINE,
    "auth/dpop [extension]": "tokens bound to a key (DPoP) are not in the library",
    "auth/dpop-nonce [extension]": "tokens bound to a key (DPoP) are not in the library",
}
DRIVER = f"{sys.executable} -m tests.counterparts.conformance_driver"


def run(tools: Counterparts, only: str) -> list[Check]:
    """Play each scenario at each revision that has it, of the oldest revision those that no later one has."""
    later = {scenario for revision in REVISIONS[1:] for scenario in scenarios(tools, "client", revision)}
    found: list[Check] = []
    for revision in REVISIONS:
        for scenario in scenarios(tools, "client", revision):
            if only in scenario and (revision != REVISIONS[0] or scenario not in later):
                found.append(play(tools, "client", scenario, revision, ["--command", DRIVER]))
                print(f"  {'ok' if found[-1].passed else 'no'} {found[-1].name}", file=sys.stderr, flush=True)
    return found
