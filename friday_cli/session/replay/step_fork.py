"""Forks a session right before a turn of one of its agents: the log up to it, and the files of that moment in a git worktree."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from friday_cli.config import load
from friday_cli.core.protocol import events
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.store.store import new_id
from friday_cli.system import safe_files
from friday_cli.system.git_command import git
from friday_cli.system.paths import data_dir
from friday_cli.workspace.checkpoints.blobs import MEGABYTE, blobs_of
from friday_cli.workspace.checkpoints.file_history import FileHistory
from friday_cli.workspace.checkpoints.restore_plan import plan
from friday_cli.workspace.local import LocalWorkspace


class StepFork(msgspec.Struct, frozen=True):
    """A fork that was prepared: `folder` is the session's in the worktree `place`. `before` is the number of the event that began the turn;
    `missing` names what is not as it was then."""

    place: Path
    folder: Path
    before: int
    missing: tuple[str, ...]


async def prepare(
    session: str, envelopes: Sequence[Envelope], path: str, turn: int, env: Mapping[str, str] | None = None
) -> StepFork:
    """Make a worktree with the files as they were before turn number `turn` of agent `path`, counted over all its runs. Raises
    UsageError for an unknown step, or if the folder has no git repository; FridayError if git fails."""
    before = _start_of(envelopes, path, turn)
    first = envelopes[0].event
    assert isinstance(first, events.SessionStarted)
    source = Path(first.cwd)
    if not await asyncio.to_thread(source.is_dir):
        raise UsageError(f"The folder of session {session[:8]} is gone: {source}.")
    try:
        top = Path(os.fsdecode((await asyncio.to_thread(git, source, "rev-parse", "--show-toplevel")).strip()))
        commit = (await asyncio.to_thread(git, source, "rev-parse", "HEAD")).decode().strip()
    except FridayError:
        raise UsageError(
            f"{source} is not in a git repository with a commit, so its files cannot be copied separately.",
            hint="`friday sessions fork --at N` copies the conversation only.",
        ) from None
    place = data_dir(env) / "forks" / f"{session[:8]}-{path}-{turn}-{new_id()[:8]}"
    await asyncio.to_thread(_copy, top, place)
    folder = place / source.relative_to(top)
    try:
        missing = await _restore(session, envelopes, before, folder, env)
    except BaseException:
        await asyncio.to_thread(remove, source, place)
        raise
    return StepFork(place, folder, before, (*_changed(envelopes, commit, before), *missing))


def remove(source: Path, place: Path) -> None:
    """Remove a worktree that is not used after all. Raises FridayError."""
    git(source, "worktree", "remove", "--force", str(place))


def _start_of(envelopes: Sequence[Envelope], path: str, turn: int) -> int:
    found = [e.seq or 0 for e in envelopes if e.agent == path and isinstance(e.event, events.TurnStarted)]
    if not 1 <= turn <= len(found):
        known = sorted({e.agent for e in envelopes if isinstance(e.event, events.AgentStarted)})
        hint = f"It had {len(found)} turns, numbered from 1." if found else f"Agents: {', '.join(known)}."
        raise UsageError(f"There is no turn {turn} of {path} in this session.", hint=hint)
    return found[turn - 1]


def _copy(top: Path, place: Path) -> None:
    """A worktree of the repository `top` with the files that its folder has now, ignored ones left out."""
    place.parent.mkdir(parents=True, exist_ok=True)
    git(top, "worktree", "add", "--detach", "--quiet", "--no-checkout", str(place), "HEAD")
    git(place, "read-tree", "HEAD")
    listed = git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0")
    for name in listed:
        if name:
            safe_files.copy(top, place, os.fsdecode(name))


async def _restore(
    session: str, envelopes: Sequence[Envelope], before: int, folder: Path, env: Mapping[str, str] | None
) -> list[str]:
    """Undo in `folder` what the session changed after event `before`. Returns what could not be undone."""
    settings = load(project=None, flags={}, environ=os.environ if env is None else env).settings
    blobs, most = blobs_of(session, settings, env), settings.checkpoints.file_megabytes * MEGABYTE
    workspace = LocalWorkspace(folder)
    try:
        changes = list(FileHistory(envelopes).since(before - 1).values())
        found = await asyncio.to_thread(plan, changes, workspace, blobs, most=most)
        await workspace.apply_writes(found.steps)
    finally:
        await workspace.close()
    return [f"{row.path}: it has its current content ({row.reason})" for row in (*found.conflicts, *found.lost)]


def _changed(envelopes: Sequence[Envelope], commit: str, before: int) -> list[str]:
    """What a fork does not bring back, beside files."""
    missing = []
    then = next((e.event.commit for e in envelopes if isinstance(e.event, events.WorkspaceFound)), "")
    if then and then != commit:
        missing.append(f"the folder is at commit {commit[:12]} now; the session began at {then[:12]}")
    if not then:
        missing.append(
            "the commit at the start was not recorded; files that the session did not change have their current content"
        )
    kept = [e for e in envelopes if (e.seq or 0) < before]
    states = {e.agent: e.event.state for e in kept if isinstance(e.event, events.WorktreeChanged)}
    missing += [f"the worktree of {path}" for path in sorted(states) if states[path] in ("opened", "changed")]
    if any(isinstance(e.event, events.ToolStarted) and e.event.tool.startswith("mcp__") for e in kept):
        missing.append("what MCP servers changed")
    return missing
