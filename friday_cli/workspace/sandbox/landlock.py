"""Confines a command with the kernel's Landlock. The supervisor imports this: standard library only.

Landlock can only grant access, and access to a folder covers everything below it. So reading is granted for the siblings
of each folder above a secret, never for a folder above it; names there can still be listed. Nothing below a writable
folder can be protected. Landlock restricts TCP, but no other network protocol: `system_call_filter` does. (Reference: the
kernel's Documentation/userspace-api/landlock.rst.)
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Sequence

from . import inside, system_call_filter
from .plan import SandboxPlan

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_TCP, _CONNECT, _SCOPES = 0b11, 0b10, 0b11
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
"""The devices that can be used. Other terminals are excluded: their input could be read, and their screen written."""
NEW_TERMINALS = ("/dev/ptmx", "/dev/pts/ptmx")
"""What makes a new terminal. Its other end cannot be opened by its name: the guard opens it."""

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """The Landlock version (ABI) of this kernel, 0 without Landlock."""
    found: int = _libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(found, 0)


def restrict(plan: SandboxPlan) -> int:
    """Confine this process and its future children by `plan`, which must be resolved. Returns a descriptor for
    `call_guard.CallGuard`, -1 if none is needed. Raises OSError."""
    abi = version()
    if abi < 1:
        raise OSError("this kernel has no Landlock")
    handled = (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16)) - 1  # all rights of this version
    tcp = 0 if abi < 4 else _CONNECT if plan.only_port else 0 if plan.network else _TCP  # the guard connects itself
    shape = struct.pack("=QQQ", handled, tcp, _SCOPES if abi >= 6 else 0)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    ruleset = _call(_CREATE, shape, ctypes.c_size_t(len(shape)), ctypes.c_uint32(0))
    try:
        _grant(ruleset, _READ_DIR if plan.read_only else _READ_DIR | _EXECUTE, "/")
        _grant(ruleset, _READ_FILE | _EXECUTE, *readable(plan))
        for top in (*plan.read_only, *(path for path in plan.show if _is_read_only(path, plan))):
            _grant(ruleset, _READ_FILE, *_covering(top, plan.deny))
        devices = DEVICES if plan.read_only else (*DEVICES, *NEW_TERMINALS)
        _grant(ruleset, (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV) & handled, *devices)
        writing = handled & ~(_IOCTL_DEV | _EXECUTE if plan.read_only else _IOCTL_DEV)
        _grant(ruleset, writing, *plan.write, exact=True)
        _grant(ruleset, writing, plan.tmp)
        if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "no_new_privs")
        if _libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24)):  # root could read others' memory
            raise OSError(ctypes.get_errno(), "capabilities")
        _call(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
        handed = system_call_filter.GuardedCalls(bool(plan.only_port), plan.record, terminals=True)
        guard = -1 if plan.read_only else system_call_filter.guard_calls(handed)
        system_call_filter.install(network=plan.network, read_only=bool(plan.read_only))
        return guard
    finally:
        os.close(ruleset)


def readable(plan: SandboxPlan) -> list[str]:
    """Folders and files that together cover the whole file system except the denied paths and `plan.read_only`. A denied path
    inside a writable folder stays readable. Where a command may only read, its own temporary folder is excluded too: what is
    copied there must not be executed."""
    denied = [path for path in (*plan.deny, "/dev") if not any(inside(path, root) for root in plan.write)]
    denied += plan.read_only
    if plan.read_only:
        denied.append(plan.tmp)
    tops = [path for path in ("/", *plan.show) if not _is_read_only(path, plan)]
    return [path for top in tops for path in _covering(top, denied)]


def _is_read_only(path: str, plan: SandboxPlan) -> bool:
    return any(inside(path, root) for root in plan.read_only)


def _covering(top: str, denied: Sequence[str]) -> list[str]:
    """Folders and files that together cover `top` except the denied paths below it."""
    prefix = top.rstrip("/") + "/"
    below = {path for path in denied if path != top and path.startswith(prefix)}
    if not below:
        return [top]
    above: set[str] = set()
    for path in below:
        while (path := os.path.dirname(path)) not in above and path != top:
            above.add(path)
    found: list[str] = []
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            names = os.listdir(folder)
        except OSError:
            continue  # not readable anyway
        prefix = folder.rstrip("/") + "/"
        for name in names:
            path = prefix + name
            if path in above and path not in below:
                waiting.append(path)
            elif path not in below:
                found.append(path)
    return found


def _grant(ruleset: int, allowed: int, *paths: str, exact: bool = False) -> None:
    """Allow `allowed` at these paths and below: often hundreds, before each command. Links and missing paths are ignored, with `exact`
    also those on whose way a link was put meanwhile."""
    number, beneath, flags = ctypes.c_int(ruleset), ctypes.c_int(1), ctypes.c_uint32(0)
    for path in paths:
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            mode = os.fstat(fd).st_mode
            if not stat.S_ISLNK(mode) and not (exact and _led_elsewhere(fd, path)):
                here = allowed if stat.S_ISDIR(mode) else allowed & _OF_FILES
                _call(_ADD, number, beneath, struct.pack("=Qi", here, fd), flags)
        finally:
            os.close(fd)


def _led_elsewhere(fd: int, path: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}") != path
    except OSError:
        return False  # no /proc


def _call(number: int, *words: object) -> int:
    result: int = _libc.syscall(number, *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock: {os.strerror(ctypes.get_errno())}")
    return result
