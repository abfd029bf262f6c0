"""The sandbox of one session: makes the plan of each command and owns their temp folders."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.config.settings import SandboxSettings
from friday_cli.core.protocol.workspace import Access, SandboxAccess
from friday_cli.core.text.lazy_regex import pattern

from . import inside, read_only_command
from .detect import SandboxChoice
from .home import hidden_paths, possible_paths, readable_paths
from .protected_paths import SERVICE_VARIABLES, absolute_paths, repository_folders, secret_paths, writable_folder

if TYPE_CHECKING:
    from friday_cli.system.temporary_folder import TemporaryFolder

    from .plan import SandboxPlan

_TEMPORARY = ("/tmp", "/var/tmp")
"""Folders in which a read-only command sees nothing but its own temp folder."""

_SERVICES = pattern(
    r"(?<![\w.-])(?:tmux|screen|zellij|docker|podman|nerdctl|kubectl|systemctl|systemd-run|busctl|gdbus|dbus-send|ssh|ssh-add|gpg2?"
    r"|gpg-connect-agent|emacsclient|nvim|nvr|code|kitty|wezterm|osascript|launchctl|open|socat|nc|ncat)(?![\w.-])|--(?:abstract-)?unix-socket"
)
"""Programs that have services of the person do something through a local socket."""


class SandboxPolicy:
    """Makes the plans of a session's commands. `environ` is the user's environment. `own` are Friday's folders, which
    cannot be read except `show`. Raises UsageError for a relative path in the settings. `close` removes what was created for the
    commands."""

    def __init__(
        self,
        choice: SandboxChoice,
        settings: SandboxSettings,
        *,
        environ: Mapping[str, str],
        own: Sequence[Path] = (),
    ) -> None:
        self.choice = choice
        self.network = settings.network
        """Whether every command may use the network."""
        self._write = absolute_paths(environ, settings.write)
        self._opened = tuple(map(os.path.realpath, self._write))  # once: a command could put a link in its place
        self._deny = secret_paths(environ, settings.read_deny, [str(path) for path in own])
        home = environ.get("HOME", "")
        self._home = os.path.realpath(home) if home.startswith("/") and home.strip("/") else ""
        self.readable: list[Path] = []
        """Folders that commands may read too, unless the settings deny it; more can be added."""
        self._refused = denied = absolute_paths(environ, settings.read_deny)
        wanted = (*readable_paths(environ, self._home), *absolute_paths(environ, settings.read)) if self._home else ()
        self._show = tuple(path for path in wanted if not any(inside(path, top) for top in denied))
        self._tmp: dict[bool, TemporaryFolder] = {}
        self._secrets: dict[tuple[str, ...], tuple[float, tuple[str, ...]]] = {}
        self._creating = threading.Lock()
        self._mount_points: set[str] = set()

    def sandbox_access(self, access: Access, command: str = "") -> SandboxAccess:
        """How far a command with `access` reaches: "" without a sandbox, and for a `command` with the name of a program that has
        services of the person do something, where the sandbox does not hold local sockets."""
        if self.choice.kind == "none" or (command and _SERVICES().search(command) and not self._holds_sockets(access)):
            return ""
        return access if access == "outside" or (access == "network" and not self.network) else "confined"

    def _holds_sockets(self, access: Access) -> bool:
        """Whether a confined command reaches no socket with a path."""
        if self.choice.kind == "seatbelt":
            return not self.network and access != "network"
        if self.choice.kind != "landlock":
            return True
        from . import system_call_filter  # only loaded for a command

        return system_call_filter.supported()

    @property
    def supports_read_only(self) -> bool:
        """Whether a command can be made read-only."""
        return self.choice.read_only_kind != "none"

    def plan(
        self, roots: Sequence[Path], cwd: Path, *, show: Path | None, access: Access, secrets_age_s: float = 0.0
    ) -> SandboxPlan | None:
        """The plan of a command in `cwd` that may write below `roots` (links resolved) and read in `show`; None if it is not confined. With
        the access `read_only` it can write nothing but its temp folder; `secrets_age_s`: the list of secret files may be as old
        as that (seconds). Blocks."""
        from .plan import SandboxPlan  # a start runs no command

        if self.choice.kind == "none" or access == "outside" or (access == "read_only" and not self.supports_read_only):
            return None
        more = [text for text in map(str, self.readable) if not any(inside(text, top) for top in self._refused)]
        shown = possible_paths((*self._show, *more, *((str(show),) if show else ())), self._home)
        denied = (*self._hidden(roots), *possible_paths(self._deny, self._home))
        if access == "read_only":
            folders = [os.path.realpath(path) for root in roots for path in (str(root), *repository_folders(str(root)))]
            return SandboxPlan(
                kind=self.choice.read_only_kind,
                program=self.choice.program if self.choice.read_only_kind == self.choice.kind else "",
                tmp=self._temporary(read_only=True),
                cwd=str(cwd),
                network=False,
                deny=(
                    *filter(None, (self._home,)),
                    *_TEMPORARY,
                    *denied,
                    *self._secret_files(tuple(folders), secrets_age_s),
                ),
                show=shown,
                read_only=tuple(dict.fromkeys(folders)),
            )
        tmp = self._temporary()
        opened = (*map(str, roots), *self._opened)
        writable = [writable_folder(str(root), (*opened, tmp)) for root in roots]
        plan = SandboxPlan(
            kind=self.choice.kind,
            program=self.choice.program,
            tmp=tmp,
            cwd=str(cwd),
            network=self.network or access == "network",
            write=(*opened, *(path for folder in writable for path in folder.write)),
            deny=denied,
            show=shown,
            freeze=tuple(path for folder in writable for path in folder.freeze),
            sockets=self._write,
        )
        if self.choice.kind == "bubblewrap":  # it creates an empty folder as mount point for a path that does not exist
            self._mount_points |= {path for path in plan.resolved().freeze if not os.path.lexists(path)}
        return plan

    def environ(self, given: Mapping[str, str], plan: SandboxPlan, *, keep: Sequence[str] = ()) -> dict[str, str]:
        """The environment of a command with this plan: without addresses of services, and with its private temp folder."""
        passed = {name: value for name, value in given.items() if name not in SERVICE_VARIABLES or name in keep}
        tmp = "/tmp" if plan.kind == "bubblewrap" else plan.tmp
        passed = read_only_command.environ(passed) if plan.read_only else passed
        return {**passed, "TMPDIR": tmp, "TMP": tmp, "TEMP": tmp}

    def _hidden(self, roots: Sequence[Path]) -> tuple[str, ...]:
        """What is hidden in the home. A folder of the commands that contains the home hides nothing but secrets."""
        whole = any(inside(self._home, os.path.realpath(root)) for root in roots)
        return () if whole or not self._home else hidden_paths(self._home)

    def _secret_files(self, folders: tuple[str, ...], age_s: float) -> tuple[str, ...]:
        """As `read_only_command.secret_files`."""
        at, known = self._secrets.get(folders, (-math.inf, ()))
        if time.monotonic() - at > age_s:
            at, known = self._secrets[folders] = time.monotonic(), read_only_command.secret_files(folders)
        return known

    def _temporary(self, *, read_only: bool = False) -> str:
        with self._creating:
            if not self._tmp:
                threading.Thread(target=_remove_left, name="friday-left", daemon=True).start()
            if read_only not in self._tmp:
                from friday_cli.system.temporary_folder import TemporaryFolder  # a session without commands needs none

                self._tmp[read_only] = TemporaryFolder()
            return self._tmp[read_only].path

    def close(self) -> None:
        """Remove the temp folders and the empty folders that were created as mount points."""
        for path in self._mount_points:
            with contextlib.suppress(OSError):  # not empty any longer
                os.rmdir(path)
        for folder in self._tmp.values():
            folder.close()
        self._mount_points, self._tmp = set(), {}


def _remove_left() -> None:
    """Remove what killed processes left."""
    from friday_cli.system import temporary_folder

    with contextlib.suppress(OSError):
        temporary_folder.remove_left()
