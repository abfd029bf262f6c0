"""A command in namespaces of its own, by bubblewrap. The launcher imports this: standard library only.

The whole machine is there and read-only; what may be written is mounted over it, what is secret is covered. The command
sees no process but its own (a namespace of process ids), no terminal but new ones, and without network no host but
itself. `--die-with-parent` is left out on purpose: what a command leaves behind has a moment to end by itself, and its
keeper, the warden and the namespace's own first process see to the rest.
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from .plan import SandboxPlan, inside

_FLAGS = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--new-session",
    "--cap-drop", "ALL",
)  # fmt: skip
_FIRST = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
_KERNEL = tuple(
    f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "mtrr", "fs", "acpi", "scsi", "driver")
)
"""Settings of the whole machine. Root needs no capability to write most of them: `core_pattern` alone is a way out.
(bubblewrap covers a few itself, but not where the folder looks read-only, as it does to root in a namespace.)"""
SOCKETS = ("/run", "/var/run")
"""Where services listen (docker, the system bus, agents of keys): covered, whatever lies below."""
_RUN = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers", "/run/NetworkManager/resolv.conf",
        "/run/resolvconf", "/run/systemd/resolve/resolv.conf", "/run/systemd/resolve/stub-resolv.conf")  # fmt: skip
"""What programs need of /run all the same: parts of NixOS, and the names of the name servers."""
TEMPORARY = ("/tmp", "/var/tmp")
"""Where the private temp folder stands inside."""


class _Mount(NamedTuple):
    path: str
    act: Literal["hide", "show", "tmp", "write", "freeze"]


def wrapped(plan: SandboxPlan, words: list[bytes]) -> list[bytes]:
    """`words` as a call of bubblewrap that confines them as `plan` (resolved) says."""
    mounts = _mounts(plan)
    argv = [plan.program, *_FLAGS, *([] if plan.network else ["--unshare-net"]), *_FIRST]
    argv += [word for path in _KERNEL if os.path.exists(path) for word in ("--ro-bind", path, path)]
    sealed: list[str] = []
    for mount in mounts:
        path, act = mount
        if act in ("show", "write"):
            argv += ["--ro-bind" if act == "show" else "--bind", path, path]
        elif act == "tmp":
            argv += ["--bind", plan.tmp, path]
        elif act == "freeze" and os.path.lexists(path):
            argv += ["--ro-bind", path, path]
        elif act == "hide" and not os.path.isdir(path):
            argv += ["--ro-bind", os.devnull, path]
        else:  # an empty folder; one that leads to something shown can be walked through, and not be listed
            leads = any(inside(other.path, path) for other in mounts if other != mount)
            argv += ["--perms", "0755" if act == "freeze" else "0111" if leads else "0000", "--tmpfs", path]
            sealed.append(path)
    argv += [word for path in sealed for word in ("--remount-ro", path)]
    return [*map(os.fsencode, [*argv, "--chdir", plan.cwd, "--"]), *words]


def _mounts(plan: SandboxPlan) -> list[_Mount]:
    """What is mounted, in order: what lies deeper comes later and holds."""
    found = [_Mount(path, "hide") for path in (*plan.deny, *SOCKETS) if os.path.realpath(path) == path]
    found = [mount for mount in found if os.path.lexists(mount.path)]
    found += [_Mount(path, "tmp") for path in TEMPORARY if os.path.isdir(path) and os.path.realpath(path) == path]
    found += [_Mount(path, "show") for path in (*plan.show, *_RUN) if os.path.lexists(path)]
    found += [_Mount(path, "write") for path in plan.write]
    found += [_Mount(path, "freeze") for path in plan.freeze]
    found.sort(key=lambda mount: mount.path.count("/"))  # stable: of equals the later kind holds
    kept: list[_Mount] = []
    for mount in found:
        above = [other for other in kept if inside(mount.path, other.path)]
        covered = bool(above) and above[-1].act in ("hide", "tmp")
        if mount.act == "hide" and covered and above[-1].path != mount.path:
            continue  # nothing of it is there
        if mount.act == "freeze" and (not above or above[-1].act not in ("write", "freeze")):
            continue  # nobody can write there
        kept.append(mount)
    return kept
