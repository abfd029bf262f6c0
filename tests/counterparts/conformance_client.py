"""Friday's connection as a client of the conformance package: both revisions, and `auth/*` with its mock issuer."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.counterparts.conformance import PACKAGE, play, scenarios
from tests.counterparts.install import Counterparts, installed
from tests.counterparts.report import Check, report

PACKAGES = (PACKAGE,)
REVISIONS = ("2025-03-26", "2025-11-25", "2026-07-28", "extension")
MACHINE = "logins without a person are not built: a session has no secret of a service account"
SKILLS = "skills of servers are not built: they are read as ordinary resources"
KNOWN = {
    "sep-2322-client-request-state [2026-07-28]": "all checks pass; the library refuses a result without resultType",
    "auth/client-credentials-jwt [extension]": MACHINE,
    "auth/client-credentials-basic [extension]": MACHINE,
    "auth/enterprise-managed-authorization [extension]": MACHINE,
    "auth/wif-jwt-bearer [extension]": MACHINE,
    "auth/dpop [extension]": "tokens bound to a key (DPoP) are not in the library",
    "sep-2640-client-no-prefetch [extension]": SKILLS,
    "sep-2640-client-verify-digest [extension]": SKILLS,
    "sep-2640-client-verify-size [extension]": SKILLS,
    "sep-2640-client-verify-frontmatter [extension]": SKILLS,
    "auth/dpop-nonce [extension]": "tokens bound to a key (DPoP) are not in the library",
}
DRIVER = f"{sys.executable} -m tests.counterparts.conformance_driver"


def main(only: str = "") -> int:
    """Play each scenario whose name contains `only`."""
    return report(run(installed(), only), KNOWN)


def run(tools: Counterparts, only: str) -> Iterator[Check]:
    """Each scenario at each revision that has it, of the oldest revision those that no later one has."""
    later = {scenario for revision in REVISIONS[1:] for scenario in scenarios(tools, "client", revision)}
    for revision in REVISIONS:
        for scenario in scenarios(tools, "client", revision):
            if only in scenario and (revision != REVISIONS[0] or scenario not in later):
                yield play(tools, "client", scenario, revision, ["--command", DRIVER])
