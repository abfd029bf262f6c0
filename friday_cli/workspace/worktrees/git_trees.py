"""Working trees as git trees, and what lies between two of them."""

from __future__ import annotations

import asyncio
import contextlib
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

from .git import Git, Repository

MOST_BYTES, MOST_FILES = 4_000_000_000, 500_000
"""How much a working tree may hold that is to be copied or compared."""
MOST_READ = 256_000_000
"""Bytes of changed files that may be brought from one tree into another."""
LISTED = 1_000
"""Changed files that are named."""
NOTHING, LINK, FILE, PROGRAM, REPOSITORY = 0, 0o120000, 0o100644, 0o100755, 0o160000


class TreeChange(msgspec.Struct, frozen=True):
    """One path that differs between two trees: its modes as git knows them and the ids of its contents."""

    path: str
    old_mode: int
    new_mode: int
    old: str
    new: str


class GitTrees:
    """One working tree as git sees it: `top` is its folder, `index` a file of Friday's own that makes the next look
    quick; it is made where it is missing. `hidden` are folders that are not looked into. All calls may raise ToolError.
    """

    def __init__(
        self, git: Git, repository: Repository, top: Path, index: Path, *, hidden: Sequence[Path] = ()
    ) -> None:
        self.git, self.repository, self.top, self.index, self.hidden = git, repository, top, index, hidden

    # ---- what stands there --------------------------------------------------------

    async def snapshot(self, tracked: Path) -> str:
        """The id of a git tree that holds the working tree as it is, byte for byte, without what git ignores.

        What stands in `tracked`, the index of the working tree itself, counts even where it is ignored. Repositories
        inside are left out.
        """
        lock = self.index.with_name(self.index.name + ".lock")
        lock.unlink(missing_ok=True)  # of a call that was cut off: nobody else uses our index
        with self.repository.control(self.top, self.index, raw=True, hidden=self.hidden) as env:
            await self._follow(env, tracked)
            return await self._written(env)

    async def committed(self, tracked: Path) -> str:
        """As `snapshot`, but as git itself would commit it: line ends and encodings as the repository's attributes
        say. Starts from the index `tracked`."""
        if await asyncio.to_thread(tracked.is_file):
            await asyncio.to_thread(shutil.copy2, tracked, self.index)  # its time tells git what it must read again
        with self.repository.control(self.top, self.index, raw=False, hidden=self.hidden) as env:
            return await self._written(env)

    async def lay_out(self, folder: Path, index: Path) -> None:
        """Write what was last looked at into `folder`, byte for byte; `index` is then that of the copy."""
        await asyncio.to_thread(shutil.copyfile, self.index, index)
        with self.repository.control(folder, index, raw=True) as env:
            await self.git("checkout-index", "-a", "-u", "-q", cwd=folder, env=env)

    async def grafted(self, tree: str, changes: Sequence[TreeChange]) -> str:
        """The id of `tree` with `changes` made in it, whatever stood there before."""
        gone = "0" * len(tree)
        rows = [
            os.fsencode(f"{c.new_mode:o} {c.new if c.new_mode else gone}\t{c.path}\0")
            for c in sorted(changes, key=lambda c: c.new_mode != NOTHING)  # a folder goes before a file takes its name
        ]
        with (
            tempfile.TemporaryDirectory(prefix="git-", dir=self.index.parent) as name,
            self.repository.control(self.top, Path(name) / "index", raw=True) as env,
        ):
            await self.git("read-tree", tree, cwd=self.top, env=env)
            words = ("update-index", "-z", "--replace", "--index-info")
            await self.git(*words, cwd=self.top, env=env, data=b"".join(rows))
            return (await self.git("write-tree", "--missing-ok", cwd=self.top, env=env)).decode().strip()

    async def _follow(self, env: dict[str, str], tracked: Path) -> None:
        """Put the paths that git follows in the working tree into our index, too."""
        if not await asyncio.to_thread(tracked.is_file):
            return
        listed = await self.git("ls-files", "-z", "-s", cwd=self.top, env={**env, "GIT_INDEX_FILE": str(tracked)})
        known = await self.git("ls-files", "-z", cwd=self.top, env=env)
        if rows := await asyncio.to_thread(_unknown, listed, known):
            words = ("update-index", "-z", "--index-info")
            await self.git(*words, cwd=self.top, env=env, data=rows)

    async def _written(self, env: dict[str, str]) -> str:
        listed = await self.git("ls-files", "-z", "-c", "-o", "--exclude-standard", cwd=self.top, env=env)
        if inside := await asyncio.to_thread(_weighed, self.top, listed):
            specs = [b":(top)", *(b":(top,exclude,literal)" + name for name in inside)]
            words = ("add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul")
            await self.git(*words, cwd=self.top, env=env, data=b"\0".join(specs))
        else:
            await self.git("add", "-A", cwd=self.top, env=env)
        return (await self.git("write-tree", "--missing-ok", cwd=self.top, env=env)).decode().strip()

    # ---- what lies between two ------------------------------------------------------

    async def between(self, old: str, new: str) -> list[TreeChange]:
        """The paths that differ, in git's order."""
        return await asyncio.to_thread(_changes, await self._compared("--raw", "--no-renames", old, new))

    async def summary(self, old: str, new: str) -> tuple[FileChange, ...]:
        """What changed, for people: renames found, lines counted. `seen` says what is more than a change of content."""
        counted = await self._compared("--numstat", "-M", old, new)
        return await asyncio.to_thread(_rows, await self._compared("--raw", "-M", old, new), counted)

    async def patch(self, old: str, new: str, *, path: str = "", limit: int) -> str:
        """The difference as text, of one path or of all; cut after `limit` characters."""
        with self._comparing() as env:
            words = ("diff-tree", "-r", "-p", "-M", "--no-color", "--no-ext-diff", "--no-textconv", old, new)
            more = ("--", path) if path else ()
            literal = {**env, "GIT_LITERAL_PATHSPECS": "1"}
            out = await self.git(*words, *more, cwd=self.top, env=literal, cut=4 * limit + 1)
        text = sanitize(out.decode("utf-8", "replace"))
        return text if len(text) <= limit else f"{text[:limit].rpartition(chr(10))[0]}\n[... this diff goes on]\n"

    async def contents(self, oids: Iterable[str]) -> dict[str, bytes]:
        """What git keeps under each id."""
        wanted = "".join(f"{oid}\n" for oid in dict.fromkeys(oids)).encode()
        with self._comparing() as env:
            sizes = await self.git("cat-file", "--batch-check=%(objectsize)", cwd=self.top, env=env, data=wanted)
            total = sum(int(size) for size in sizes.split() if size.isdigit())
            if total > MOST_READ:
                raise ToolError(f"The changed files hold {total / 1e6:,.0f} MB, more than can be brought over.")
            out = await self.git("cat-file", "--batch", cwd=self.top, env=env, data=wanted)
        found: dict[str, bytes] = {}
        at = 0
        while at < len(out):
            end = out.index(b"\n", at)
            oid, _, size = out[at:end].decode().partition(" blob ")
            if not size:
                raise ToolError(f"git has lost the content {oid.split()[0]}.")
            at = end + 1 + int(size)
            found[oid] = out[end + 1 : at]
            at += 1
        return found

    async def merged(self, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
        """Both sides' changes of a text in one, None where they meet or it is no text."""
        if any(b"\0" in text for text in (ours, base, theirs)):
            return None
        with tempfile.TemporaryDirectory(prefix="git-", dir=self.index.parent) as name:
            folder = Path(name)
            for file, text in (("ours", ours), ("base", base), ("theirs", theirs)):
                (folder / file).write_bytes(text)
            env = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_DIR": str(folder / "none")}
            code, out, _ = await self.git.ask("merge-file", "-p", "-q", "ours", "base", "theirs", cwd=folder, env=env)
        return out if code == 0 else None

    async def _compared(self, *words: str) -> bytes:
        with self._comparing() as env:
            fixed = ("diff-tree", "-r", "-z", "--no-ext-diff", "--no-textconv")
            return await self.git(*fixed, *words, cwd=self.top, env=env)

    def _comparing(self) -> contextlib.AbstractContextManager[dict[str, str]]:
        return self.repository.control(self.top, self.index, raw=True)


def _unknown(listed: bytes, known: bytes) -> bytes:
    """The entries of an index (as `ls-files -s` lists them) that are not `known`, as `update-index` takes them."""
    names = set(_fields(known))
    rows: dict[bytes, bytes] = {}
    for entry in _fields(listed):
        about, _, name = entry.partition(b"\t")
        mode, oid, _ = about.split(b" ")
        if name not in names and int(mode, 8) != REPOSITORY:
            rows[name] = b"%s %s\t%s\0" % (mode, oid, name)
    return b"".join(rows.values())


def _weighed(top: Path, listed: bytes) -> list[bytes]:
    """The repositories among the names that `ls-files` lists. Raises ToolError where the files are too much."""
    total = count = 0
    inside = set()
    start = os.fsencode(top)
    for name in _fields(listed):
        if name.endswith(b"/"):
            inside.add(name)
            continue
        try:
            found = os.lstat(os.path.join(start, name))
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode):
            total, count = total + found.st_size, count + 1
    if total > MOST_BYTES or count > MOST_FILES:
        raise ToolError(
            f"{top} holds {total / 1e9:.1f} GB in {count:,} files that git does not ignore: too much for a worktree "
            f"(at most {MOST_BYTES / 1e9:g} GB and {MOST_FILES:,} files).",
            hint="Add what need not be copied to .gitignore.",
        )
    return sorted(inside)


