"""Which paths may be touched: those that, with every link followed, lie below one of a few folders."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.tool_catalog import GLOB, LIST_DIR

HINTS = {
    errno.ENOENT: f"Look with {LIST_DIR} or {GLOB} for what is there.",
    errno.EISDIR: f"Use {LIST_DIR} for a folder.",
    errno.ENOTDIR: "One of the names in the path is a file, or was just made a link.",
    errno.ENOSPC: "Nothing was changed; free some space first.",
    errno.EDQUOT: "Nothing was changed; free some space first.",
}
"""What to do next where a file cannot be had, by the error number."""


class Roots:
    """The folders of a workspace, the first of them its root. `readable` gives a folder that may be read only, or None."""

    def __init__(self, root: Path, extra: Sequence[Path], readable: Callable[[], Path | None]) -> None:
        self.root = _folder(root)
        self.all: tuple[Path, ...] = tuple(dict.fromkeys((self.root, *(_folder(path) for path in extra))))
        self._readable = readable

    def resolve(self, path: str, *, write: bool = False) -> Path:
        """As `Workspace.resolve`."""
        asked = self._asked(path)
        try:
            real = _real(asked)
        except (OSError, ValueError) as error:
            raise ToolError(f"{path!r} leads nowhere: {reason(error)}.") from None
        if write and path.endswith(("/", "/.", "/..")) and not real.is_dir():
            raise ToolError(f"{path!r} names a folder, and there is none.", hint="Name the file.")
        if self.above(real, write=write) is None:
            leads = "" if str(real) == os.path.normpath(asked) else f" (it leads to {str(real)!r})"
            raise ToolError(
                f"{path!r} lies outside the workspace{leads}.",
                hint=f"Stay below {', '.join(str(root) for root in self.all)}.",
            )
        return real

    def labels(self, path: str) -> tuple[str, ...]:
        """As `Workspace.labels`."""
        real = self.shown(self.resolve(path))
        asked = self.shown(Path(os.path.normpath(self._asked(path))))
        return tuple(dict.fromkeys((real, asked)))

    def shown(self, real: Path) -> str:
        """A resolved path as people and rules see it."""
        return real.relative_to(self.root).as_posix() if real.is_relative_to(self.root) else real.as_posix()

    def above(self, real: Path, *, write: bool = False) -> Path | None:
        """The root `real` lies below; of several the innermost."""
        readable = None if write else self._readable()
        roots = self.all if readable is None else (*self.all, readable)
        fitting = (root for root in roots if real.is_relative_to(root))
        return max(fitting, key=lambda root: len(root.parts), default=None)

    def _asked(self, path: str) -> str:
        if not path:
            raise ToolError("The path is empty.", hint="'.' is the workspace itself.")
        if "\0" in path:
            raise ToolError(f"{path!r} holds a NUL character.")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise ToolError(f"{path!r} holds characters that no file name has.") from None
        if path.startswith("~") and not os.path.lexists(self.root / path.partition("/")[0]):
            raise ToolError(f"{path!r}: '~' is not expanded.", hint="Give a path relative to the workspace.")
        return os.path.join(self.root, path)


def _real(path: str) -> Path:
    """`path` with every link followed; what is missing at its end may be missing. Raises OSError for loops."""
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
        raise UsageError(f"{path} is no folder.", hint="Name the folder it lies in.")
    return real


def reason(error: Exception) -> str:
    """What an OSError says, without number and path."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
