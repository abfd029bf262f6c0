"""What one command may access, as Friday sends it to the supervisor, which imports this: standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from . import SandboxKind

_ONLY_NAME: int = getattr(os, "O_PATH", 0)
"""Opens what a path leads to without reading or executing it (Linux)."""
_LISTS = ("write", "deny", "show", "freeze", "read_only", "sockets", "elsewhere")


class SandboxPlan(NamedTuple):
    """The paths that a sandbox opens and closes, all absolute. The deeper of two entries applies."""

    kind: SandboxKind
    program: str
    """The program of the sandbox; "" for Landlock."""
    tmp: str
    """The private temp folder."""
    cwd: str
    network: bool
    write: tuple[str, ...] = ()
    """Can be written, if no link is in them: a command may have made it."""
    deny: tuple[str, ...] = ()
    """Cannot even be read."""
    show: tuple[str, ...] = ()
    """Can be read inside a denied folder."""
    freeze: tuple[str, ...] = ()
    """Read-only inside a writable folder; a path of it that does not exist cannot be created."""
    read_only: tuple[str, ...] = ()
    """The folders of a read-only command, () for another command: they can be read, even inside a denied folder, and no
    file in them can be executed (bubblewrap cannot prevent that)."""
    sockets: tuple[str, ...] = ()
    """Local sockets that may be connected to, or folders with some."""
    elsewhere: tuple[str, ...] = ()
    """Folders that can be read at another place, which exists: of each its path and the place, with links followed (bubblewrap only)."""
    only_port: int = 0
    """With the network on: the only port of this machine that may be connected to, besides those on which the command itself
    listens; 0 for every address."""
    record: bool = False
    """Whether the programs that it executes are reported."""

    def writing_only(self, paths: Sequence[str]) -> SandboxPlan:
        """The same plan, which may write nothing but `paths` (links resolved) and its temp folder."""
        kept = (path for path in self.freeze if any(path == top or path.startswith(f"{top}/") for top in paths))
        return self._replace(write=tuple(paths), freeze=tuple(kept))

    def fields(self) -> list[bytes]:
        """The plan as NUL-free fields of a request; the first is the number of fields."""
        texts = [self.kind, self.program, self.tmp, self.cwd, "1" if self.network else ""]
        texts += [str(self.only_port), "1" if self.record else ""]
        for name in _LISTS:
            items: Sequence[str] = getattr(self, name)
            texts += [str(len(items)), *items]
        return [str(len(texts)).encode(), *map(os.fsencode, texts)]

    @staticmethod
    def read(fields: Iterator[bytes]) -> SandboxPlan | None:
        """The plan whose fields come next; None if the command is not confined."""
        if int(next(fields)) == 0:
            return None
        kind, program, tmp, cwd, network, port, record = (os.fsdecode(next(fields)) for _ in range(7))
        lists = {name: tuple(os.fsdecode(next(fields)) for _ in range(int(next(fields)))) for name in _LISTS}
        more = {"only_port": int(port), "record": bool(record)}
        return SandboxPlan(kind, program, tmp, cwd, bool(network), **lists, **more)  # type: ignore[arg-type]

    def resolved(self) -> SandboxPlan:
        """The same plan with links followed, without paths that do not exist and cannot be created."""
        freeze = tuple(dict.fromkeys(_resolved_parent(path) for path in self.freeze))
        return self._replace(
            write=tuple(path for path in dict.fromkeys(self.write) if _real(path) == path and os.path.isdir(path)),
            deny=_existing(self.deny),
            show=_existing(self.show),
            freeze=tuple(path for path in freeze if path),
            read_only=_existing(self.read_only),
            sockets=_existing(self.sockets),
        )


def _existing(paths: Sequence[str]) -> tuple[str, ...]:
    """The paths that exist, with links followed."""
    return tuple(dict.fromkeys(real for path in paths if (real := _real(path))))


def _real(path: str) -> str:
    """`path` with links followed, "" if it does not exist. A command has a hundred paths, so the kernel follows the links where it can."""
    if _ONLY_NAME:
        try:
            fd = os.open(path, _ONLY_NAME | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError:
            fd = -1
        try:
            if fd >= 0 and (real := os.readlink(f"/proc/self/fd/{fd}")).startswith("/"):
                return real if os.path.lexists(real) else ""
        except OSError:
            pass  # no /proc
        finally:
            if fd >= 0:
                os.close(fd)
    real = os.path.realpath(path) if os.path.lexists(path) else ""  # else a path in a loop may have one
    return real if os.path.lexists(real) else ""


def _resolved_parent(path: str) -> str:
    """`path` with links followed; if it does not exist, with the links of its parent followed, "" without a parent."""
    if real := _real(path):
        return real
    above = os.path.realpath(os.path.dirname(path))
    return os.path.join(above, os.path.basename(path)) if os.path.isdir(above) else ""
