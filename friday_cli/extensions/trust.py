"""Which folders may give Friday settings, profiles and instructions: decided once per folder and content."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from friday_cli import atomic_file
from friday_cli.core.protocol.errors import FileError, FridayError, UsageError
from friday_cli.paths import state_dir, text_of

from .frontmatter import named

VERSION = 1
MOST_FILES = 500
LARGEST = 1_000_000
"""Bytes of one file that can be trusted; a larger one is no settings file."""
KEPT = 64_000
"""Bytes of a file up to which its content is kept beside the decision, to show later what changed."""

State = Literal["trusted", "new", "refused", "changed", "broken"]


class Trust(msgspec.Struct, frozen=True):
    """Whether the project at `root` is trusted, and why not.

    `files` maps what a project can steer Friday with (path below `root`) to its sha256. `changed` lists what differs
    from what was trusted: `+ new`, `~ changed`, `- gone`; `before` maps what was decided on to its sha256.
    """

    root: Path
    state: State
    reason: str = ""
    files: dict[str, str] = {}
    changed: tuple[str, ...] = ()
    before: dict[str, str] = {}

    @property
    def ok(self) -> bool:
        """Whether the project's settings, profiles and instructions hold."""
        return self.state == "trusted"


class _TrustEntry(msgspec.Struct, frozen=True):
    trusted: bool
    files: dict[str, str]
    at: float


class _TrustFile(msgspec.Struct):
    version: int = VERSION
    folders: dict[str, _TrustEntry] = {}


def project_root(folder: Path) -> Path:
    """The nearest folder above (or at) `folder` that holds `.git`, links resolved; `folder` itself when none does.

    A work tree and a submodule (`.git` is a file there) are projects of their own: trust in the repository they
    belong to is not theirs.
    """
    here = folder.resolve()
    for candidate in (here, *here.parents):
        if os.path.lexists(candidate / ".git"):
            return candidate
    return here


def store_file(env: Mapping[str, str] | None = None) -> Path:
    """Where decisions are kept."""
    return state_dir(env) / "trust.json"


def is_trusted(folder: Path, *, env: Mapping[str, str] | None = None) -> Trust:
    """What was decided for the project of `folder`, held against what it contains now. Never raises: doubt is no trust."""
    root = project_root(folder)
    try:
        files = _fingerprint(root)
        entry = _read(store_file(env)).folders.get(text_of(root))
    except FileError as error:
        return Trust(root, "broken", str(error))
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself
        return Trust(root, "broken", f"{root} cannot be read: {error}.")
    if entry is None:
        return Trust(root, "new", f"{root} is not trusted.", files)
    changed = tuple(_differences(entry.files, files))
    if changed:
        return Trust(root, "changed", f"{root} has changed since it was decided on.", files, changed, entry.files)
    if not entry.trusted:
        return Trust(root, "refused", f"{root} is not trusted, as you said.", files)
    return Trust(root, "trusted", "", files)


def decide(
    folder: Path, trusted: bool, *, seen: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None
) -> Trust:
    """Remember a person's decision on the project of `folder` with its content of this moment, which must be the one
    that the person has `seen` (a `Trust.files`).

    Raises FileError when the content cannot be trusted or the store is damaged or newer (it is left as it is),
    UsageError when the content is not what was seen (nothing is trusted then), FridayError when it cannot be written.
    """
    root = project_root(folder)
    if not root.is_dir():
        raise FridayError(f"{root} is not a folder.")
    path = store_file(env)
    try:
        files = _fingerprint(root)
    except (OSError, RuntimeError) as error:
        raise FridayError(f"{root} cannot be read: {error}.") from None
    if seen is not None and files != seen:
        raise UsageError(f"{root} changed while you looked at it: it is not trusted.", hint="Look again.")
    try:
        with atomic_file.locked(path):
            book = _read(path)
            book.folders[text_of(root)] = _TrustEntry(trusted, files, round(time.time(), 3))
            atomic_file.replace(path, msgspec.json.format(msgspec.json.encode(book), indent=1).decode(), mode=0o600)
            with suppress(OSError, FileError):  # without it a later question says less, and decides the same
                _keep(path.parent / "trusted", root, files, book)
    except OSError as error:
        raise FridayError(f"{path} cannot be written: {error.strerror}.") from None
    return Trust(root, "trusted" if trusted else "refused", "", files)


