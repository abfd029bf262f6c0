"""Stores which projects are trusted: their settings, profiles, commands, skills and instructions, by folder and content."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from friday_cli.core.protocol.errors import FileError, FridayError, ToolError, UsageError
from friday_cli.system import atomic_file, safe_files
from friday_cli.system.named_files import why_left_out
from friday_cli.system.paths import state_dir, text_of
from friday_cli.system.project_search import repository_top

from . import instructions
from .frontmatter import contents, has_name
from .skills.files import IN_PROJECT, project_files

VERSION = 1
MAX_FILES = 500
"""Files of a project that can be trusted."""
MAX_FILE_BYTES = instructions.MAX_BYTES
"""Largest file that can be trusted."""
MAX_STORED_BYTES = 64_000
"""Largest file whose content is stored with the decision, to show a diff later."""

SHARED_FOLDERS = (".claude/agents", ".claude/commands", ".agents/agents", ".agents/commands")
"""Folders of profiles and commands that programs share."""
SERVER_FILES = (".mcp.json", ".lsp.json")
"""Files of a project that name servers which are started."""
HOOK_FILES = (".friday/hooks.json", ".claude/settings.json", ".claude/settings.local.json")
"""Files of a project that can have hooks; only the first is used without the setting `hooks.claude`."""

STALE = "~ (agents changed files that a hook or server of the project may run)"
CASSETTES = ".friday/cassettes"
"""Recorded sessions, which steer nothing."""
PLUGINS = ".agents/plugins"
"""Plugins in the place that all programs share; those in `.friday/plugins` are files of `.friday`."""

TrustState = Literal["trusted", "new", "refused", "changed", "broken"]


class Trust(msgspec.Struct, frozen=True):
    """Whether a project is trusted. Files are paths relative to `root`, with the sha256 of their content."""

    root: Path
    state: TrustState
    reason: str = ""
    """Why it is not trusted."""
    files: dict[str, str] = {}
    """The files that need trust."""
    changed: tuple[str, ...] = ()
    """Differences to the decision, as `+ new`, `~ changed`, `- removed`."""
    before: dict[str, str] = {}
    """The files of the decision."""
    instructions: dict[str, str] = {}
    """The AGENTS.md files."""
    revised: tuple[str, ...] = ()
    """Those that a trusted project has new or changed since the decision: until the next one they are information only."""
    skills: dict[str, str] = {}
    """The files of its skills."""
    skills_revised: tuple[str, ...] = ()
    """Those that are new or changed since the decision: their skills are not used until the next one."""
    stale: bool = False
    """Agents changed files since: what runs programs that nobody checked does not run until the next decision."""

    @property
    def ok(self) -> bool:
        """Whether the settings, profiles and commands of the project are used."""
        return self.state == "trusted"

    def as_trusted(self) -> Trust:
        """As if the person had just decided to trust it."""
        return msgspec.structs.replace(self, state="trusted", revised=(), skills_revised=(), stale=False)

    @property
    def seen(self) -> dict[str, str]:
        """All its files with their sha256."""
        return self.files | self.instructions | self.skills

    @property
    def outdated(self) -> tuple[str, ...]:
        """What a trusted project has new or changed since the decision and is not used until the next one."""
        return (*self.revised, *self.skills_revised, *((STALE,) if self.stale else ()))


class _TrustEntry(msgspec.Struct, frozen=True):
    trusted: bool
    files: dict[str, str]
    at: float
    instructions: dict[str, str] = {}
    skills: dict[str, str] = {}
    agents_changed: bool = False


class _TrustFile(msgspec.Struct):
    version: int = VERSION
    folders: dict[str, _TrustEntry] = {}


def project_root(folder: Path) -> Path:
    """The top of the repository of `folder`, links resolved; `folder` itself without one that counts (see `project_search`). A
    worktree and a submodule (where `.git` is a file) are separate projects: they do not inherit trust."""
    start = folder.resolve()
    return repository_top(start) or start


def store_file(env: Mapping[str, str] | None = None) -> Path:
    """The file with the decisions."""
    return state_dir(env) / "trust.json"


def is_trusted(folder: Path, *, env: Mapping[str, str] | None = None) -> Trust:
    """The decision for the project of `folder`, compared with its current content. Never raises: an error means no trust."""
    root = project_root(folder)
    try:
        files, texts = _fingerprint(root), _instructions(folder, root)
        skills = project_files(folder.resolve(), root, env)
        now = Trust(root, "new", f"{root} is not trusted.", files, instructions=texts, skills=skills)
        entry = _read(store_file(env)).folders.get(text_of(root))
    except FileError as error:
        return Trust(root, "broken", str(error))
    except (OSError, RuntimeError) as error:  # RuntimeError: a link to itself
        return Trust(root, "broken", f"{root} cannot be read: {error}.")
    if entry is None:
        return now
    old = entry.files
    names = sorted({name for name, _ in old.items() ^ files.items()})
    changed = tuple(f"{'+' if name not in old else '-' if name not in files else '~'} {name}" for name in names)
    before = entry.files | entry.instructions | entry.skills
    if changed:
        reason = f"{root} has changed since you decided."
        return msgspec.structs.replace(now, state="changed", reason=reason, changed=changed, before=before)
    if not entry.trusted:
        return msgspec.structs.replace(now, state="refused", reason=f"{root} is not trusted: you declined.")
    revised, skills_revised = (
        tuple(f"{'~' if name in before else '+'} {name}" for name in found if before.get(name) != found[name])
        for found in (texts, skills)
    )
    return msgspec.structs.replace(
        now,
        state="trusted",
        reason="",
        before=before,
        revised=revised,
        skills_revised=skills_revised,
        stale=entry.agents_changed,
    )


def agents_changed_files(root: Path, env: Mapping[str, str] | None = None) -> None:
    """Remember that agents change files of a trusted project: see `Trust.stale`. Raises OSError, FileError. Blocks."""
    path = store_file(env)
    with atomic_file.locked(path):
        book = _read(path)
        entry = book.folders.get(text_of(root))
        if entry is not None and entry.trusted and not entry.agents_changed:
            book.folders[text_of(root)] = msgspec.structs.replace(entry, agents_changed=True)
            _write(path, book)


def _write(path: Path, book: _TrustFile) -> None:
    atomic_file.replace(path, msgspec.json.format(msgspec.json.encode(book), indent=1).decode(), mode=0o600)


def decide(folder: Path, trusted: bool, *, seen: Mapping[str, str] | None = None) -> Trust:
    """Store the decision of a person on the project of `folder` and its current content. `seen`: the `Trust.seen` that
    the person reviewed; raises UsageError if the content is different now. Raises FileError if the content cannot be
    trusted, or if the store is damaged or newer; FridayError if it cannot be written."""
    root = project_root(folder)
    if not root.is_dir():
        raise FridayError(f"{root} is not a folder.")
    path = store_file()
    try:
        files, texts, skills = _fingerprint(root), _instructions(folder, root), project_files(folder.resolve(), root)
    except (OSError, RuntimeError) as error:
        raise FridayError(f"{root} cannot be read: {error}.") from None
    if seen is not None and files | texts | skills != seen:
        raise UsageError(f"{root} changed during the review: it is not trusted.", hint="Run `friday trust` again.")
    try:
        with atomic_file.locked(path):
            book = _read(path)
            known = book.folders.get(text_of(root))  # has also the instructions of other folders of the project
            earlier = known if known and known.trusted else None
            kept = (earlier.instructions if earlier else {}) | texts if trusted else {}
            kept_skills = (earlier.skills if earlier else {}) | skills if trusted else {}
            book.folders[text_of(root)] = _TrustEntry(trusted, files, round(time.time(), 3), kept, kept_skills)
            _write(path, book)
            with suppress(OSError, FileError):  # only needed to show a diff later
                _store_contents(path.parent / "trusted", root, files | texts | _shown_files(skills), book)
    except OSError as error:
        raise FridayError(f"{path} cannot be written: {error.strerror}.") from None
    return Trust(root, "trusted" if trusted else "refused", "", files, instructions=texts, skills=skills)


def _shown_files(skills: Mapping[str, str]) -> dict[str, str]:
    """The files of skills whose content is stored: those that agents read, up to the number that can be trusted otherwise."""
    named = [name for name in skills if name.endswith("/SKILL.md")]
    return {name: skills[name] for name in named[:MAX_FILES]}


def stored_content(sha: str) -> bytes | None:
    """The stored content with this sha256 (see `Trust.before`), None if it was not stored."""
    try:
        data = (store_file().parent / "trusted" / sha).read_bytes() if sha else b""
    except OSError:
        return None
    return data if hash_of(data) == sha else None


def _store_contents(folder: Path, root: Path, files: Mapping[str, str], book: _TrustFile) -> None:
    """Store the content of `files`, and delete contents that no decision refers to."""
    folder.mkdir(exist_ok=True, mode=0o700)
    referenced = {
        sha for entry in book.folders.values() for sha in (entry.files | entry.instructions | entry.skills).values()
    }
    for old in folder.iterdir():
        if old.name not in referenced:
            old.unlink()
    for name, sha in files.items():
        data = content(root / name, root)
        if data is not None and len(data) <= MAX_STORED_BYTES and hash_of(data) == sha:
            atomic_file.replace_bytes(folder / sha, data, mode=0o600)


def decisions() -> list[tuple[str, bool, float]]:
    """Every decision: folder, whether it is trusted, and the time (Unix seconds). Raises FileError."""
    folders = _read(store_file()).folders
    return [(folder, entry.trusted, entry.at) for folder, entry in sorted(folders.items())]


def _read(path: Path) -> _TrustFile:
    """Read the store. Raises FileError if it is damaged, newer, or writable by others."""
    hint = "Remove it and decide again; until then no project is trusted."
    try:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            raw = file.read()
    except FileNotFoundError:
        return _TrustFile()
    except OSError as error:
        raise FileError(str(path), f"cannot be read: {error.strerror}.") from None
    if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        raise FileError(str(path), "is writable by other users.", hint="Check its content, then run chmod 600 on it.")
    try:
        version = msgspec.json.decode(raw, type=_TrustFileVersion).version
        if version > VERSION:
            raise FileError(str(path), f"was written by a newer Friday (version {version}).", hint="Update Friday.")
        return msgspec.json.decode(raw, type=_TrustFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise FileError(str(path), "is damaged.", hint=hint) from None


class _TrustFileVersion(msgspec.Struct):
    version: int


def _fingerprint(root: Path) -> dict[str, str]:
    """The files in `root` that need trust, with their hashes. Raises FileError for files that cannot be trusted."""
    found: dict[str, str] = {}
    folders = (root / ".friday", *(root / name for name in SHARED_FOLDERS))
    for name in SERVER_FILES:
        if (data := content(root / name, root)) is not None:
            found[name] = hash_of(data)
    top = f"{text_of(root).rstrip('/')}/"
    skip = root / IN_PROJECT[0], root / CASSETTES
    for folder in folders:
        plain = folder.resolve() == folder  # else what is below it is judged like a link
        for path in _files_below(folder, root, skip=skip):
            if (data := content(path, root, folder_inside=plain)) is not None:
                found[text_of(path).removeprefix(top)] = hash_of(data)
    for path in sorted((root / "profiles").glob("*.md")):
        try:
            data = content(path, root)
        except FileError:
            continue  # most folders named profiles are unrelated; a file outside this list is not loaded
        if data is not None and has_name(data.decode("utf-8", "replace")):
            found[text_of(path.relative_to(root))] = hash_of(data)
    if ".mcp.json" in found or any(os.path.isfile(root / name) for name in HOOK_FILES):
        from .project_scripts import files_that_run  # most projects have none

        running = files_that_run(root, HOOK_FILES, lambda name: content(root / name, root))
        found |= {name: hash_of(body) for name, body in running.items()}
    found.update(_plugins(root, MAX_FILES - len(found)))
    if len(found) > MAX_FILES:
        raise FileError(str(root), f"has more than {MAX_FILES} files that need trust.")
    return found


def _plugins(root: Path, left: int) -> dict[str, str]:
    """The files of the plugins of a project in the shared place, with their hashes. A plugin with a file that cannot be trusted, or
    with more than `left` files, is not in this list, so it is not used."""
    found: dict[str, str] = {}
    place = root / PLUGINS
    names = sorted(os.listdir(place)) if place.is_dir() and place.resolve().is_relative_to(root) else []
    for name in names:
        try:
            paths = [(path, content(path, root)) for path in _files_below(place / name, root)]
        except FileError:
            continue
        files = {
            f"{PLUGINS}/{path.relative_to(place).as_posix()}": hash_of(data) for path, data in paths if data is not None
        }
        if len(found) + len(files) <= left:
            found |= files
    return found


def _instructions(folder: Path, root: Path) -> dict[str, str]:
    """The instructions of the project for `folder`, with their hashes. One that cannot be read is not used."""
    found: dict[str, str] = {}
    for path in instructions.of_project(folder.resolve(), root):
        with suppress(FileError):
            if (data := content(path, root)) and data.strip():
                found[text_of(path.relative_to(root))] = hash_of(data)
    return found


def hash_of(data: bytes) -> str:
    """The sha256 of a content, as in `Trust.files`."""
    import hashlib  # takes 3 ms; most folders have no such files

    return hashlib.sha256(data).hexdigest()


def _files_below(folder: Path, root: Path, depth: int = 0, *, skip: Collection[Path] = ()) -> Iterator[Path]:
    """The files in `folder` and below it, without those in `skip`."""
    if folder in skip or not folder.is_dir():
        return
    if depth > 8:
        raise FileError(str(folder), "is nested too deeply to be trusted.")
    _inside(folder, root)
    with os.scandir(folder) as listed:
        entries = sorted(listed, key=lambda entry: entry.name)
    for entry in entries:
        if folder / entry.name in skip:
            continue
        if not entry.is_dir():
            yield folder / entry.name
        elif entry.is_symlink():
            raise FileError(entry.path, "is a link to a folder, which cannot be trusted.")
        else:
            yield from _files_below(folder / entry.name, root, depth + 1, skip=skip)


def markdown_files(project: Trust, prefix: str) -> Iterator[tuple[str, Path, bytes | FileError]]:
    """The name below `prefix`, the path and the content of each Markdown file; the error of one that has changed."""
    for name, path, sha in markdown_names(project, prefix):
        yield name, path, trusted_content(path, sha)


def markdown_names(project: Trust, prefix: str) -> Iterator[tuple[str, Path, str]]:
    """The name below `prefix`, the path and the sha256 of each Markdown file."""
    for name, sha in sorted(project.files.items()):
        if name.startswith(prefix) and name.endswith(".md"):
            yield name.removeprefix(prefix), project.root / name, sha


def trusted_content(path: Path, sha: str) -> bytes | FileError:
    """The content of a file, or the error if it is no longer the one with this sha256."""
    raw = contents(path)
    if isinstance(raw, bytes) and hash_of(raw) != sha:
        return FileError(str(path), "has changed since it was trusted.", hint="Run `friday trust`.")
    return raw


def _inside(path: Path, root: Path) -> Path:
    """`path` with links followed. Raises FileError if it is outside `root`, or a link to what may not be in a prompt."""
    real = path.resolve()
    if not real.is_relative_to(root):
        raise FileError(str(path), "is outside the project, so it cannot be trusted.")
    if real != path and (why := why_left_out(real, root)):
        raise FileError(str(path), f"is a link that cannot be trusted: for the file behind it, {why}.")
    return real


def content(path: Path, root: Path, *, folder_inside: bool = False) -> bytes | None:
    """The content of a regular file inside `root`; None if it does not exist. Raises FileError for anything else.
    `folder_inside`: its folder is known to be inside `root`, so that only a link can lead outside."""
    try:
        facts = path.lstat()
        link = stat.S_ISLNK(facts.st_mode)
        facts = path.stat() if link else facts
        if not stat.S_ISREG(facts.st_mode):
            raise FileError(str(path), "is not a regular file, so it cannot be trusted.")
        real = _inside(path, root) if link or not folder_inside else path
        if facts.st_size > MAX_FILE_BYTES:
            raise FileError(str(path), f"is larger than {MAX_FILE_BYTES:,} bytes, so it cannot be trusted.")
        return safe_files.read(root, real, MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError, ToolError) as error:
        raise FileError(str(path), f"cannot be read: {error}.") from None
