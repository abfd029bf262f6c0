"""What one command may do, as Friday hands it to the launcher. The launcher imports this: standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

Kind = Literal["bubblewrap", "landlock", "seatbelt", "none"]
_LISTS = ("write", "deny", "show", "freeze")


class SandboxPlan(NamedTuple):
    """All paths are absolute. `program` is what confines (empty for Landlock); `tmp` is the private temp folder.

    `write` may be written, `deny` not even read, `show` is read although it lies in a denied folder, `freeze` stays as
    it is although it lies in a writable one: it can be read, and what is not there cannot be made.
    Of two entries the one that lies deeper holds.
    """

    kind: Kind
    program: str
    tmp: str
    cwd: str
    network: bool
    write: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    show: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()

    def fields(self) -> list[bytes]:
        """As NUL-free fields of a request: the number of fields comes first."""
        texts = [self.kind, self.program, self.tmp, self.cwd, "1" if self.network else ""]
        for name in _LISTS:
            items: Sequence[str] = getattr(self, name)
            texts += [str(len(items)), *items]
        return [str(len(texts)).encode(), *map(os.fsencode, texts)]

    @staticmethod
    def read(fields: Iterator[bytes]) -> SandboxPlan | None:
        """The plan whose fields come next; None where the command is not confined."""
        if int(next(fields)) == 0:
            return None
        kind, program, tmp, cwd, network = (os.fsdecode(next(fields)) for _ in range(5))
        lists = {name: tuple(os.fsdecode(next(fields)) for _ in range(int(next(fields)))) for name in _LISTS}
        return SandboxPlan(kind, program, tmp, cwd, bool(network), **lists)  # type: ignore[arg-type]

    def resolved(self) -> SandboxPlan:
        """The same with links followed, and what is not there left out where it cannot be named anyway."""
        write = tuple(dict.fromkeys(real for path in self.write if os.path.isdir(real := os.path.realpath(path))))
        deny = tuple(dict.fromkeys(real for path in self.deny if os.path.lexists(real := os.path.realpath(path))))
        show = tuple(dict.fromkeys(real for path in self.show if os.path.lexists(real := os.path.realpath(path))))
        freeze = tuple(dict.fromkeys(_held(path) for path in self.freeze))
        return self._replace(write=write, deny=deny, show=show, freeze=tuple(path for path in freeze if path))


def _held(path: str) -> str:
    """`path` with the links above it followed; "" where the folder it would lie in is missing."""
    real = os.path.realpath(path)
    if os.path.lexists(real):
        return real
    above = os.path.realpath(os.path.dirname(path))
    return os.path.join(above, os.path.basename(path)) if os.path.isdir(above) else ""


def inside(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
