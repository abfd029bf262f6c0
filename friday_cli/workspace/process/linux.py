"""What the warden asks of the kernel: who is whose child, and to be woken when one ends. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
from collections.abc import Iterator

LINUX = sys.platform == "linux"
_LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def wake_on_children() -> int:
    """A descriptor that becomes readable when a child ends."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return reading


def drain(fd: int) -> None:
    """Empty a pipe that does not block."""
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass


def poll_for(*fds: int) -> select.poll:
    """What waits until one of the descriptors can be read; negative ones are left out."""
    poll = select.poll()
    for fd in fds:
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    return poll


def prctl(option: int, value: int) -> None:
    """Set a property of this process, such as `PR_SET_PDEATHSIG`; without effect where there is no Linux."""
    if LINUX:
        _LIBC.prctl(option, value, 0, 0, 0)


def pidfd(pid: int) -> int:
    """A descriptor of a process, -1 where there is none to be had."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


@contextlib.contextmanager
def descendants(top: int) -> Iterator[list[tuple[int, int]]]:
    """The living processes below `top`. All are found before any is touched: the children of one that dies move.

    A number read from /proc may be another process's by the time it is used. So the process is pinned first, by a pidfd
    (-1 where the kernel, before 5.3, has none), and counts only if its parent still is one of ours.
    """
    ours, waiting = {top}, [top]
    found: list[tuple[int, int]] = []
    try:
        while waiting:
            for pid in children_of(waiting.pop()):
                if pid in ours or ((pin := pidfd(pid)) < 0 and _PINS):
                    continue
                found.append((pid, pin))
                parent, state = _parent(pid)
                if parent in ours:
                    ours.add(pid)
                    waiting.append(pid)
                if parent not in ours or state == "Z":
                    _unpin(found.pop()[1])
        yield found
    finally:
        for _, pin in found:
            _unpin(pin)


def _unpin(pin: int) -> None:
    if pin >= 0:
        os.close(pin)


def _can_pin() -> bool:
    pin = pidfd(os.getpid())
    _unpin(pin)
    return pin >= 0


def _parent(pid: int) -> tuple[int, str]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), fields[0].decode()
    except (OSError, IndexError):
        return 0, ""


def children_of(pid: int) -> list[int]:
    """The processes whose parent is `pid`, as /proc tells."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                    found += [int(word) for word in file.read().split()]
                continue
            if not os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children"):  # a kernel without these files
                return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(int(name))[0] == pid]
    except OSError:
        pass
    return found


_PINS = _can_pin()
