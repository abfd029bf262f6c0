"""The interface to a machine: files and commands in one folder and in the folders added to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import msgspec

from ..text.sanitize import sanitize_line
from .errors import ToolError
from .receipt import FileChange

Access = Literal["", "read_only", "network", "outside"]
"""How a command is confined: as usual, read-only, with the network on, or not at all. Without a sandbox for it, `read_only` is
as usual."""
SandboxAccess = Literal["", "confined", "network", "outside"]
"""What a call may reach with a sandbox: only the sandbox, the network, or everything. "" without a sandbox."""


class DirectoryEntry(msgspec.Struct, frozen=True):
    """An entry of a folder; links are not followed. `size` in bytes, `mode` the permission bits."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int
    mode: int
    target: str = ""


class CommandResult(msgspec.Struct, frozen=True):
    """The result of a command that ended."""

    exit_code: int | None
    """None when the command was killed, 128 + N when signal N ended it."""
    output: str
    """Truncated to its head and tail."""
    duration_s: float
    timed_out: bool = False
    """Whether its time limit killed it."""
    output_file: str = ""
    """The file with the whole output; "" if nothing was truncated."""
    bytes: int = 0
    left: int = 0
    """How many processes outlived the command and were ended after it."""
    changed: tuple[FileChange, ...] = ()
    """Changes in the workspace in the meantime, as far as they were detected."""
    blocked: str = ""
    """What a sandbox seems to have denied; "" for nothing. For a read-only command, the line of its output that says so."""
    tampered: tuple[str, ...] = ()
    """Names of protected files that were changed all the same."""
    unknown: tuple[str, ...] = ()
    """The changes that cannot be detected here, and why."""


class BackgroundJob(msgspec.Struct, frozen=True):
    """A command in the background; `exit_code` is None while it runs and when it was killed. `output` is the output
    since the last call of `job`, truncated; `output_file` as in `CommandResult`. `ended` is True in the first result after its end, and
    only that one has `changed`, `blocked`, `tampered` and `unknown`. `read_only`: it runs read-only. `found`: the line that was waited
    for came."""

    id: str
    command: str
    running: bool
    exit_code: int | None
    output: str
    output_file: str = ""
    ended: bool = False
    changed: tuple[FileChange, ...] = ()
    blocked: str = ""
    tampered: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    read_only: bool = False
    found: bool = False


class ProgramResult(msgspec.Struct, frozen=True):
    """The output of a program that Friday runs for itself. `exit_code` is None when it was killed: by its time limit
    (`timed_out`) or because of too much output (`cut`)."""

    exit_code: int | None
    out: bytes
    err: str
    timed_out: bool = False
    cut: bool = False


def tamper_warning(command: str, names: Sequence[str]) -> str:
    """What a person reads about the protected files `names`, which changed while `command` ran."""
    shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
    text = (
        f"{shown} changed while a command ran and can run code later. Check it, or undo it with a rewind. ({command})"
    )
    return sanitize_line(text, 500)


