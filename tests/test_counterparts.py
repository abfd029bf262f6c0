"""The runner of counterparts, and one of their scenarios where the packages are installed."""

from __future__ import annotations

import pytest

from tests.counterparts.conformance import PACKAGE, play
from tests.counterparts.conformance_client import DRIVER
from tests.counterparts.install import installed, missing
from tests.counterparts.report import Check, report


@pytest.mark.slow
def test_the_conformance_package_plays_a_scenario_with_the_connection() -> None:
    if reason := missing((PACKAGE,)):
        pytest.skip(f"the conformance package of MCP: {reason}")
    assert play(installed(), "client", "tools_call", "2026-07-28", ["--command", DRIVER]).note == ""


@pytest.mark.parametrize(
    ("checks", "code"),
    [
        ([Check("a", True), Check("b", False)], 0),
        ([Check("a", False)], 1),
        ([Check("b", True)], 1),
    ],
)
def test_only_what_is_known_may_fail_and_must(checks: list[Check], code: int) -> None:
    assert report(checks, {"b": "a reason"}) == code
