"""Decides which sockets with a path a confined command may connect to. The supervisor imports this: standard library only.

Landlock does not restrict them, and a filter of system calls cannot read a path. So the filter hands every `connect` to the
supervisor, which connects the command's own socket itself: to the socket file that it opened and judged, so that nothing can be
exchanged meanwhile. Allowed are sockets on which a confined process of Friday listens, and those that the settings name.
(Reference: seccomp_unotify(2), sock_diag(7).)
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import socket
import stat
import struct
import threading
from collections.abc import Iterator, Sequence

from .plan import inside

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
"""The ioctls of a listener: SECCOMP_IOCTL_NOTIF_RECV, _SEND, _ID_VALID."""
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_SO_DOMAIN = 39
_LONGEST = 128
"""Bytes of an address (struct sockaddr_storage)."""
_SOCK_DIAG, _DIAG_BY_FAMILY, _DUMP, _SHOW_FILE, _FILE = 4, 20, 0x301, 2, 1
_libc = ctypes.CDLL(None, use_errno=True)


class SocketGuard:
    """Answers the `connect` calls of one confined command. `listener` comes from its filter; `launcher` is the process above the
    supervisors of all confined commands; `allowed` are paths of the settings."""

    def __init__(self, listener: int, launcher: int, allowed: Sequence[str]) -> None:
        self.listener = listener
        self._launcher, self._allowed = launcher, allowed

    def serve(self) -> bool:
        """Take one call and answer it in a thread. False if no process of the command is left."""
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        if not any(event & select.POLLIN for _, event in poll.poll(0)):
            return False
        call = ctypes.create_string_buffer(80)
        if _libc.ioctl(self.listener, ctypes.c_ulong(_RECEIVE), call):
            return True  # the process was killed meanwhile
        number, process, _, _, _, _, fd, address, size = struct.unpack_from("=QIIiIQQQQ", call.raw)
        threading.Thread(target=self._answer, args=(number, process, fd, address, size), daemon=True).start()
        return True

    def _answer(self, call: int, process: int, fd: int, address: int, size: int) -> None:
        try:
            error = self._connect(call, process, fd, address, size)
        except OSError as failed:
            error = failed.errno or errno.EACCES
        except Exception:
            error = errno.EACCES
        reply = struct.pack("=QqiI", call, 0, -error, 0)
        _libc.ioctl(self.listener, ctypes.c_ulong(_SEND), reply)

    def _connect(self, call: int, process: int, fd: int, address: int, size: int) -> int:
        """Connect the socket `fd` of a thread to the address in its memory. Returns an error number, 0 for none."""
        if size > _LONGEST:
            return errno.EINVAL
        with contextlib.ExitStack() as stack:
            memory = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, memory)
            name = os.pread(memory, size, address)
            pidfd = _checked(_libc.syscall(_PIDFD_OPEN, _leader(process), 0))
            stack.callback(os.close, pidfd)
            ours = _checked(_libc.syscall(_PIDFD_GETFD, pidfd, ctypes.c_int(fd & 0xFFFFFFFF), 0))
            stack.callback(os.close, ours)
            if _libc.ioctl(self.listener, ctypes.c_ulong(_IS_VALID), struct.pack("=Q", call)):
                return errno.EINTR  # it ended, and its number may be that of another process
            # Not through Python's socket object: closing that would be fine, but it would guess a family.
            family = _domain(ours)
            if family != socket.AF_UNIX:
                return _connected(ours, name)
            if len(name) < 3 or int.from_bytes(name[:2], "little" if _LITTLE else "big") != socket.AF_UNIX:
                return errno.EINVAL
            path = name[2:].partition(b"\0")[0]
            if not path:
                return errno.EACCES  # an abstract name
            found = os.open(_seen_by(process, path), getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
            stack.callback(os.close, found)
            facts = os.fstat(found)
            if not stat.S_ISSOCK(facts.st_mode):
                return errno.ECONNREFUSED
            if not self._is_allowed(process, found, facts):
                return errno.EACCES
            return _connected(ours, struct.pack("=H", socket.AF_UNIX) + f"/proc/self/fd/{found}".encode() + b"\0")

    def _is_allowed(self, process: int, found: int, facts: os.stat_result) -> bool:
        real = os.readlink(f"/proc/self/fd/{found}")
        if any(inside(real, path) for path in self._allowed):
            return True
        if bound := _bound_to(facts):
            sockets = {f"socket:[{inode}]" for inode in bound}
            near = (pid for pid in _children_below(self._launcher) if _is_confined(pid))
            if any(_holds(pid, sockets) for pid in near):
                return True
            return any(
                _holds(pid, sockets) for pid in _confined_below(self._launcher)
            )  # the kernel's lists may omit one
        # the kernel names only sockets of our own network: one that it does not name was made in another, as with bubblewrap
        return os.readlink(f"/proc/{process}/ns/net") != os.readlink("/proc/self/ns/net")


_LITTLE = struct.pack("=H", 1)[0] == 1


def _leader(thread: int) -> int:
    with open(f"/proc/{thread}/status", encoding="ascii", errors="replace") as file:
        return int(next(line for line in file if line.startswith("Tgid:")).split()[1])


def _domain(fd: int) -> int:
    value, size = ctypes.c_int(), ctypes.c_uint(4)
    _checked(_libc.getsockopt(fd, socket.SOL_SOCKET, _SO_DOMAIN, ctypes.byref(value), ctypes.byref(size)))
    return value.value


def _connected(fd: int, name: bytes) -> int:
    return 0 if _libc.connect(fd, name, len(name)) == 0 else ctypes.get_errno()


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


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
