"""The worktrees of one session: made for children that are to work apart, brought back, or thrown away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from friday_cli.core.protocol.displays import DiffDisplay
from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.text.untrusted import neutralize, neutralize_line

from ..local import LocalWorkspace
from .create import Maker, commit, tree_of
from .git import Git, Repository, discover
from .git_trees import GitTrees, shown
from .merge import MergePlan, plan
from .metadata import State, Worktree, cards, sweep

ENDED: Mapping[State, str] = {
    "unchanged": "nothing was changed in it, so it was removed",
    "applied": "it was applied already",
    "discarded": "it was discarded",
    "kept": "its work is on its branch",
}
DIFF = 6_000
"""Characters of a difference that are shown to a model."""
MOST = 5_000
"""Changed files that are brought over at once; more are a matter for git itself."""
DIFFS = 40
"""Changed files whose difference is shown to a person."""


class Applied(msgspec.Struct, frozen=True):
    """What bringing a worktree's changes over did: the files, and those of them that were merged with changes made
    meanwhile (by name); `diffs` for people."""

    files: tuple[FileChange, ...]
    merged: tuple[str, ...]
    diffs: tuple[DiffDisplay, ...]


class Worktrees:
    """Makes worktrees below `folder` (made 0700), of the repository that a workspace lies in.

    `include` are patterns of ignored files that are copied all the same; `environ` is where git is looked for.
    One call works at a time. All of them may raise ToolError.
    """

    def __init__(
        self, folder: Path, *, session: str, include: Sequence[str] = (), environ: Mapping[str, str] | None = None
    ) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.session = session
        self._include = tuple(include)
        self._environ = os.environ if environ is None else environ
        self._found: Git | None = None
        self._all: list[Worktree] = []
        self._lock = asyncio.Lock()

    @property
    def git(self) -> Git:
        if self._found is None:
            self._found = Git(self._environ)
        return self._found

    # ---- looking ------------------------------------------------------------------

    @property
    def all(self) -> tuple[Worktree, ...]:
        """Every worktree this session knows of, the newest last."""
        return tuple(self._all)

    def of(self, path: str) -> Worktree | None:
        """The newest worktree of an agent itself."""
        return next((w for w in reversed(self._all) if w.path == path), None)

    def at(self, workspace: object) -> Worktree | None:
        """The open worktree that a workspace is the inside of."""
        return next((w for w in self._all if w.open and w.workspace is workspace), None)

    def remember(self, worktree: Worktree) -> None:
        """Know of a worktree that is gone."""
        self._all.append(worktree)

    # ---- making -------------------------------------------------------------------

    async def open(self, base: LocalWorkspace, *, again: str = "") -> Worktree:
        """A new worktree with a branch of its own, holding the working tree of `base` as it is. `again` is the name of
        one that is gone, whose folder is to be used once more."""
        async with self._lock:
            worktree: Worktree | None = None
            try:
                top, git_dir = await self._ground(base)
                repository = await Repository.read(self.git, git_dir)
                maker = Maker(self.git, self.folder, self.session, self._include)
                inside = self.at(base)
                home = inside.card.home if inside else ""
                worktree = await maker.begin(base, top, repository, home=home, again=again)
                await maker.fill(worktree, top, repository, index=inside.index if inside else None)
                worktree.workspace = base.at(worktree.root, away=(top,))
            except BaseException as error:
                if worktree is not None:
                    removing = asyncio.ensure_future(self._remove(worktree, "discarded"))
                    while not removing.done():  # also where it is cancelled meanwhile
                        with contextlib.suppress(asyncio.CancelledError):
                            await asyncio.wait([removing])
                    removing.result()
                if isinstance(error, OSError):
                    raise ToolError(f"No worktree could be made: {error.strerror or error}.") from None
                raise
            self._all.append(worktree)
            return worktree

    def claim(self, workspace: object, path: str) -> Worktree | None:
        """Give the worktree behind `workspace` to the agent `path`; None where there is none, or it is another's."""
        found = self.at(workspace)
        if found is None or found.path not in ("", path):
            return None
        found.note(agent=path)
        return found

    async def _ground(self, base: LocalWorkspace) -> tuple[Path, Path]:
        """The top and the git folder of the working tree that `base` lies in."""
        inside = self.at(base)
        if inside is not None:
            return inside.folder, Path(inside.card.admin)
        return await discover(self.git, base.root)

    # ---- what came of it ----------------------------------------------------------

    async def look(self, worktree: Worktree) -> None:
        """Find out what changed in a worktree. Where nothing did, it and its branch are removed."""
        async with self._lock:
            if worktree.open and not await asyncio.to_thread(worktree.folder.is_dir):
                await self._remove(worktree, "discarded")
                return
            await self._look(worktree)
            if worktree.state == "unchanged":
                await self._remove(worktree, "unchanged")

    async def _look(self, worktree: Worktree) -> GitTrees:
        self._require(worktree)
        if not worktree.card.start:
            worktree.state = "unchanged"  # it was never finished, so nobody has worked in it
            return await worktree.trees(self.git)
        if not await asyncio.to_thread(worktree.folder.is_dir):
            raise ToolError(
                f"The worktree of {worktree.path or worktree.card.name} cannot be used: its folder is gone."
            )
        trees = await worktree.trees(self.git)
        worktree.end = await trees.snapshot(Path(worktree.card.admin) / "index")
        worktree.changes = tuple(await trees.between(worktree.card.start, worktree.end))
        worktree.files = await trees.summary(worktree.card.start, worktree.end) if worktree.changes else ()
        worktree.text = await trees.patch(worktree.card.start, worktree.end, limit=DIFF) if worktree.changes else ""
        worktree.state = "changed" if worktree.changes or await self._committed(worktree) else "unchanged"
        return trees

    def _require(self, worktree: Worktree) -> None:
        if not worktree.open:
            whose = f"The worktree of {worktree.path or worktree.card.name}"
            raise ToolError(f"{whose} is not there any more: {ENDED[worktree.state]}.")

    async def _committed(self, worktree: Worktree) -> bool:
        """Whether its branch holds more than it started from."""
        return await self._tip(worktree) != worktree.card.base

    async def _tip(self, worktree: Worktree) -> str:
        common = Path(worktree.card.common)
        words = ("rev-parse", "-q", "--verify", f"refs/heads/{worktree.card.branch}^{{commit}}")
        code, out, _ = await self.git.ask(*words, cwd=common, env={"GIT_DIR": str(common)})
        return out.decode().strip() if code == 0 else worktree.card.base

    async def diff(self, worktree: Worktree, *, limit: int = DIFF) -> str:
        """What changed in a worktree since it was made, as text."""
        async with self._lock:
            trees = await self._look(worktree)
            return await trees.patch(worktree.card.start, worktree.end, limit=limit)

    def touched(self, worktree: Worktree, target: LocalWorkspace) -> tuple[str, ...]:
        """Every path that applying a worktree to `target` would change, as rules name it."""
        top = self._target(worktree, target)
        return tuple(shown(target.label(top / change.path)) for change in worktree.changes[: MOST + 1])

    def _target(self, worktree: Worktree, target: LocalWorkspace) -> Path:
        """The folder of `target` that answers to the top of the worktree."""
        inside = self.at(target)
        if inside is not None:
            return inside.folder
        within = Path(worktree.card.within)
        return target.root.parents[len(within.parts) - 1] if within.parts else target.root

    async def apply(
        self, worktree: Worktree, target: LocalWorkspace, *, allowed: Sequence[str] | None = None
    ) -> Applied:
        """Bring the changes of a worktree into the files of `target`, all of them or none, and remove it.

        `allowed` are the labels that may be touched (None: any). Raises ToolError, which names what conflicts.
        """
        async with self._lock:
            if target is worktree.workspace:
                raise ToolError("A worktree cannot be applied to itself.")
            trees = await self._look(worktree)
            if not worktree.changes:
                if worktree.state == "unchanged":
                    await self._remove(worktree, "unchanged")
                raise ToolError(f"Nothing changed in the worktree of {worktree.path or worktree.card.name}.")
            if allowed is not None and not set(self.touched(worktree, target)) <= set(allowed):
                raise ToolError(
                    "More was changed in the worktree meanwhile, and nothing was applied.", hint="Try again."
                )
            if len(worktree.changes) > MOST:
                raise ToolError(
                    f"{len(worktree.changes):,} files changed in the worktree, more than the {MOST:,} that are applied.",
                    hint="Keep the branch and merge it with git, or let the sub-agent clean up first.",
                )
            top = self._target(worktree, target)
            if outside := [c.path for c in worktree.changes if not target.root_of(top / c.path)]:
                raise ToolError(
                    f"Nothing was applied: {', '.join(map(shown, outside[:10]))} would lie outside the workspace.",
                    hint="Keep the branch and merge it with git instead.",
                )
            found = await plan(trees, worktree.changes, top)
            if found.conflicts:
                raise ToolError(await self._conflicts(worktree, trees, found))
            applied = await self._facts(worktree, trees, target, top, found)
            await target.apply_writes(found.steps, agent=worktree.path)
            await self._remove(worktree, "applied")
            return applied

    async def _conflicts(self, worktree: Worktree, trees: GitTrees, found: MergePlan) -> str:
        lines = [f"Nothing was applied: {len(found.conflicts)} of {len(worktree.changes)} changed files conflict."]
        lines += [f"- {neutralize_line(name)}: {reason}" for name, reason in found.conflicts]
        lines.append("What the worktree changed in them:")
        room = DIFF
        names = {name for name, _ in found.conflicts}
        for change in worktree.changes:
            if shown(change.path) in names and room > 0:
                text = await trees.patch(worktree.card.start, worktree.end, path=change.path, limit=room)
                lines.append(text)
                room -= len(text)
        return neutralize("\n".join(lines))

    async def _facts(
        self, worktree: Worktree, trees: GitTrees, target: LocalWorkspace, top: Path, found: MergePlan
    ) -> Applied:
        rows = {row.path: row for row in await trees.summary(worktree.card.start, worktree.end)}
        hashes = {step.path: step.digest for step in found.steps}
        files: list[FileChange] = []
        diffs: list[DiffDisplay] = []
        for change in worktree.changes:
            row, path = rows.get(shown(change.path)), top / change.path
            label = shown(target.label(path))
            files.append(FileChange(label, row.added if row else 0, row.removed if row else 0, hashes.get(path, "")))
            if len(diffs) < DIFFS:
                text = await trees.patch(worktree.card.start, worktree.end, path=change.path, limit=DIFF)
                diffs.append(
                    DiffDisplay(
                        label, text[text.find("@@") :] if "@@" in text else "", files[-1].added, files[-1].removed
                    )
                )
        return Applied(tuple(files), found.merged, tuple(diffs))

    async def discard(self, worktree: Worktree, *, keep_branch: bool = False) -> None:
        """Remove a worktree. With `keep_branch` its changes are committed on its branch, which stays; else both go."""
        async with self._lock:
            self._require(worktree)
            if keep_branch:
                await self._keep(worktree)
            await self._remove(worktree, "kept" if keep_branch else "discarded")

    async def _keep(self, worktree: Worktree) -> None:
        """Commit what a worktree holds on its branch, line ends and encodings as git would have them."""
        trees = await self._look(worktree)
        if not worktree.card.start:
            return
        common, card = Path(worktree.card.common), worktree.card
        with tempfile.TemporaryDirectory(prefix="git-", dir=self.folder) as name:
            own = GitTrees(self.git, trees.repository, trees.top, Path(name) / "index")
            tree = await own.committed(Path(card.admin) / "index")
        base = await tree_of(self.git, common, card.base)
        mine = {change.path for change in worktree.changes}
        rows = [change for change in await trees.between(base, tree) if change.path in mine]
        whole = await trees.grafted(base, rows)
        tip = await self._tip(worktree)
        if whole == await tree_of(self.git, common, tip):
            return
        words = f"Work of {worktree.path or 'a sub-agent'} in Friday session {self.session[:8]}"
        made = await commit(self.git, common, whole, (tip,), words)
        env = {"GIT_DIR": str(common)}
        await self.git("update-ref", f"refs/heads/{card.branch}", made, cwd=common, env=env)

    async def _remove(self, worktree: Worktree, state: State) -> None:
        """Remove the folder, what git knows of it and its card; the branch too, unless it is kept."""
        worktree.state = state
        if worktree.workspace is not None:
            await worktree.workspace.close()
            worktree.workspace = None
        card, common = worktree.card, Path(worktree.card.common)
        await asyncio.to_thread(sweep, worktree.folder)
        if await asyncio.to_thread(common.is_dir):
            env = {"GIT_DIR": str(common)}
            await self.git.ask("worktree", "remove", "--force", "--force", card.folder, cwd=common, env=env)
            if state != "kept":
                await self.git.ask("update-ref", "-d", f"refs/heads/{card.branch}", cwd=common, env=env)
        for file in (worktree.index, self.folder / f"{card.name}.json"):
            file.unlink(missing_ok=True)

    # ---- other processes' -----------------------------------------------------------

    async def recall(self) -> list[Worktree]:
        """The worktrees an earlier process of this session left, each looked at; what could not be, says why."""
        found = await asyncio.to_thread(lambda: list(cards(self.folder)))
        known = {worktree.card.name for worktree in self._all}
        fresh = [worktree for worktree in found if worktree.card.name not in known]
        for worktree in fresh:
            self._all.append(worktree)
            try:
                await self.look(worktree)
            except ToolError as error:
                worktree.state, worktree.problem = "changed", str(error)
        return fresh

    def enter(self, worktree: Worktree, base: LocalWorkspace) -> LocalWorkspace:
        """The workspace inside a worktree; made, beside `base`, where an earlier process had it."""
        if worktree.workspace is None:
            try:
                worktree.workspace = base.at(worktree.root, away=(Path(worktree.card.top),))
            except UsageError as error:
                raise ToolError(f"The worktree of {worktree.path} cannot be used any more: {error}") from None
        return worktree.workspace

    async def close(self) -> None:
        """Wait for what is being done; folders without a worktree are removed."""
        async with self._lock:
            with contextlib.suppress(OSError):
                if not any(self.folder.glob("*.json")):
                    for path in [path for what in ("*.index*", "*.json.*", "git-*") for path in self.folder.glob(what)]:
                        sweep(path) if path.is_dir() else path.unlink()
                    self.folder.rmdir()
