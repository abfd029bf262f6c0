"""Tests of what is only seen in passing, on machines of any speed.

Some promises are about time itself: a silent service is given up, a line stands on the screen while a tool works. A
test of one needs a real wait, and how long that must be depends on the machine: too short for a busy one is a failure
by chance, long enough for every one makes the suite slow. So such a test takes its times from `pace` and is tried with
longer ones where the short ones were not enough; it fails when the longest does not do either.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

PACES = (1.0, 5.0, 25.0)
"""How many times as long everything takes, in the order in which it is tried."""


def paced(test: Callable[..., Any]) -> Callable[..., Any]:
    """A test function with a parameter `pace`, by which it multiplies its times."""

    @functools.wraps(test)
    async def tried(*args: Any, **kwargs: Any) -> None:
        for pace in PACES[:-1]:
            try:
                return await test(*args, pace=pace, **kwargs)
            except (Exception, pytest.fail.Exception):
                continue
        return await test(*args, pace=PACES[-1], **kwargs)

    @functools.wraps(test)
    def tried_at_once(*args: Any, **kwargs: Any) -> None:
        for pace in PACES[:-1]:
            try:
                return test(*args, pace=pace, **kwargs)
            except (Exception, pytest.fail.Exception):
                continue
        return test(*args, pace=PACES[-1], **kwargs)

    wrapper = tried if inspect.iscoroutinefunction(test) else tried_at_once
    signature = inspect.signature(test)
    kept = [p for name, p in signature.parameters.items() if name != "pace"]
    wrapper.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return wrapper
