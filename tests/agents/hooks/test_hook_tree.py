"""One hook sees every call of every agent of the tree, exactly once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from friday_cli.agents.hooks.session_hooks import SessionHooks
from friday_cli.core.agent.agent import HookOutcome
from friday_cli.core.protocol.events import MessageAdded
from tests.agents.hooks.hook_files import Recorder, own_hooks
from tests.session.harness import Harness, delegates, does, says
from tests.workspace.worktrees.repo_fixture import repository

LOOK = does(("list_dir", {"path": "."}))


async def calls_and_fires(harness: Harness, folder: Path) -> tuple[Counter[Any], Counter[Any]]:
    """The calls of a tree: root, background child with a grandchild, fork, child in a worktree; and those the hook saw."""
    recorder = Recorder(folder)
    own_hooks(recorder.hooks("PreToolUse"))
    harness.profile("lead", "subAgents: [researcher]")
    repository(harness.project)
    harness.plays(
        {
            "a": [
                delegates("lead", "lead the work", background=True),
                does(
                    ("delegate_task", {"profile": "researcher", "task": "fork", "fork": True}),
                    ("delegate_task", {"profile": "researcher", "task": "alone", "isolation": "worktree"}),
                ),
                LOOK,
                says("done"),
                says("done"),
                says("done"),
            ],
            "a.1": [LOOK, delegates("researcher"), says("fine")],
            **{path: [LOOK, says("fine")] for path in ("a.1.1", "a.2", "a.3")},
        }
    )
    session = await harness.ran(mode="yolo")
    log = await harness.log(session.id)
    made = [(e.agent, c.id) for e in log if isinstance(e.event, MessageAdded) for c in e.event.message.calls]
    assert {agent for agent, _ in made} == {"a", "a.1", "a.1.1", "a.2", "a.3"}
    seen = [(one["friday"]["agent"], one["tool_use_id"]) for one in recorder.inputs()]
    return Counter(made), Counter(seen)


async def test_every_call_of_the_tree_fires_once(harness: Harness, tmp_path: Path) -> None:
    made, seen = await calls_and_fires(harness, tmp_path / "inputs")
    assert seen == made
    assert len({one["cwd"] for one in Recorder.read(tmp_path / "inputs")}) == 2  # the folder, and the worktree
    assert set(seen.values()) == {1}


async def test_a_tree_whose_children_are_skipped_is_found(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SessionHooks.before_call

    async def only_main(self: SessionHooks, agent: Any, *rest: Any) -> HookOutcome:
        return await real(self, agent, *rest) if agent.parent is None else HookOutcome()

    monkeypatch.setattr(SessionHooks, "before_call", only_main)
    made, seen = await calls_and_fires(harness, tmp_path / "inputs")
    assert seen != made
