"""A share of `python -m tests.map deferred`: the books of a deferred batch whose process is killed are those of the service."""

from __future__ import annotations

import pytest

from tests.map.deferred import run_deferred


def test_the_cap_of_a_killed_deferred_batch_holds() -> None:
    assert run_deferred(40, 3, "anthropic", parallel=20, seed=4, cap=0.025) == []


@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
def test_the_books_of_a_killed_deferred_batch_are_those_of_the_service(vendor: str) -> None:
    assert run_deferred(40, 3, vendor, parallel=20, seed=3) == []
