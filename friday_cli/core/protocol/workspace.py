"""The seam to a machine: files and commands of one folder and those added to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from .receipt import FileChange

Access = Literal["", "network", "outside"]
"""What a command may beyond the sandbox: nothing, the network, or everything (no sandbox at all)."""
Reach = Literal["", "confined", "network", "outside"]
"""How far a call reaches where there is a sandbox: not beyond it, to the network, or anywhere. "" without one."""


class DirectoryEntry(msgspec.Struct, frozen=True):
    """A name in a folder, not followed when it is a link. `size` in bytes, `mode` the permission bits."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int
    mode: int
    target: str = ""


class Ran(msgspec.Struct, frozen=True):
    """A command that ended. `output` is capped (head and tail); `spill` names the file with all of it, "" when nothing was cut.

    `exit_code` is None when the command was killed (`timed_out` tells whether by its own limit), 128 + N when signal N
    ended it; `duration_s` in seconds. `left` counts the processes that outlived the command and were ended after it;
    `changed` is what changed in the workspace meanwhile, as far as it could be seen cheaply. `blocked` says what a sandbox
    seems to have refused, "" where nothing points to one; `tampered` names protected files that changed all the same.
    """

    exit_code: int | None
    output: str
    duration_s: float
    timed_out: bool = False
    spill: str = ""
    bytes: int = 0
    left: int = 0
    changed: tuple[FileChange, ...] = ()
    blocked: str = ""
    tampered: tuple[str, ...] = ()


class BackgroundJob(msgspec.Struct, frozen=True):
    """A command in the background; `exit_code` is None while it runs and when it was killed.

    `output` is what came since the last look, capped; `spill` as in `Ran`. `ended` is True in the one look that first
    sees its end, and `changed`, `blocked` and `tampered` are filled in that one.
    """

    id: str
    command: str
    running: bool
    exit_code: int | None
    output: str
    spill: str = ""
    ended: bool = False
    changed: tuple[FileChange, ...] = ()
    blocked: str = ""
    tampered: tuple[str, ...] = ()


class Printed(msgspec.Struct, frozen=True):
    """What a program of Friday's own printed. `exit_code` is None when it was killed: by its limit of time
    (`timed_out`) or because it printed more than it may (`cut`)."""

    exit_code: int | None
    out: bytes
    err: str
    timed_out: bool = False
    cut: bool = False


class Workspace(Protocol):
    """Files and commands. Every path is resolved, symbolic links included, and must lie in `roots`. No command of an agent
    may name a folder in `away`."""

    root: Path
    roots: tuple[Path, ...]
    away: tuple[Path, ...]

    def reach(self, access: Access) -> Reach:
        """How far a command with that access reaches here."""
        ...

    def resolve(self, path: str, *, write: bool = False) -> Path:
        """The absolute path behind `path` (relative to `root`). Raises ToolError when it lies outside every root.

        What only will be read may also lie in the folder where long output is kept.
        """
        ...

    def label(self, path: str | Path) -> str:
        """How `path` is shown and matched by rules: relative to `root` with `/`, absolute when outside it.
        A string is resolved first and may raise ToolError as `resolve` does."""
        ...

    def labels(self, path: str) -> tuple[str, ...]:
        """Every name by which a rule may speak of `path`: as it was asked for and, where a link leads elsewhere, as it is."""
        ...

    async def stat(self, path: Path) -> DirectoryEntry | None:
        """What stands at a resolved path, None when nothing does. Raises ToolError when that cannot be told."""
        ...

    async def entries(self, path: Path) -> list[DirectoryEntry]:
        """The names in a folder, sorted. Raises ToolError when it is none or cannot be read."""
        ...

    async def read(self, path: Path, *, limit: int) -> bytes:
        """At most `limit` bytes of a regular file. Raises ToolError for folders, devices, FIFOs and what cannot be read."""
        ...

    async def write(self, path: Path, data: bytes, *, expect: str | None, agent: str = "") -> str:
        """Replace a file atomically, keeping its mode; missing folders above it are made. Returns the sha256 of `data`.
        `agent` is who wants it, "" the person. `expect` is the sha256 of the content it must still have (None: it must
        not exist). Raises ToolError when that does not hold or it cannot be written."""
        ...

    async def run(
        self,
        command: str,
        *,
        agent: str,
        timeout_s: float,
        on_output: Callable[[str], None],
        cwd: Path | None = None,
        access: Access = "",
    ) -> Ran:
        """Run a shell command in a session of its own; everything it started is gone when this returns. `access` is what
        it may beyond the sandbox, where there is one."""
        ...

    async def execute(
        self, argv: Sequence[str], *, agent: str, timeout_s: float, limit: int, cwd: Path | None = None
    ) -> Printed:
        """Run a program Friday itself needs (no shell), reading at most `limit` bytes of its output."""
        ...

    async def start(self, command: str, *, agent: str, access: Access = "") -> BackgroundJob:
        """Start a background command owned by `agent`; `access` as in `run`."""
        ...

    async def job(self, job_id: str, *, agent: str, kill: bool = False, wait_s: float = 0.0) -> BackgroundJob:
        """Look at (or kill) a background command of `agent`, at most `wait_s` seconds after something new came of it.
        Raises ToolError for an unknown id."""
        ...

    async def release(self, agent: str) -> None:
        """End every process of `agent`; returns when none is left (at most 2 s)."""
        ...

    async def close(self) -> None:
        """End every process of everyone."""
        ...