def _fields(out: bytes) -> list[bytes]:
    return out.split(b"\0")[:-1]


def _changes(listed: bytes) -> list[TreeChange]:
    fields = iter(_fields(listed))
    return [_change(about, next(fields)) for about in fields]


def _rows(listed: bytes, counted: bytes) -> tuple[FileChange, ...]:
    """The changed files, at most `LISTED` of them, and a last row for those that are left out."""
    fields = iter(_fields(counted))
    lines: dict[bytes, tuple[bytes, bytes]] = {}
    for field in fields:
        added, removed, name = field.split(b"\t", 2)
        if not name:  # renamed: both names follow
            name = (next(fields), next(fields))[1]
        lines[name] = (added, removed)
    rows = []
    fields = iter(_fields(listed))
    for about in fields:
        before, name = b"", next(fields)
        if about.rpartition(b" ")[2].startswith(b"R"):
            before, name = name, next(fields)
        rows.append(_row(name, before, about, *lines.get(name, (b"0", b"0"))))
    more = len(rows) - LISTED
    return tuple(rows) if more <= 0 else (*rows[:LISTED], FileChange(f"({more:,} more files)"))


def _change(about: bytes, name: bytes) -> TreeChange:
    old_mode, new_mode, old, new, _ = about.decode().removeprefix(":").split(" ")
    return TreeChange(os.fsdecode(name), int(old_mode, 8), int(new_mode, 8), old, new)


def _row(name: bytes, before: bytes, about: bytes, added: bytes, removed: bytes) -> FileChange:
    old_mode, new_mode = (int(word, 8) for word in about.removeprefix(b":").split(b" ")[:2])
    remarks = []
    if old_mode == NOTHING:
        remarks.append("new")
    elif new_mode == NOTHING:
        remarks.append("deleted")
    elif before:
        remarks.append(f"renamed from {shown(before)}")
    if LINK in (old_mode, new_mode):
        remarks.append("a link")
    elif old_mode and new_mode and old_mode != new_mode:
        remarks.append("now a program" if new_mode == PROGRAM else "no program any more")
    if added == b"-":
        remarks.append("binary")
        added = removed = b"0"
    return FileChange(shown(name), int(added), int(removed), seen=", ".join(remarks))


def shown(name: bytes | str) -> str:
    """A path of git's for people: what is no text is spelled out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
