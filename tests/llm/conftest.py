"""What all tests of the services share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from friday_cli.llm.transport import Transport, aclose_all


@pytest.fixture(autouse=True)
async def closing() -> AsyncIterator[None]:
    """Close the connections that a test leaves open."""
    yield
    await aclose_all()


@pytest.fixture(params=["http", "sdk"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param  # type: ignore[no-any-return]
