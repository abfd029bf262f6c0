from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.delegation.harness import harness
from tests.virtual import VirtualLoop

__all__ = ["harness"]


def pytest_asyncio_loop_factories(item: pytest.Function) -> dict[str, Any]:
    """A virtual clock for the tests of this folder. What is kept on a real disk takes real time."""
    return {"real": asyncio.new_event_loop} if "disk" in item.fixturenames else {"virtual": VirtualLoop}
