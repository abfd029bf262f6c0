"""Restricts paths to a few folders: a path is allowed if, with every link followed, it is below one of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.core.tool_catalog import GLOB, LIST_DIR

HINTS = {
    errno.ENOENT: f"Use {LIST_DIR} or {GLOB} to see which files exist.",
    errno.EISDIR: f"Use {LIST_DIR} for a folder.",
    errno.ENOTDIR: "One of the names in the path is a file, or was just replaced by a link.",
    errno.ENOSPC: "Nothing was changed; free some space first.",
    errno.EDQUOT: "Nothing was changed; free some space first.",
}
"""What to do next when a file cannot be read or written, by error number."""


class Roots:
    """The folders of a workspace, its root first. `readable` returns folders that may only be read. Raises UsageError for a folder
    that does not exist."""

    def __init__(self, root: Path, extra: Sequence[Path], readable: Callable[[], Sequence[Path]]) -> None:
        self.root = _folder(root)
        self.all: tuple[Path, ...] = tuple(dict.fromkeys((self.root, *(_folder(path) for path in extra))))
        self._readable = readable

    def resolve(self, path: str, *, write: bool = False) -> Path:
        """As `Workspace.resolve`."""
        asked = self._absolute(path)
        try:
            real = _real(asked)
        except (OSError, ValueError) as error:
            raise ToolError(f"{path!r} cannot be resolved: {reason(error)}.") from None
        if write and path.endswith(("/", "/.", "/..")) and not real.is_dir():
            raise ToolError(f"{path!r} names a folder that does not exist.", hint="Name the file.")
        if self.root_of(real, write=write) is None:
            target = "" if str(real) == os.path.normpath(asked) else f" (it resolves to {str(real)!r})"
            raise ToolError(
                f"{path!r} lies outside the workspace{target}.",
                hint=f"Use a path below {', '.join(str(root) for root in self.all)}.",
            )
        return real

    def labels(self, path: str, found: Path | None = None) -> tuple[str, ...]:
        """As `Workspace.labels`."""
        real = self.label(found or self.resolve(path))
        asked = self.label(Path(os.path.normpath(self._absolute(path))))
        return tuple(dict.fromkeys((real, asked)))

    def label(self, real: Path) -> str:
        """A resolved path as people and rules see it: relative to the root, or absolute outside of it."""
        if not _is_below(real, self.root):
            return real.as_posix()
        return str(real)[len(str(self.root)) :].strip(os.sep).replace(os.sep, "/") or "."

    def root_of(self, real: Path, *, write: bool = False) -> Path | None:
        """The innermost root that contains `real`; None if there is none."""
        roots = self.all if write else (*self.all, *self._readable())
        fitting = (root for root in roots if _is_below(real, root))
        return max(fitting, key=lambda root: len(str(root)), default=None)

    def _absolute(self, path: str) -> str:
        if not path:
            raise ToolError("The path is empty.", hint="'.' is the workspace itself.")
        if "\0" in path:
            raise ToolError(f"{path!r} contains a NUL character.")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise ToolError(f"{path!r} contains characters that are not valid in a file name.") from None
        if path.startswith("~") and not os.path.lexists(self.root / path.partition("/")[0]):
            raise ToolError(f"{path!r}: '~' is not expanded.", hint="Use a path relative to the workspace.")
        return os.path.join(self.root, path)


def _is_below(path: Path, root: Path) -> bool:
    """As `path.is_relative_to(root)`, which takes ten times as long."""
    text, top = str(path), str(root)
    return text == top or text.startswith(top if top.endswith(os.sep) else top + os.sep)


def _real(path: str) -> Path:
    """`path` with every link followed; its last parts may be missing. Raises OSError for a loop of links."""
    try:
        return Path(os.path.realpath(path, strict=True))
    except (FileNotFoundError, NotADirectoryError):
        return Path(os.path.realpath(path))


def _folder(path: Path) -> Path:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{path}: {reason(error)}.", hint="Name a folder that exists.") from None
    if not real.is_dir():
        raise UsageError(f"{path} is not a folder.", hint="Name the folder that contains it.")
    return real


def reason(error: Exception) -> str:
    """The text of an OSError, without its number and path."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