def kept(sha: str, *, env: Mapping[str, str] | None = None) -> bytes | None:
    """The content that `Trust.before` names by its sha256, None where it was not kept."""
    try:
        data = (store_file(env).parent / "trusted" / sha).read_bytes() if sha else b""
    except OSError:
        return None
    return data if hash_of(data) == sha else None


def _keep(place: Path, root: Path, files: Mapping[str, str], book: _TrustFile) -> None:
    """Keep what `files` hold now, and of older contents only those that a decision still names."""
    place.mkdir(exist_ok=True, mode=0o700)
    named = {sha for entry in book.folders.values() for sha in entry.files.values()}
    for old in place.iterdir():
        if old.name not in named:
            old.unlink()
    for name, sha in files.items():
        data = content(root / name, root)
        if data is not None and len(data) <= KEPT and hash_of(data) == sha:
            atomic_file.replace_bytes(place / sha, data, mode=0o600)


def decisions(*, env: Mapping[str, str] | None = None) -> list[tuple[str, bool, float]]:
    """Every project that was decided on: its folder, whether it was trusted, and when (Unix seconds). Raises FileError."""
    folders = _read(store_file(env)).folders
    return [(folder, entry.trusted, entry.at) for folder, entry in sorted(folders.items())]


def _read(path: Path) -> _TrustFile:
    """The store. Raises FileError when it is damaged, newer, or not only ours to write."""
    hint = "Remove it to decide anew; until then no project is trusted."
    try:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            raw = file.read()
    except FileNotFoundError:
        return _TrustFile()
    except OSError as error:
        raise FileError(str(path), f"cannot be read: {error.strerror}.") from None
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        raise FileError(
            str(path), "can be written by others.", hint="Run chmod 600 on it after a look at what it says."
        )
    try:
        version = msgspec.json.decode(raw, type=_TrustFileVersion).version
        if version > VERSION:
            raise FileError(str(path), f"was written by a newer Friday (version {version}).", hint="Update this one.")
        return msgspec.json.decode(raw, type=_TrustFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise FileError(str(path), "is damaged.", hint=hint) from None


class _TrustFileVersion(msgspec.Struct):
    version: int


def _differences(old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield f"+ {name}"
        elif name not in new:
            yield f"- {name}"
        elif old[name] != new[name]:
            yield f"~ {name}"


def _fingerprint(root: Path) -> dict[str, str]:
    """What in `root` can execute or grant, with its hashes. Raises FileError for what cannot be pinned down."""
    found: dict[str, str] = {}
    for path in (
        root / ".mcp.json",
        *_files_below(root / ".friday", root),
        *_files_below(root / ".claude/agents", root),
        *_files_below(root / ".claude/commands", root),
    ):
        if (data := content(path, root)) is not None:
            found[text_of(path.relative_to(root))] = hash_of(data)
    for path in sorted((root / "profiles").glob("*.md")):
        try:
            data = content(path, root)
        except FileError:
            continue  # most folders of that name are none of ours; what is not in the list is not loaded
        if data is not None and named(data.decode("utf-8", "replace")):
            found[text_of(path.relative_to(root))] = hash_of(data)
    if len(found) > MOST_FILES:
        raise FileError(str(root), f"has more than {MOST_FILES} files that would need trust.")
    return found


def hash_of(data: bytes) -> str:
    """How `Trust.files` names a content."""
    import hashlib  # 3 ms, and most folders have nothing to pin

    return hashlib.sha256(data).hexdigest()


def _files_below(folder: Path, root: Path, depth: int = 0) -> Iterator[Path]:
    if not folder.is_dir():
        return
    if depth > 8:
        raise FileError(str(folder), "lies too deep to be trusted.")
    _inside(folder, root)
    for entry in sorted(folder.iterdir()):
        if not entry.is_dir():
            yield entry
        elif entry.is_symlink():
            raise FileError(str(entry), "is a link to a folder, which cannot be trusted.")
        else:
            yield from _files_below(entry, root, depth + 1)


def _inside(path: Path, root: Path) -> None:
    if not path.resolve().is_relative_to(root):
        raise FileError(str(path), "leads out of the project, so it cannot be trusted.")


def content(path: Path, root: Path) -> bytes | None:
    """The bytes of a regular file inside `root`; None when there is none. Raises FileError for any other."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise FileError(str(path), "is not a regular file, so it cannot be trusted.")
        _inside(path, root)
        if facts.st_size > LARGEST:
            raise FileError(str(path), f"is larger than {LARGEST:,} bytes, so it cannot be trusted.")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError) as error:
        raise FileError(str(path), f"cannot be read: {error}.") from None
