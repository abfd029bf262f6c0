"""Turns the changes of a worktree into changes of other files, or into a commit on its branch."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec

from friday_cli.core.protocol.displays import DiffDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.text.untrusted import neutralize, neutralize_line
from friday_cli.system.paths import text_of

from ..local import LocalWorkspace
from .create import commit, tree_of
from .git import Git
from .git_trees import GitTrees
from .merge import MergePlan, plan
from .metadata import Worktree

DIFF = 6_000
"""Characters of a diff that are shown to a model."""
MOST = 5_000
"""Changed files that can be applied at once."""
DIFFS = 40
"""Changed files whose diff is shown to the user."""


class Applied(msgspec.Struct, frozen=True):
    """The result of applying a worktree: the changed files, the names of those that were merged with other changes, and
    diffs for the user."""

    files: tuple[FileChange, ...]
    merged: tuple[str, ...]
    diffs: tuple[DiffDisplay, ...]


async def plan_apply(worktree: Worktree, trees: GitTrees, target: LocalWorkspace, top: Path) -> MergePlan:
    """Plan to make the changes of `worktree` in the files of `target`, where `top` is the folder that corresponds to the
    top of the worktree. Raises ToolError if a change conflicts, is outside of `target`, or if there are too many."""
    if len(worktree.changes) > MOST:
        raise ToolError(
            f"{len(worktree.changes):,} files changed in the worktree, more than the {MOST:,} that can be applied.",
            hint="Keep the branch and merge it with git, or let the sub-agent clean up first.",
        )
    if outside := [c.path for c in worktree.changes if not target.root_of(top / c.path)]:
        raise ToolError(
            f"Nothing was applied: {', '.join(map(text_of, outside[:10]))} would be outside the workspace.",
            hint="Keep the branch and merge it with git instead.",
        )
    found = await plan(trees, worktree.changes, top)
    if found.conflicts:
        raise ToolError(await _conflict_report(worktree, trees, found))
    return found


async def _conflict_report(worktree: Worktree, trees: GitTrees, found: MergePlan) -> str:
    lines = [f"Nothing was applied: {len(found.conflicts)} of {len(worktree.changes)} changed files conflict."]
    lines += [f"- {neutralize_line(name)}: {reason}" for name, reason in found.conflicts]
    lines.append("What the worktree changed in them:")
    room = DIFF
    names = {name for name, _ in found.conflicts}
    for change in worktree.changes:
        if text_of(change.path) in names and room > 0:
            text = await trees.patch(worktree.metadata.start, worktree.end, path=change.path, limit=room)
            lines.append(text)
            room -= len(text)
    return neutralize("\n".join(lines))


async def describe(worktree: Worktree, trees: GitTrees, target: LocalWorkspace, top: Path, found: MergePlan) -> Applied:
    """The result that a plan of `plan_apply` will have. Raises ToolError."""
    rows = {row.path: row for row in await trees.summary(worktree.metadata.start, worktree.end)}
    hashes = {step.path: step.digest for step in found.steps}
    files: list[FileChange] = []
    diffs: list[DiffDisplay] = []
    for change in worktree.changes:
        row, path = rows.get(text_of(change.path)), top / change.path
        label = text_of(target.label(path))
        files.append(FileChange(label, row.added if row else 0, row.removed if row else 0, hashes.get(path, "")))
        if len(diffs) < DIFFS:
            text = await trees.patch(worktree.metadata.start, worktree.end, path=change.path, limit=DIFF)
            hunks = text[text.find("@@") :] if "@@" in text else ""
            diffs.append(DiffDisplay(label, hunks, files[-1].added, files[-1].removed))
    return Applied(tuple(files), tuple(found.merged), tuple(diffs))


async def commit_changes(git: Git, worktree: Worktree, trees: GitTrees, tip: str, message: str) -> None:
    """Commit the changes of a worktree on its branch, whose newest commit is `tip`, with the line ends and encodings that
    git would use. Does nothing if the branch has them already. Raises ToolError."""
    metadata, common = worktree.metadata, Path(worktree.metadata.common)
    with tempfile.TemporaryDirectory(prefix="git-", dir=worktree.parent) as name:
        converted = GitTrees(git, trees.repository, trees.top, Path(name) / "index")
        tree = await converted.committed(Path(metadata.admin) / "index")
    base = await tree_of(git, common, metadata.base)
    changed = {change.path for change in worktree.changes}
    rows = [change for change in await trees.changes(base, tree) if change.path in changed]
    new_tree = await trees.with_changes(base, rows)
    if new_tree == await tree_of(git, common, tip):
        return
    created = await commit(git, common, new_tree, message, parent=tip)
    await git("update-ref", f"refs/heads/{metadata.branch}", created, git_dir=common)
