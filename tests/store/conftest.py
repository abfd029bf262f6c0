from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from friday_cli.store.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "friday.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    async with Store(path) as opened:
        yield opened


@pytest.fixture
async def session(store: Store) -> str:
    """An empty session of the folder /work."""
    return await store.create_session("/work")
