"""How the commands of one session are confined: a plan for each, and what they share."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from friday_cli.core.protocol.workspace import Access, Reach

from .detect import SandboxChoice
from .plan import Kind, SandboxPlan
from .protected_paths import SPEAKERS, folders, ground, secrets


class SandboxPolicy:
    """Makes the plans of a session's commands.

    `environ` is the person's own; `write` and `read_deny` are the settings', `own` Friday's folders (nothing in them is
    read but `show`), `network` whether it is on for every command. `close` removes what was made for the commands.
    """

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
        self._write = folders(environ, write)
        self._deny = secrets(environ, read_deny, [str(path) for path in own])
        self._tmp = ""
        self._made: set[str] = set()

    @property
    def kind(self) -> Kind:
        return self.choice.kind

    def reach(self, access: Access) -> Reach:
        """How far a command with that access reaches."""
        if self.kind == "none":
            return ""
        return access if access == "outside" or (access == "network" and not self.network) else "confined"

    def plan(self, roots: Sequence[Path], cwd: Path, *, show: Path | None, access: Access) -> SandboxPlan | None:
        """How a command in `cwd` is confined that may write below `roots` and read in `show`; None where it is not."""
        if self.kind == "none" or access == "outside":
            return None
        grounds = [ground(str(root)) for root in roots]
        plan = SandboxPlan(
            self.kind,
            self.choice.program,
            self._temporary(),
            str(cwd),
            self.network or access == "network",
            (*map(str, roots), *(path for place in grounds for path in place.write), *self._write),
            self._deny,
            (str(show),) if show else (),
            tuple(path for place in grounds for path in place.freeze),
        )
        if self.kind == "bubblewrap":  # it mounts over what is not there, and so makes an empty folder of it
            self._made |= {path for path in plan.resolved().freeze if not os.path.lexists(path)}
        return plan

    def environ(self, given: Mapping[str, str], *, keep: Sequence[str] = ()) -> dict[str, str]:
        """The environment of a confined command: no way to a service outside, temp files in the private folder."""
        left = {name: value for name, value in given.items() if name not in SPEAKERS or name in keep}
        tmp = "/tmp" if self.kind == "bubblewrap" else self._temporary()
        return {**left, "TMPDIR": tmp, "TMP": tmp, "TEMP": tmp}

    def _temporary(self) -> str:
        if not self._tmp:
            self._tmp = os.path.realpath(tempfile.mkdtemp(prefix="friday-tmp-"))
        return self._tmp

    def close(self) -> None:
        """Remove the temp folder and the empty folders that were made only to be mounted over."""
        for path in self._made:
            with contextlib.suppress(OSError):  # somebody put something there
                os.rmdir(path)
        if self._tmp:
            shutil.rmtree(self._tmp, ignore_errors=True)
        self._made, self._tmp = set(), ""
