"""Stores working trees as git trees, and compares git trees."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.text.sanitize import sanitize
from friday_cli.system.paths import text_of

from .git import Git, Repository

MOST_BYTES, MOST_FILES = 4_000_000_000, 500_000
"""Largest working tree that is copied or compared: bytes and files."""
MOST_READ = 256_000_000
"""Bytes of changed files that can be applied."""
LISTED = 1_000
"""Changed files that are listed by name."""
ABSENT, LINK, FILE, PROGRAM, REPOSITORY = 0, 0o120000, 0o100644, 0o100755, 0o160000


class TreeChange(msgspec.Struct, frozen=True):
    """One path that differs between two trees: its modes in git and the ids of its contents."""

    path: str
    old_mode: int
    new_mode: int
    old: str
    new: str


class GitTrees:
    """The working tree `top` as git sees it. `index` is Friday's private index, which makes the next scan fast; it is
    created if it is missing. `hidden` folders are excluded. All calls may raise ToolError."""

    def __init__(
        self, git: Git, repository: Repository, top: Path, index: Path, *, hidden: Sequence[Path] = ()
    ) -> None:
        self.git, self.repository, self.top, self.index, self.hidden = git, repository, top, index, hidden

    async def snapshot(self, tracked: Path) -> str:
        """The id of a git tree with the exact files of the working tree, without nested repositories and ignored files,
        except those in `tracked`, the index of the working tree itself."""
        lock = self.index.with_name(self.index.name + ".lock")
        lock.unlink(missing_ok=True)  # left by a killed call: no other process uses this index
        with self.repository.control(self.top, self.index, raw=True, hidden=self.hidden) as env:
            await self._add_tracked(env, tracked)
            return await self._write_tree(env)

    async def committed(self, tracked: Path) -> str:
        """Like `snapshot`, but as git itself would commit the files: with the line ends and encodings of the repository's
        attributes. Starts from the index `tracked`."""
        if await asyncio.to_thread(tracked.is_file):
            await asyncio.to_thread(shutil.copy2, tracked, self.index)  # its timestamp tells git which files to read
        with self.repository.control(self.top, self.index, raw=False, hidden=self.hidden) as env:
            return await self._write_tree(env)

    async def check_out(self, folder: Path, index: Path) -> None:
        """Write the exact files of the last `snapshot` into `folder`; `index` becomes the index of the copy."""
        await asyncio.to_thread(shutil.copyfile, self.index, index)
        with self.repository.control(folder, index, raw=True) as env:
            await self.git("checkout-index", "-a", "-u", "-q", cwd=folder, env=env)

    async def with_changes(self, tree: str, changes: Sequence[TreeChange]) -> str:
        """The id of `tree` with `changes` made in it, whatever the old contents are."""
        null_id = "0" * len(tree)
        rows = [
            os.fsencode(f"{c.new_mode:o} {c.new if c.new_mode else null_id}\t{c.path}\0")
            for c in sorted(changes, key=lambda c: c.new_mode != ABSENT)  # deletions first: a file may replace a folder
        ]
        with (
            tempfile.TemporaryDirectory(prefix="git-", dir=self.index.parent) as name,
            self.repository.control(self.top, Path(name) / "index", raw=True) as env,
        ):
            await self.git("read-tree", tree, cwd=self.top, env=env)
            words = ("update-index", "-z", "--replace", "--index-info")
            await self.git(*words, cwd=self.top, env=env, data=b"".join(rows))
            return (await self.git("write-tree", "--missing-ok", cwd=self.top, env=env)).decode().strip()

    async def _add_tracked(self, env: dict[str, str], tracked: Path) -> None:
        """Add the paths that git tracks in the working tree to our index."""
        if not await asyncio.to_thread(tracked.is_file):
            return
        listed = await self.git("ls-files", "-z", "-s", cwd=self.top, env={**env, "GIT_INDEX_FILE": str(tracked)})
        known = await self.git("ls-files", "-z", cwd=self.top, env=env)
        if rows := await asyncio.to_thread(_missing_entries, listed, known):
            words = ("update-index", "-z", "--index-info")
            await self.git(*words, cwd=self.top, env=env, data=rows)

    async def _write_tree(self, env: dict[str, str]) -> str:
        listed = await self.git("ls-files", "-z", "-c", "-o", "--exclude-standard", cwd=self.top, env=env)
        if nested := await asyncio.to_thread(_nested_repositories, self.top, listed):
            specs = [b":(top)", *(b":(top,exclude,literal)" + name for name in nested)]
            words = ("add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul")
            await self.git(*words, cwd=self.top, env=env, data=b"\0".join(specs))
        else:
            await self.git("add", "-A", cwd=self.top, env=env)
        return (await self.git("write-tree", "--missing-ok", cwd=self.top, env=env)).decode().strip()

    async def changes(self, old: str, new: str) -> list[TreeChange]:
        """The paths that differ, in git's order."""
        return await asyncio.to_thread(_changes, await self._diff_tree("--raw", "--no-renames", old, new))

    async def summary(self, old: str, new: str) -> tuple[FileChange, ...]:
        """The changed files for people, with renames and line counts. `seen` names other changes than of content."""
        return await asyncio.to_thread(_rows, await self._diff_tree("--raw", "--numstat", "-M", old, new))

    async def patch(self, old: str, new: str, *, path: str = "", limit: int) -> str:
        """The diff as text, of one path or of all, cut after `limit` characters."""
        with self.repository.control(self.top, self.index, raw=True) as env:
            words = ("diff-tree", "-r", "-p", "-M", "--no-color", "--no-ext-diff", "--no-textconv", old, new)
            more = ("--", path) if path else ()
            literal = {**env, "GIT_LITERAL_PATHSPECS": "1"}
            out = await self.git(*words, *more, cwd=self.top, env=literal, cut=4 * limit + 1)
        text = sanitize(out.decode("utf-8", "replace"))
        return text if len(text) <= limit else f"{text[:limit].rpartition(chr(10))[0]}\n[... diff truncated]\n"

    async def contents(self, oids: Iterable[str]) -> dict[str, bytes]:
        """The content of each blob id."""
        wanted = "".join(f"{oid}\n" for oid in dict.fromkeys(oids)).encode()
        with self.repository.control(self.top, self.index, raw=True) as env:
            sizes = await self.git("cat-file", "--batch-check=%(objectsize)", cwd=self.top, env=env, data=wanted)
            total = sum(int(size) for size in sizes.split() if size.isdigit())
            if total > MOST_READ:
                raise ToolError(
                    f"The changed files have {total / 1e6:,.0f} MB; at most {MOST_READ // 1_000_000} MB can be applied."
                )
            out = await self.git("cat-file", "--batch", cwd=self.top, env=env, data=wanted)
        found: dict[str, bytes] = {}
        at = 0
        while at < len(out):
            end = out.index(b"\n", at)
            oid, _, size = out[at:end].decode().partition(" blob ")
            if not size:
                raise ToolError(f"The git object {oid.split()[0]} is missing.")
            at = end + 1 + int(size)
            found[oid] = out[end + 1 : at]
            at += 1
        return found

    async def merge_text(self, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
        """A text with the changes of both sides; None if they conflict or it is not text."""
        if any(b"\0" in text for text in (ours, base, theirs)):
            return None
        with tempfile.TemporaryDirectory(prefix="git-", dir=self.index.parent) as name:
            folder = Path(name)
            for file, text in (("ours", ours), ("base", base), ("theirs", theirs)):
                (folder / file).write_bytes(text)
            env = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_DIR": str(folder / "none")}
            code, out, _ = await self.git.run("merge-file", "-p", "-q", "ours", "base", "theirs", cwd=folder, env=env)
        return out if code == 0 else None

    async def _diff_tree(self, *words: str) -> bytes:
        with self.repository.control(self.top, self.index, raw=True) as env:
            fixed = ("diff-tree", "-r", "-z", "--no-ext-diff", "--no-textconv")
            return await self.git(*fixed, *words, cwd=self.top, env=env)


def _missing_entries(listed: bytes, known: bytes) -> bytes:
    """The entries of an index (format of `ls-files -s`) that are not `known`, in the format of `update-index`."""
    names = set(_fields(known))
    rows: dict[bytes, bytes] = {}
    for entry in _fields(listed):
        about, _, name = entry.partition(b"\t")
        mode, oid, _ = about.split(b" ")
        if name not in names and int(mode, 8) != REPOSITORY:
            rows[name] = b"%s %s\t%s\0" % (mode, oid, name)
    return b"".join(rows.values())


def _nested_repositories(top: Path, listed: bytes) -> list[bytes]:
    """The repositories among the names that `ls-files` lists. Raises ToolError if the files exceed the limits."""
    total = count = 0
    nested = set()
    start = os.fsencode(top)
    for name in _fields(listed):
        if name.endswith(b"/"):
            nested.add(name)
            continue
        try:
            found = os.lstat(os.path.join(start, name))
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode):
            total, count = total + found.st_size, count + 1
    if total > MOST_BYTES or count > MOST_FILES:
        raise ToolError(
            f"{top} has {total / 1e9:.1f} GB in {count:,} files that git does not ignore: too much for a worktree "
            f"(at most {MOST_BYTES / 1e9:g} GB and {MOST_FILES:,} files).",
            hint="Add files that need not be copied to .gitignore.",
        )
    return sorted(nested)


