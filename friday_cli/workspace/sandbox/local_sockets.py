"""Decides which sockets with a path a confined command may connect to. The supervisor imports this: standard library only.

Landlock does not restrict them. The supervisor (`call_guard`) connects the command's own socket itself: to the socket file that it
opened and judged, so that nothing can be exchanged meanwhile. Allowed are sockets on which a confined process of Friday listens, and
those that the settings name. (Reference: sock_diag(7).)
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator, Sequence

from . import inside

_SOCK_DIAG, _DIAG_BY_FAMILY, _DUMP, _SHOW_FILE, _FILE = 4, 20, 0x301, 2, 1
_libc = ctypes.CDLL(None, use_errno=True)


def connect_local(fd: int, name: bytes, process: int, top: int, allowed: Sequence[str]) -> int:
    """Connect the local socket `fd` to the address `name` of a process, if a confined process below `top` listens there, or the path
    is in `allowed`. Returns an error number, 0 for none. Raises OSError."""
    if len(name) < 3 or int.from_bytes(name[:2], sys.byteorder) != socket.AF_UNIX:
        return errno.EINVAL
    path = name[2:].partition(b"\0")[0]
    if not path:
        return errno.EACCES  # an abstract name
    found = os.open(_seen_by(process, path), getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
    try:
        facts = os.fstat(found)
        if not stat.S_ISSOCK(facts.st_mode):
            return errno.ECONNREFUSED
        if not _is_allowed(process, found, facts, top, allowed):
            return errno.EACCES
        return connected(fd, struct.pack("=H", socket.AF_UNIX) + f"/proc/self/fd/{found}".encode() + b"\0")
    finally:
        os.close(found)


def _is_allowed(process: int, found: int, facts: os.stat_result, top: int, allowed: Sequence[str]) -> bool:
    real = os.readlink(f"/proc/self/fd/{found}")
    if any(inside(real, path) for path in allowed):
        return True
    if bound := _bound_to(facts):
        return held_below(top, bound)
    # the kernel names only sockets of our own network: one that it does not name was made in another, as with bubblewrap
    return os.readlink(f"/proc/{process}/ns/net") != os.readlink("/proc/self/ns/net")


def held_below(top: int, inodes: Sequence[int]) -> bool:
    """Whether a confined process below `top` holds one of these sockets."""
    sockets = {f"socket:[{inode}]" for inode in inodes}
    near = (pid for pid in _children_below(top) if _is_confined(pid))
    if any(_holds(pid, sockets) for pid in near):
        return True
    return any(_holds(pid, sockets) for pid in _confined_below(top))  # the kernel's lists may omit one


def connected(fd: int, name: bytes) -> int:
    """Connect a socket to an address. Returns an error number, 0 for none."""
    return 0 if _libc.connect(fd, name, len(name)) == 0 else ctypes.get_errno()


def _seen_by(process: int, path: bytes) -> bytes:
    """The path as the process means it, for us."""
    base = f"/proc/{process}/".encode()
    return base + b"root" + path if path.startswith(b"/") else base + b"cwd/" + path


def _bound_to(facts: os.stat_result) -> list[int]:
    """The inodes of the sockets that are bound to a socket file."""
    wanted = (facts.st_ino & 0xFFFFFFFF, os.major(facts.st_dev) << 20 | os.minor(facts.st_dev))
    states, nothing = 0xFFFFFFFF, 0xFFFFFFFF
    request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, states, 0, _SHOW_FILE, nothing, nothing)
    found: list[int] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(5)
        kernel.send(struct.pack("=IHHII", 16 + len(request), _DIAG_BY_FAMILY, _DUMP, 1, 0) + request)
        while True:
            data, at = kernel.recv(1 << 16), 0
            while at + 16 <= len(data):
                size, kind = struct.unpack_from("=IH", data, at)
                if kind != _DIAG_BY_FAMILY:
                    return found  # the end, or an error
                field = at + 32
                while field + 12 <= at + size:
                    length, name = struct.unpack_from("=HH", data, field)
                    if name == _FILE and struct.unpack_from("=II", data, field + 4) == wanted:
                        found.append(struct.unpack_from("=I", data, at + 20)[0])
                    field += max(length + 3 & ~3, 4)
                at += max(size + 3 & ~3, 16)


def _children_below(top: int) -> Iterator[int]:
    """Most processes below `top`, from the kernel's lists of children."""
    waiting = [top]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError, ValueError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                    below = [int(word) for word in file.read().split()]
                waiting += below
                yield from below


def _is_confined(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            text = file.read()
    except OSError:
        return False
    return "\nSeccomp:\t2\n" in text and "\nNoNewPrivs:\t1\n" in text


def _confined_below(top: int) -> list[int]:
    """The processes below `top` that have a filter of system calls: those of confined commands."""
    parents: dict[int, list[int]] = {}
    confined: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/status", encoding="ascii", errors="replace") as file:
                facts = dict(line.split(":", 1) for line in file if ":" in line)
            parents.setdefault(int(facts["PPid"]), []).append(int(name))
            if facts.get("Seccomp", "0").strip() == "2" and facts.get("NoNewPrivs", "0").strip() == "1":
                confined.add(int(name))
        except (OSError, KeyError, ValueError):
            continue  # ended meanwhile
    found, waiting = [], [top]
    while waiting:
        for child in parents.pop(waiting.pop(), ()):
            waiting.append(child)
            if child in confined:
                found.append(child)
    return found


def _holds(pid: int, sockets: set[str]) -> bool:
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if os.readlink(entry.path) in sockets:
                        return True
    except OSError:
        pass
    return False
