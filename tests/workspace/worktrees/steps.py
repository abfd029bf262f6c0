"""Calls of scripted agents that work in worktrees, and what a session left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from friday_cli.core.protocol.events import WorktreeChanged
from friday_cli.session.session import Session
from friday_cli.system.paths import data_dir
from tests.session.harness import Harness, delegates, does

Step = dict[str, Any]


def bash(command: str) -> Step:
    return does(("bash", {"command": command}))


def reads(path: str) -> Step:
    return does(("read_file", {"path": path}))


def writes(path: str, content: str) -> Step:
    return does(("write_file", {"path": path, "content": content}))


def edits(path: str, old: str, new: str) -> Step:
    return does(("edit_file", {"path": path, "edits": [{"old": old, "new": new}]}))


def isolated(task: str = "look", **more: Any) -> Step:
    """Delegates a task to a `worker` in a worktree."""
    return delegates("worker", task, isolation="worktree", **more)


def resumes(path: str = "a.1", **more: Any) -> Step:
    return does(("delegate_task", {"resume": path, "task": "more", **more}))


def batch(*tasks: tuple[str, str], **more: Any) -> Step:
    """Delegates several tasks: (profile, task)."""
    return does(("delegate_tasks", {"tasks": [{"profile": profile, "task": task, **more} for profile, task in tasks]}))


def applies(path: str = "a.1") -> Step:
    return does(("apply_delegation", {"id": path}))


def discards(path: str = "a.1", **more: Any) -> Step:
    return does(("discard_delegation", {"id": path, **more}))


async def ran(harness: Harness, play: dict[str, list[Step]], **options: Any) -> Session:
    """A closed session, by default in yolo mode, whose agents played `play` after one prompt."""
    harness.plays(play)
    return await harness.ran(**{"mode": "yolo", **options})


async def states(harness: Harness, session: str, path: str = "a.1") -> list[str]:
    """The states that the worktree of an agent had."""
    return [
        e.event.state for e in await harness.log(session) if e.agent == path and isinstance(e.event, WorktreeChanged)
    ]


def metadata_files(session: str = "*") -> list[Path]:
    return sorted((data_dir() / "worktrees").glob(f"{session}/*.json"))
