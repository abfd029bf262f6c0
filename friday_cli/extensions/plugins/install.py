"""Adds plugins: from a folder, a zip file or a git repository at one commit. A copy with the sha256 of each file is kept."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import FileError, FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.system import atomic_file
from friday_cli.system.own_programs import find_program
from friday_cli.system.paths import config_dir, text_of

from .. import trust
from .installed import PinnedPlugin, folder, read_store
from .places import STORE
from .plugin import CLAUDE_MANIFEST, MANIFEST, PluginFiles

MAX_FILES, MAX_BYTES = 2_000, 50_000_000
"""Files of a plugin, and their bytes together."""
CLONE_S = 300
"""Seconds that git may take."""
MARKETPLACES = (".claude-plugin/marketplace.json", "marketplace.json")
_GIT = re.compile(
    r"(?P<url>(?:https|ssh|file)://[^\s@]+(?:@[^\s@/]+/[^\s@]+)?|git@[\w.-]+:[\w./-]+)@(?P<sha>[0-9a-f]{40}|[0-9a-f]{64})"
)
_IGNORED = frozenset((".git", "__pycache__", ".DS_Store"))


def fetched(source: str, into: Path) -> Path:
    """The folder of what `source` names: a folder itself, or a copy below `into`. Raises UsageError."""
    if found := _GIT.fullmatch(source):
        return _cloned(found["url"], found["sha"], into)
    if re.match(r"\w+://|git@", source):
        raise UsageError(
            f"{source} does not name a commit.",
            hint="Write the whole id of the commit behind it: URL@0123...; then it cannot change.",
        )
    path = Path(os.path.abspath(os.path.expanduser(source)))
    if path.is_file() and zipfile.is_zipfile(path):
        return _unpacked(path, into)
    if not path.is_dir():
        raise UsageError(
            f"{source} is neither a folder nor a zip file.", hint="A git address needs the id of a commit: URL@COMMIT."
        )
    return path


def plugin_folder(top: Path, name: str) -> Path:
    """The folder of the plugin: `top`, or the one that its marketplace calls `name`. Raises UsageError."""
    if not name and any((top / manifest).is_file() for manifest in (MANIFEST, CLAUDE_MANIFEST)):
        return top
    listed: dict[str, str] = {}
    for file in MARKETPLACES:
        try:
            entries = json.loads((top / file).read_text(encoding="utf-8-sig"))["plugins"]
            listed = {str(entry["name"]): entry["source"] for entry in entries if isinstance(entry["source"], str)}
            break
        except (OSError, ValueError, LookupError, TypeError):
            continue
    if name in listed:
        path = Path(os.path.realpath(top / listed[name]))
        if not path.is_relative_to(top.resolve()) or not path.is_dir():
            raise UsageError(f"The plugin {name} is not in this folder: {listed[name]}.")
        return path
    if not listed:
        raise UsageError(f"{top} is not a plugin: it has no {MANIFEST}.")
    names = ", ".join(sorted(listed)[:40])
    raise UsageError(
        f"{top} has several plugins." if not name else f"There is no plugin {name!r}.",
        hint=f"--plugin names one: {names}.",
    )


def hashed(top: Path) -> tuple[PluginFiles, list[str]]:
    """The files of a plugin that are inside of it, with their sha256, and a line for each that is not. Raises FileError."""
    found: dict[str, str] = {}
    problems: list[str] = []
    root, size = top.resolve(), 0
    for parent, folders, names in os.walk(root):
        for name in sorted(folders):
            if name in _IGNORED or os.path.islink(os.path.join(parent, name)):
                folders.remove(name)
                if name not in _IGNORED:
                    problems.append(
                        f"{os.path.relpath(os.path.join(parent, name), root)} is a link to a folder, so it is not used."
                    )
        folders.sort()
        for name in sorted(set(names) - _IGNORED):
            path = Path(parent, name)
            relative = path.relative_to(root).as_posix()
            if not path.resolve().is_relative_to(root) or not path.is_file():
                problems.append(f"{relative} leads out of the plugin, so it is not used.")
                continue
            size += path.stat().st_size
            if len(found) >= MAX_FILES or size > MAX_BYTES:
                raise FileError(text_of(root), f"has more than {MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB.")
            found[relative] = trust.hash_of(path.read_bytes())
    return PluginFiles(root, found), problems


def whole_hash(files: Mapping[str, str]) -> str:
    """One sha256 for all files of a plugin."""
    return trust.hash_of(json.dumps(sorted(files.items())).encode())


def add(name: str, source: str, files: PluginFiles) -> None:
    """Copy a plugin that the person has seen, in place of an earlier one of this name. Raises FridayError, and FileError if a file has
    changed since it was hashed."""
    target = folder() / name
    fresh = target.with_name(f".{name}.new")
    try:
        folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        with atomic_file.locked(config_dir() / STORE):
            shutil.rmtree(fresh, ignore_errors=True)
            for relative in files.files:
                data = files.content(relative) or b""
                (fresh / relative).parent.mkdir(parents=True, exist_ok=True)
                (fresh / relative).write_bytes(data)
                if (files.root / relative).stat().st_mode & stat.S_IXUSR:
                    (fresh / relative).chmod(0o755)
            store = read_store()
            shutil.rmtree(target, ignore_errors=True)
            os.replace(fresh, target)
            store.plugins[name] = PinnedPlugin(source, dict(files.files), whole_hash(files.files))
            _save(store)
    except OSError as error:
        raise FridayError(f"{target} cannot be written: {error.strerror}.") from None


def remove(name: str) -> None:
    """Remove a plugin that the person added; the data of its servers stays. Raises UsageError, FridayError."""
    try:
        with atomic_file.locked(config_dir() / STORE):
            store = read_store()
            if store.plugins.pop(name, None) is None:
                names = ", ".join(sorted(store.plugins)) or "none"
                raise UsageError(f"You have not added a plugin {name!r}.", hint=f"Yours: {names}.")
            _save(store)
            shutil.rmtree(folder() / name, ignore_errors=True)
    except OSError as error:
        raise FridayError(f"{error.filename} cannot be changed: {error.strerror}.") from None


def _save(store: object) -> None:
    text = msgspec.json.format(msgspec.json.encode(store), indent=1).decode()
    atomic_file.replace(config_dir() / STORE, text, mode=0o600)


def _unpacked(path: Path, into: Path) -> Path:
    """A zip file, unpacked; the folder in it if it has only one. Raises UsageError."""
    try:
        with zipfile.ZipFile(path) as archive:
            rows = archive.infolist()
            if len(rows) > 2 * MAX_FILES or sum(row.file_size for row in rows) > MAX_BYTES:
                raise UsageError(f"{path} has more than {MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB.")
            for row in rows:
                if (
                    row.filename.startswith("/")
                    or ".." in row.filename.split("/")
                    or stat.S_ISLNK(row.external_attr >> 16)
                ):
                    raise UsageError(f"{path} has a file that leads out of it: {row.filename}.")
                archive.extract(row, into)
                if row.external_attr >> 16 & stat.S_IXUSR and not row.is_dir():
                    (into / row.filename).chmod(0o755)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError) as error:
        raise UsageError(f"{path} cannot be unpacked: {error}.") from None
    inside = [one for one in into.iterdir() if one.name != "__MACOSX"]
    return (
        inside[0]
        if len(inside) == 1 and inside[0].is_dir() and inside[0].name not in ("skills", ".claude-plugin")
        else into
    )


def _cloned(url: str, sha: str, into: Path) -> Path:
    """A git repository at one commit. Raises UsageError."""
    git = find_program("git", None)
    if git is None:
        raise UsageError("git was not found.", hint="Install git, or add the plugin from a folder or a zip file.")
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_LFS_SKIP_SMUDGE": "1"}
    options = ["-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=true", "-c", "protocol.ext.allow=never"]
    commands = (
        ["init", "-q"],
        ["fetch", "-q", "--depth", "1", "--no-tags", url, sha],
        ["checkout", "-q", "--detach", sha],
    )
    for words in commands:
        try:
            ran = subprocess.run(
                [git, *options, *words],
                cwd=into,
                env=env,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=CLONE_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"git could not fetch {url}: {error}.") from None
        if ran.returncode:
            why = pluralize(ran.returncode, "error") if not ran.stderr.strip() else ran.stderr.strip().splitlines()[-1]
            raise UsageError(f"git could not fetch {url} at {sha[:12]}: {why}.")
    return into
