from __future__ import annotations

from pathlib import Path

import pytest

from tests.session.harness import Stage
from tests.workspace.worktrees.repo_fixture import repository


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A stage whose project is a git repository. `worker` and `helper` may write and run, `hermit` works apart."""
    project = repository((tmp_path / "project").resolve(), a="1\n2\n3\n4\n5\n6\n7\n8\n", b="1\n")
    made = Stage(project, {})
    tools = "allowedTools: [read_file, edit_file, write_file, bash, list_dir]"
    made.profile("worker", tools, "subAgents: [helper]")
    made.profile("helper", tools)
    made.profile("hermit", tools, "isolation: worktree")
    return made
