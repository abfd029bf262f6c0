"""The files that steer agents, from a git commit instead of the working tree: so that a pull request cannot steer its reviewer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.extensions import instructions, trust
from friday_cli.system.temporary_folder import TemporaryFolder
from friday_cli.workspace.worktrees.git import Git

_FOLDERS = (".friday/", ".claude/", ".agents/")
_FILES = frozenset((".mcp.json", *instructions.NAMES))
MAX_FILES = 2_000
"""Files of a commit that are taken."""
MAX_FILE_BYTES = 1_000_000
"""Largest of them."""


class TrustedCommit:
    """The steering files of a commit in a private folder: settings, profiles, commands, skills, hooks, MCP servers, plugins,
    and all Markdown files, which instructions may import. `folder` is what the folder of the session is there; `commit` is
    the full id. `close` deletes the files."""

    def __init__(self, held: TemporaryFolder, folder: Path, commit: str) -> None:
        self._held = held
        self.folder = folder
        self.commit = commit

    def close(self) -> None:
        self._held.close()


async def take(cwd: Path, ref: str, env: Mapping[str, str]) -> TrustedCommit:
    """The files of the commit that `ref` names, for a session in `cwd`. Raises UsageError if there is no such commit."""
    root = trust.project_root(cwd)
    try:
        git = Git(env, (root,))
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        commit = (await git(*words, cwd=root)).decode().strip()
        listed = await git("ls-tree", "-r", "-z", "--full-tree", commit, cwd=root)
        wanted = _steering(listed)
        data = "".join(f"{blob}\n" for _, _, blob in wanted).encode()
        contents = _contents(await git("cat-file", "--batch", cwd=root, data=data))
    except ToolError as error:
        raise UsageError(
            f"--trust-ref: {ref!r} is not a commit in {root}: {error.message}",
            hint="In CI fetch it first, for instance with `fetch-depth: 0`.",
        ) from None
    held = TemporaryFolder()
    inside = await asyncio.to_thread(lambda: cwd.resolve().relative_to(root))
    folder = await asyncio.to_thread(_write, held.path, inside, wanted, contents)
    return TrustedCommit(held, folder, commit)


def _steering(listed: bytes) -> list[tuple[str, bool, str]]:
    """Path, whether it can be executed, and blob of each steering file in the output of `git ls-tree -z`. Raises UsageError
    if there are too many."""
    steering, texts = [], []
    for line in listed.decode("utf-8", "surrogateescape").split("\0"):
        facts, _, path = line.partition("\t")
        mode, _, blob = facts.partition(" blob ")
        name = path.rpartition("/")[2]
        if mode in ("100644", "100755"):
            row = (path, mode == "100755", blob)
            if path.startswith(_FOLDERS) or name in _FILES:
                steering.append(row)
            elif name.lower().endswith(".md"):
                texts.append(row)
    if len(steering) > MAX_FILES:
        raise UsageError(f"--trust-ref: the commit has {len(steering):,} files that steer agents, above {MAX_FILES:,}.")
    return [*steering, *texts][:MAX_FILES]


def _contents(batch: bytes) -> list[bytes]:
    """The contents in the output of `git cat-file --batch`, in order."""
    found, at = [], 0
    while at < len(batch):
        end = batch.index(b"\n", at)
        size = int(batch[at:end].rsplit(b" ", 1)[1])
        found.append(batch[end + 1 : end + 1 + size])
        at = end + size + 2
    return found


def _write(name: str, inside: Path, wanted: list[tuple[str, bool, str]], contents: list[bytes]) -> Path:
    """Write the files below the folder `name`, and return the folder of the session there."""
    base = Path(os.path.realpath(name))
    folder = base / inside
    (base / ".git").mkdir()  # it is a project of its own, whatever is above it
    folder.mkdir(parents=True, exist_ok=True)
    for (label, executable, _), data in zip(wanted, contents, strict=True):
        if len(data) <= MAX_FILE_BYTES:
            path = base / label
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o755 if executable else 0o644)
    return folder
