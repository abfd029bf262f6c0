from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.session.harness import Harness
from tests.workspace.worktrees.repo_fixture import OpenRepository, repository

Opener = Callable[..., OpenRepository]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opener]:
    """Opens a workspace in a folder, by default of a new repository with `files`; it is closed after the test."""
    async with AsyncExitStack() as stack:

        def opened(root: Path | None = None, *, home: Path = tmp_path / "home", include: Any = (), **files: str) -> Any:
            repo = OpenRepository(home, root or repository(tmp_path / "repo", **files), include=include)
            stack.push_async_callback(repo.base.close)
            return repo

        yield opened


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    """A harness whose project is a git repository. `worker` and `helper` may write and run, `hermit` has a worktree."""
    harness = Harness(repository((tmp_path / "project").resolve(), a="1\n2\n3\n4\n5\n6\n7\n8\n", b="1\n"), {})
    tools = "allowedTools: [read_file, edit_file, write_file, bash, list_dir]"
    harness.profile("worker", tools, "subAgents: [helper]")
    harness.profile("helper", tools)
    harness.profile("hermit", tools, "isolation: worktree")
    return harness
