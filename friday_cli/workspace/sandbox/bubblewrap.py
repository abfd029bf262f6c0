"""Runs a command in separate namespaces with bubblewrap. The supervisor imports this: standard library only.

The whole file system is mounted read-only; writable folders are mounted over it, secrets are covered. The command sees
only its own processes (a PID namespace), only new terminals, and without network only its own localhost.
`--die-with-parent` is not used: processes that outlive the command get time to end on their own; the supervisor, the
launcher and the init process of the namespace end the rest.
"""

from __future__ import annotations

import os
import stat
from typing import Literal, NamedTuple

from . import inside
from .plan import SandboxPlan

_FLAGS = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--new-session",
    "--cap-drop", "ALL",
)  # fmt: skip
_FIRST = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
_KERNEL = tuple(
    f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "mtrr", "fs", "acpi", "scsi", "driver")
)
"""Settings of the whole machine. Root can write most of them without a capability, and `core_pattern` alone is an escape.
(bubblewrap covers a few, but not if the folder looks read-only, as it does to root in a namespace.)"""
SOCKETS = ("/run", "/var/run")
"""Where services listen (docker, the system bus, key agents): covered with everything below."""
_RUN = (
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
    "/run/wrappers",
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
)
"""Parts of /run that programs need: those of NixOS, and the addresses of the name servers."""
TEMPORARY = ("/tmp", "/var/tmp")
"""Where the private temp folder is mounted."""


class _Mount(NamedTuple):
    path: str
    act: Literal["hide", "show", "tmp", "write", "freeze"]


def wrap(plan: SandboxPlan, words: list[bytes]) -> list[bytes]:
    """The call of bubblewrap that runs `words` confined by `plan`, which must be resolved."""
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
        else:  # an empty folder; one above a mounted path can be traversed, but not listed
            leads = any(inside(other.path, path) for other in mounts if other != mount)
            argv += ["--perms", "0755" if act == "freeze" else "0111" if leads else "0000", "--tmpfs", path]
            sealed.append(path)
    for source, place in zip(plan.elsewhere[::2], plan.elsewhere[1::2], strict=True):
        argv += ["--ro-bind", source, place]
    argv += [word for path in sealed for word in ("--remount-ro", path)]
    if plan.read_only:
        from . import system_call_filter  # loads ctypes

        if code := system_call_filter.as_bytes(network=False, read_only=True):
            argv += ["--seccomp", str(_inherited(code))]  # no connection to a socket with a path
    return [*map(os.fsencode, [*argv, "--chdir", plan.cwd, "--"]), *words]


def guard(plan: SandboxPlan) -> int:
    """Let the supervisor answer the `connect` calls of the command, as with Landlock: sockets in folders that are not covered
    can be reached otherwise. Returns the descriptor for `call_guard.CallGuard`; -1 if bubblewrap is a program with the
    rights of root, which the kernel does not let a filter inherit, and for read-only commands, which make no socket. Raises OSError
    if the network must be limited then."""
    from . import system_call_filter  # loads ctypes

    privileged = bool(os.stat(plan.program).st_mode & stat.S_ISUID)
    if privileged and plan.only_port:
        words = "its network cannot be limited to one address by a bubblewrap with the rights of root"
        raise OSError(f"{words}; {system_call_filter.OPEN_NETWORK}")
    if plan.read_only or privileged:
        return -1

    return system_call_filter.guard_calls(system_call_filter.GuardedCalls(bool(plan.only_port), plan.record))


def _inherited(content: bytes) -> int:
    """A file descriptor with `content` that the program gets."""
    fd = os.memfd_create("filter", 0)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _mounts(plan: SandboxPlan) -> list[_Mount]:
    """The mounts in order: a deeper path comes later and overrides those above it."""
    found = [_Mount(path, "hide") for path in (*plan.deny, *SOCKETS) if os.path.realpath(path) == path]
    found = [mount for mount in found if os.path.lexists(mount.path)]
    found += [_Mount(path, "tmp") for path in TEMPORARY if os.path.isdir(path) and os.path.realpath(path) == path]
    found += [_Mount(path, "show") for path in (*plan.show, *plan.read_only, *_RUN) if os.path.lexists(path)]
    found += [_Mount(path, "write") for path in plan.write]
    found += [_Mount(path, "freeze") for path in plan.freeze]
    found.sort(key=lambda mount: mount.path.count("/"))  # stable: for equal paths the later kind overrides
    kept: list[_Mount] = []
    for mount in found:
        above = [other for other in kept if inside(mount.path, other.path)]
        covered = bool(above) and above[-1].act in ("hide", "tmp")
        if mount.act == "hide" and covered and above[-1].path != mount.path:
            continue  # already covered
        if mount.act == "freeze" and (not above or above[-1].act not in ("write", "freeze")):
            continue  # not writable anyway
        kept.append(mount)
    return kept