def _fields(out: bytes) -> list[bytes]:
    return out.split(b"\0")[:-1]


def _changes(listed: bytes) -> list[TreeChange]:
    found, fields = [], iter(_fields(listed))
    for about, name in zip(fields, fields, strict=True):
        old_mode, new_mode, old, new, _ = about.decode().removeprefix(":").split(" ")
        found.append(TreeChange(os.fsdecode(name), int(old_mode, 8), int(new_mode, 8), old, new))
    return found


def _rows(out: bytes) -> tuple[FileChange, ...]:
    """The changed files of `diff-tree --raw --numstat`, at most `LISTED`, and a last row that counts the omitted ones."""
    changed: list[tuple[bytes, bytes, bytes]] = []
    lines: dict[bytes, tuple[bytes, bytes]] = {}
    fields = iter(_fields(out))
    for field in fields:
        if field.startswith(b":"):
            before, name = b"", next(fields)
            if field.rpartition(b" ")[2].startswith(b"R"):
                before, name = name, next(fields)
            changed.append((name, before, field))
            continue
        added, removed, name = field.split(b"\t", 2)
        if not name:  # renamed: both names follow
            name = (next(fields), next(fields))[1]
        lines[name] = (added, removed)
    rows = [_row(*change, *lines.get(change[0], (b"0", b"0"))) for change in changed]
    more = len(rows) - LISTED
    return tuple(rows) if more <= 0 else (*rows[:LISTED], FileChange(f"({more:,} more files)"))


def _row(name: bytes, before: bytes, about: bytes, added: bytes, removed: bytes) -> FileChange:
    old_mode, new_mode = (int(word, 8) for word in about.removeprefix(b":").split(b" ")[:2])
    remarks = []
    if old_mode == ABSENT:
        remarks.append("new")
    elif new_mode == ABSENT:
        remarks.append("deleted")
    elif before:
        remarks.append(f"renamed from {text_of(before)}")
    if LINK in (old_mode, new_mode):
        remarks.append("a link")
    elif old_mode and new_mode and old_mode != new_mode:
        remarks.append("now executable" if new_mode == PROGRAM else "no longer executable")
    if added == b"-":
        remarks.append("binary")
        added = removed = b"0"
    return FileChange(text_of(name), int(added), int(removed), seen=", ".join(remarks))