class Workspace(Protocol):
    """Files and commands. Paths are resolved with their symbolic links and must be inside `roots`. Commands of agents may
    not name a folder in `away`. `supports_read_only`: a command can be made read-only."""

    root: Path
    roots: tuple[Path, ...]
    away: tuple[Path, ...]

    @property
    def supports_read_only(self) -> bool: ...

    def sandbox_access(self, access: Access, command: str = "") -> SandboxAccess:
        """What a command may reach with that access. One that may talk to a service of the person counts as not confined where
        the sandbox cannot hold local sockets."""

    def resolve(self, path: str, *, write: bool = False) -> Path:
        """The absolute path behind `path` (relative to `root`). Raises ToolError when it is outside all roots. A path
        to read from may also be in the folder with long outputs."""

    def label(self, path: str | Path) -> str:
        """The form of `path` for people and rules: relative to `root` with `/`, absolute when outside it. A string is
        resolved first, which may raise ToolError."""

    def labels(self, path: str, found: Path | None = None) -> tuple[str, ...]:
        """All labels of `path` that rules are matched with: as given and, when it is a link, its target. `found`: what it is resolved to."""

    async def stat(self, path: Path) -> DirectoryEntry | None:
        """The entry at a resolved path, None when it does not exist. Raises ToolError when it cannot be read."""

    async def entries(self, path: Path) -> list[DirectoryEntry]:
        """The entries of a folder, sorted. Raises ToolError when it is not a folder or cannot be read."""

    async def read(self, path: Path, *, limit: int, skip: int = 0) -> bytes:
        """At most `limit` bytes of a regular file, after its first `skip` lines. Raises ToolError for folders, devices, FIFOs,
        unreadable files and those with fewer lines."""

    async def write(self, path: Path, data: bytes, *, expect: str | None, agent: str = "") -> str:
        """Replace a file atomically, with its mode; missing parent folders are created. Returns the sha256 of `data`.
        `agent` is the path of the agent, "" for a person. `expect` is the sha256 of the content it must have (None: it
        must not exist). Raises ToolError when it has different content or cannot be written."""

    def expect_command(self) -> None:
        """A command is judged, and may run then."""

    async def run(
        self,
        command: str,
        *,
        agent: str,
        timeout_s: float,
        on_output: Callable[[str], None],
        cwd: Path | None = None,
        access: Access = "",
    ) -> CommandResult:
        """Run a shell command in a new process session. All its processes have ended when this returns."""

    async def execute(
        self,
        argv: Sequence[str],
        *,
        agent: str,
        timeout_s: float,
        limit: int,
        cwd: Path | None = None,
        read_only: bool = False,
    ) -> ProgramResult:
        """Run a program for Friday itself, without a shell. At most `limit` bytes of its output are read. `read_only`: in the sandbox
        of read-only commands, if there is one here."""

    async def keep_output(self, data: bytes) -> str:
        """Write a long result to a new file in the folder with long outputs; returns its path. Raises ToolError."""

    async def start(self, command: str, *, agent: str, access: Access = "") -> BackgroundJob:
        """Start a background command of `agent`. `access` as in `run`."""

    async def job(
        self, job_id: str, *, agent: str, kill: bool = False, wait_s: float = 0.0, until: str = ""
    ) -> BackgroundJob:
        """The state of a background command of `agent`, after waiting up to `wait_s` seconds for new output, or `until` a line has a
        text (`*` stands for anything, `|` separates texts). `kill` ends it. Raises ToolError for an unknown id."""

    async def release(self, agent: str) -> tuple[str, ...]:
        """End all processes of `agent`. Returns when none is left, after 2 s at most: warnings for the person about what
        its commands changed, if no result has them."""

    async def close(self) -> None:
        """End the processes of all agents."""


def for_one_call(workspace: Workspace) -> Workspace:
    """`workspace` for one call of a tool: what a path of the call leads to is what permission rules judged."""
    return cast(Workspace, _WorkspaceOfCall(workspace))


def whole(workspace: Workspace) -> Workspace:
    """The workspace behind one of `for_one_call`, or `workspace` itself."""
    return workspace.of_all_calls if isinstance(workspace, _WorkspaceOfCall) else workspace


class _WorkspaceOfCall:
    """Remembers what each path led to when it was resolved first. A path that leads elsewhere later is refused, and files are
    opened without following links: so nothing is opened but what was judged."""

    def __init__(self, workspace: Workspace) -> None:
        self.of_all_calls = workspace
        self._found: dict[str, Path] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of_all_calls, name)

    def resolve(self, path: str, *, write: bool = False) -> Path:
        found = self.of_all_calls.resolve(path, write=write)
        if self._found.setdefault(path, found) != found:
            raise ToolError(f"{path!r} was replaced by a link, or a link in it was changed.", hint="Try again.")
        return found

    def label(self, path: str | Path) -> str:
        return self.of_all_calls.label(self.resolve(path) if isinstance(path, str) else path)

    def labels(self, path: str, found: Path | None = None) -> tuple[str, ...]:
        return self.of_all_calls.labels(path, found or self.resolve(path))
