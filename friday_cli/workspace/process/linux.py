"""Kernel functions for the supervisor: parents, children, and waking up when a child ends. Standard library only."""

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
    """A descriptor that becomes readable when a child process ends."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return reading


def drain(fd: int) -> None:
    """Empty a non-blocking pipe."""
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 4096):
            pass


def poll_for(*fds: int) -> select.poll:
    """A poll object that waits until one of the descriptors is readable; negative ones are omitted."""
    poll = select.poll()
    for fd in fds:
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    return poll


def prctl(option: int, value: int) -> None:
    """Set a property of this process, such as `PR_SET_PDEATHSIG`. Does nothing on other systems than Linux."""
    if LINUX:
        _LIBC.prctl(option, value, 0, 0, 0)


def pidfd(pid: int) -> int:
    """A descriptor of a process, -1 if the process or the system call does not exist."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


@contextlib.contextmanager
def descendants(top: int) -> Iterator[list[tuple[int, int]]]:
    """The living processes below `top` as (pid, pidfd). All are collected before any is signalled: the children of a
    process that ends move to another parent. A pid read from /proc may belong to another process by the time it is used.
    So each is pinned by a pidfd (-1 on kernels before 5.3) and counts only if its parent still is one of ours."""
    ours, waiting = {top}, [top]
    found: list[tuple[int, int]] = []
    try:
        while waiting:
            for pid in children_of(waiting.pop()):
                if pid in ours or ((pin := pidfd(pid)) < 0 and _HAS_PIDFD):
                    continue
                found.append((pid, pin))
                parent, ended = _parent(pid)
                if parent in ours:
                    ours.add(pid)
                    waiting.append(pid)
                if parent not in ours or ended:
                    _unpin(found.pop()[1])
        yield found
    finally:
        for _, pin in found:
            _unpin(pin)


def _unpin(pin: int) -> None:
    if pin >= 0:
        os.close(pin)


def _parent(pid: int) -> tuple[int, bool]:
    """The parent of a process, 0 if it is gone, and whether it has ended: a process lives on when only its first thread has."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), fields[0] == b"Z" and int(fields[17]) < 2
    except (OSError, IndexError):
        return 0, True


def children_of(pid: int) -> list[int]:
    """The processes whose parent is `pid`, according to /proc."""
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


def memory_behind(pipe: int) -> int:
    """Bytes of memory of the process below this one that reads from our end `pipe` of a pipe, and of all below it; a page that several
    processes have counts by its share (PSS, proc(5)). 0 if it is not known."""
    name = f"pipe:[{os.fstat(pipe).st_ino}]"
    with descendants(os.getpid()) as found:
        top = next((pid for pid, _ in found if _link(f"/proc/{pid}/fd/0") == name), 0)
    if not top:
        return 0
    with descendants(top) as below:
        return sum(map(memory_of, (top, *(pid for pid, _ in below))))


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def memory_of(pid: int) -> int:
    """Bytes of memory of a process; where its shares are not told, those that it has alone or with others."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
        return sum(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
    with contextlib.suppress(OSError), open(f"/proc/{pid}/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


_OWN_PIDFD = pidfd(os.getpid())
_HAS_PIDFD = _OWN_PIDFD >= 0
_unpin(_OWN_PIDFD)
