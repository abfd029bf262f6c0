"""Copies the folder of a batch to another machine, and brings commits back: the files as a tar archive, git's objects as a bundle."""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path, PurePosixPath

import msgspec

from friday_cli.core.protocol.errors import FridayError, ToolError, UsageError
from friday_cli.system import safe_files
from friday_cli.system.git_command import git

MOST = 512 * 1024 * 1024
"""Bytes of a packed folder."""


class FolderPack(msgspec.Struct, frozen=True):
    """A folder: `within` the top folder of its repository. `files` is a tar archive of the top folder; `bundle` has its commits,
    of which `head` is the newest, b"" and "" without git."""

    within: str
    files: bytes
    bundle: bytes = b""
    head: str = ""


def pack(folder: Path) -> FolderPack:
    """Pack a folder as it is now, without what git ignores. Raises UsageError if it is too large."""
    try:
        top = Path(os.fsdecode(git(folder, "rev-parse", "--show-toplevel").rstrip(b"\n")))
        head = git(folder, "rev-parse", "-q", "--verify", "HEAD").decode().strip()
    except (FridayError, OSError):
        names = [os.path.relpath(Path(at, file), folder) for at, _, files in os.walk(folder) for file in files]
        return FolderPack(".", _tar(folder, names))
    listed = git(top, "ls-files", "-coz", "--exclude-standard").split(b"\0")
    names = [os.fsdecode(name) for name in listed if name]
    return FolderPack(str(folder.relative_to(top)), _tar(top, names), _bundle(top, "HEAD"), head)


def _bundle(folder: Path, *what: str) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".bundle") as file:  # git takes "-" for a file below the top folder
        git(folder, "bundle", "create", "-q", file.name, *what)
        return Path(file.name).read_bytes()


def _tar(top: Path, names: list[str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
        for name in dict.fromkeys(names):
            _add(archive, top, name)
            if out.tell() > MOST:
                text = f"{top} is too large for other machines: more than {MOST >> 20} MB."
                raise UsageError(text, hint="Add files that the items do not need to .gitignore.")
    return out.getvalue()


def _add(archive: tarfile.TarFile, top: Path, name: str) -> None:
    """Add a file or a link; what is behind a link, and what is neither, is left out."""
    with suppress(ToolError, FileNotFoundError, NotADirectoryError, IsADirectoryError):
        found = safe_files.entry(top, top / name)
        if found is not None and found.kind == "link":
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, found.target
            archive.addfile(link)
            return
        with safe_files.opened_file(top, top / name) as file:
            archive.addfile(archive.gettarinfo(arcname=name, fileobj=file), file)


def unpack(packed: FolderPack, target: Path) -> Path:
    """Make the folder below `target`, which does not exist. Returns its path. Raises FridayError."""
    target.mkdir(parents=True)
    if packed.bundle:
        bundle = target.with_suffix(".bundle")
        bundle.write_bytes(packed.bundle)
        git(target, "init", "-q", ".")
        git(target, "fetch", "-q", str(bundle), "HEAD")
        git(target, "update-ref", "HEAD", packed.head)
        git(target, "read-tree", packed.head)  # a file that was deleted stays so
        bundle.unlink()
    with tarfile.open(fileobj=io.BytesIO(packed.files)) as archive:
        if hasattr(tarfile, "tar_filter"):
            archive.extractall(target, filter="tar")
        else:  # Python before 3.11.4
            _require_inside(archive)
            archive.extractall(target)
    return target / packed.within


def _require_inside(archive: tarfile.TarFile) -> None:
    """Raise FridayError if a member would be written outside of the folder, by its name or through a link."""
    links = {member.name for member in archive if member.issym() or member.islnk()}
    for member in archive:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or any(str(folder) in links for folder in path.parents):
            raise FridayError(f"The packed folder has a file that would be written outside it: {member.name[:200]!r}.")


def bundle_branch(folder: Path, branch: str, head: str) -> bytes:
    """The commits of a branch after `head`."""
    return _bundle(folder, f"refs/heads/{branch}", f"^{head}")


def fetch_branch(folder: Path, branch: str, bundle: Path) -> None:
    """Add the branch in a bundle to the repository of a folder."""
    git(folder, "fetch", "-q", "--no-tags", str(bundle), f"refs/heads/{branch}:refs/heads/{branch}")
