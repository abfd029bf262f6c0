"""`friday mcp serve` as the server of the conformance package, with the tools that its scenarios name as fixtures."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tests.counterparts.conformance import PACKAGE, PROJECT, play, scenarios
from tests.counterparts.install import Counterparts, installed
from tests.counterparts.report import Check, report

PACKAGES = (PACKAGE,)
PLAYED = (
    "tools-",
    "tasks-",
    "server-stateless",
    "caching",
    "server-initialize",
    "ping",
    "http-header-validation",
    "dns-rebinding-protection",
    "input-required-result-basic-elicitation",
)
REVISIONS = ("2025-11-25", "2026-07-28", "extension")
KNOWN = {
    "tools-call-with-logging [2025-11-25]": "a server's log messages are deprecated; Friday sends progress",
    "tools-call-sampling [2025-11-25]": "sampling is deprecated; Friday's sub-agents use Friday's models",
    "tasks-request-headers [extension]": "the library's HTTP does not check Mcp-Name of tasks/get; Friday serves stdio only",
    "tasks-status-notifications [extension]": "the package skips it by itself",
}


def main(only: str = "") -> int:
    """Play each scenario whose name contains `only`."""
    return report(run(installed(), only), KNOWN)


def run(tools: Counterparts, only: str) -> Iterator[Check]:
    """The scenarios that concern what Friday serves."""
    with served() as url:
        for revision in REVISIONS:
            for scenario in scenarios(tools, "server", revision):
                if scenario.startswith(PLAYED) and only in scenario:
                    yield play(tools, "server", scenario, revision, ["--url", url])


@contextmanager
def served() -> Iterator[str]:
    """The running server's address."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"FRIDAY_HOME": folder, "PYTHONPATH": str(PROJECT)}
        command = [sys.executable, "-m", "tests.counterparts.conformance_served"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, cwd=folder)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait()
