"""The sandbox of one session: makes the plan of each command and owns their temp folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from friday_cli.core.protocol.workspace import Access, Reach

from .detect import SandboxChoice
from .plan import SandboxPlan
from .protected_paths import SERVICE_VARIABLES, absolute_paths, secret_paths, writable_folder


class SandboxPolicy:
    """Makes the plans of a session's commands. `environ` is the user's environment. `write` and `read_deny` come from the
    settings; `own` are Friday's folders, which cannot be read except `show`; `network` allows the network for every
    command. Raises UsageError for a relative path. `close` removes what was created for the commands."""

    def __init__(
        self,
        choice: SandboxChoice,
        *,
        environ: Mapping[str, str],
        write: Sequence[str] = (),
        read_deny: Sequence[str] = (),
        network: bool = False,
        own: Sequence[Path] = (),
    ) -> None:
        self.choice = choice
        self.network = network
        self._write = absolute_paths(environ, write)
        self._deny = secret_paths(environ, read_deny, [str(path) for path in own])
        self._tmp = ""
        self._mount_points: set[str] = set()

    def reach(self, access: Access) -> Reach:
        """How far a command with `access` reaches: "" without a sandbox."""
        if self.choice.kind == "none":
            return ""
        return access if access == "outside" or (access == "network" and not self.network) else "confined"

    def plan(self, roots: Sequence[Path], cwd: Path, *, show: Path | None, access: Access) -> SandboxPlan | None:
        """The plan of a command in `cwd` that may write below `roots` and read in `show`; None if it is not confined."""
        if self.choice.kind == "none" or access == "outside":
            return None
        writable = [writable_folder(str(root)) for root in roots]
        plan = SandboxPlan(
            kind=self.choice.kind,
            program=self.choice.program,
            tmp=self._temporary(),
            cwd=str(cwd),
            network=self.network or access == "network",
            write=(*map(str, roots), *(path for folder in writable for path in folder.write), *self._write),
            deny=self._deny,
            show=(str(show),) if show else (),
            freeze=tuple(path for folder in writable for path in folder.freeze),
        )
        if self.choice.kind == "bubblewrap":  # it creates an empty folder as mount point for a path that does not exist
            self._mount_points |= {path for path in plan.resolved().freeze if not os.path.lexists(path)}
        return plan

    def environ(self, given: Mapping[str, str], *, keep: Sequence[str] = ()) -> dict[str, str]:
        """The environment of a confined command: without addresses of services, and with the private temp folder."""
        passed = {name: value for name, value in given.items() if name not in SERVICE_VARIABLES or name in keep}
        tmp = "/tmp" if self.choice.kind == "bubblewrap" else self._temporary()
        return {**passed, "TMPDIR": tmp, "TMP": tmp, "TEMP": tmp}

    def _temporary(self) -> str:
        if not self._tmp:
            self._tmp = os.path.realpath(tempfile.mkdtemp(prefix="friday-tmp-"))
        return self._tmp

    def close(self) -> None:
        """Remove the temp folder and the empty folders that were created as mount points."""
        for path in self._mount_points:
            with contextlib.suppress(OSError):  # not empty any longer
                os.rmdir(path)
        if self._tmp:
            shutil.rmtree(self._tmp, ignore_errors=True)
        self._mount_points, self._tmp = set(), ""
