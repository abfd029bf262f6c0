"""Answers the system calls that the filter of a confined command hands over. The supervisor imports this: standard library only.

A filter cannot read what an argument points to. So for `connect` and `listen` the supervisor does the work itself, on its own copy of
the command's socket and of the address: nothing can be exchanged meanwhile. It opens the other end of a terminal that the command has
made, which Landlock does not let it open by name. Of programs that are executed it only reads the arguments, and they run in any case:
another thread may change them meanwhile, so this is a record and no protection. (Reference: seccomp_unotify(2).)
"""

from __future__ import annotations

import _thread  # `threading` runs code in each process that is forked: 0.3 ms
import contextlib
import ctypes
import errno
import os
import select
import socket
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from . import local_sockets, only_port
from .plan import SandboxPlan
from .system_call_filter import OTHER_END, own_calls

_RECEIVE, _SEND, _IS_VALID, _ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
"""The ioctls of a listener: SECCOMP_IOCTL_NOTIF_RECV, _SEND, _ID_VALID, _ADDFD."""
_CONTINUE, _ADD_AND_SEND = 1, 2
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_SO_DOMAIN = 39
_LONGEST = 128
"""Bytes of an address (struct sockaddr_storage)."""
_PTMX = os.makedev(5, 2)
_WIDE = 0x80000000
"""The bit of an architecture whose addresses have 8 bytes."""
RECORDED, WORDS, WORD_BYTES, ABOVE = 5_000, 64, 4_096, 12
"""Programs of a command that are recorded, words of each, bytes of a word, and processes above it that are named."""
_libc = ctypes.CDLL(None, use_errno=True)


class _GuardedCall(NamedTuple):
    id: int
    thread: int
    number: int
    architecture: int
    arguments: tuple[int, int, int]


class CallGuard:
    """Answers the calls of one confined command with the sandbox `plan`. `listener` comes from its filter; `launcher` is the process above
    the supervisors of all confined commands. `executed(pid, above, words)` gets each program that is executed, with the numbers of the
    processes above it; it is called in any thread."""

    def __init__(
        self,
        listener: int,
        launcher: int,
        plan: SandboxPlan,
        executed: Callable[[int, Sequence[int], Sequence[str]], object],
    ) -> None:
        self.listener = listener
        self._top = os.getpid() if plan.only_port else launcher
        """Below this process other confined commands may listen: only the command's own where its network is limited."""
        self._plan, self._executed = plan, executed
        self._numbers = own_calls()
        self._count = 0

    def serve(self) -> bool:
        """Take one call and answer it in a thread. False if no process of the command is left."""
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        if not any(event & select.POLLIN for _, event in poll.poll(0)):
            return False
        given = ctypes.create_string_buffer(80)
        if _libc.ioctl(self.listener, ctypes.c_ulong(_RECEIVE), given):
            return True  # the process was killed meanwhile
        ident, thread, _, number, architecture, _, *arguments = struct.unpack_from("=QIIiIQQQQ", given.raw)
        call = _GuardedCall(ident, thread, number, architecture, (arguments[0], arguments[1], arguments[2]))
        _thread.start_new_thread(self._answer, (call,))
        return True

    def _answer(self, call: _GuardedCall) -> None:
        error, flags = 0, 0
        try:
            numbers = self._numbers[call.architecture]
            if call.number in numbers.executes:
                flags = _CONTINUE
                self._record(call, call.arguments[1 if call.number == numbers.executes[0] else 2])
            elif call.number == numbers.listen:
                error = self._on_socket(call, lambda fd, family: only_port.listen(fd, family, call.arguments[1]))
            elif call.number == numbers.ioctl:
                if (error := self._open_other_end(call)) == 0:
                    return  # it is answered
            else:
                error = self._connect(call)
        except OSError as failed:
            error = failed.errno or errno.EACCES
        except Exception:
            error = errno.EACCES
        reply = struct.pack("=QqiI", call.id, 0, 0 if flags else -error, flags)
        _libc.ioctl(self.listener, ctypes.c_ulong(_SEND), reply)

    # ---- sockets -----------------------------------------------------------------

    def _connect(self, call: _GuardedCall) -> int:
        """Connect a socket of a thread to the address in its memory. Returns an error number, 0 for none."""
        _, address, size = call.arguments
        if size > _LONGEST:
            return errno.EINVAL
        with _opened(os.open(f"/proc/{call.thread}/mem", os.O_RDONLY | os.O_CLOEXEC)) as memory:
            name = os.pread(memory, size, address)

        def connect(fd: int, family: int) -> int:
            if family == socket.AF_UNIX:
                return local_sockets.connect_local(fd, name, call.thread, self._top, self._plan.sockets)
            if self._plan.only_port:
                return only_port.connect(fd, family, name, call.thread, self._plan.only_port)
            return local_sockets.connected(fd, name)

        return self._on_socket(call, connect)

    def _on_socket(self, call: _GuardedCall, act: Callable[[int, int], int]) -> int:
        """What `act` returns for our copy of the socket in the first argument, and its family."""
        with self._copied(call) as ours:
            # Not through Python's socket object: closing that would be fine, but it would guess a family.
            value, size = ctypes.c_int(), ctypes.c_uint(4)
            _checked(_libc.getsockopt(ours, socket.SOL_SOCKET, _SO_DOMAIN, ctypes.byref(value), ctypes.byref(size)))
            return act(ours, value.value)

    @contextlib.contextmanager
    def _copied(self, call: _GuardedCall) -> Iterator[int]:
        """Our copy of the descriptor in the first argument of a call. Raises OSError."""
        with _opened(_checked(_libc.syscall(_PIDFD_OPEN, _leader(call.thread), 0))) as pidfd:
            ours = _checked(_libc.syscall(_PIDFD_GETFD, pidfd, ctypes.c_int(call.arguments[0] & 0xFFFFFFFF), 0))
        with _opened(ours):
            if _libc.ioctl(self.listener, ctypes.c_ulong(_IS_VALID), struct.pack("=Q", call.id)):
                raise OSError(errno.EINTR, "it ended, and its number may be that of another process")
            yield ours

    # ---- terminals ---------------------------------------------------------------

    def _open_other_end(self, call: _GuardedCall) -> int:
        """Give the process the other end of its own terminal, which never becomes ours. Returns an error number, 0 if it has it."""
        with self._copied(call) as ours:
            facts = os.fstat(ours)
            if not stat.S_ISCHR(facts.st_mode) or facts.st_rdev != _PTMX:
                return errno.ENOTTY
            wanted = call.arguments[2] & (os.O_ACCMODE | os.O_NONBLOCK)
            with _opened(_checked(_libc.ioctl(ours, OTHER_END, wanted | os.O_NOCTTY | os.O_CLOEXEC))) as other:
                inherited = call.arguments[2] & os.O_CLOEXEC
                given = struct.pack("=QIIII", call.id, _ADD_AND_SEND, other, 0, inherited)
                return 0 if _libc.ioctl(self.listener, ctypes.c_ulong(_ADD_DESCRIPTOR), given) >= 0 else errno.EIO

    # ---- programs ----------------------------------------------------------------

    def _record(self, call: _GuardedCall, words: int) -> None:
        """Report a program that is executed, whose list of words is at an address."""
        self._count += 1
        if self._count > RECORDED:
            return
        wide = 8 if call.architecture & _WIDE else 4
        with _opened(os.open(f"/proc/{call.thread}/mem", os.O_RDONLY | os.O_CLOEXEC)) as memory:
            table = os.pread(memory, wide * WORDS, words)
            places = [int.from_bytes(table[at : at + wide], "little") for at in range(0, len(table) - wide + 1, wide)]
            texts = [_text(memory, place) for place in places[: places.index(0) if 0 in places else None]]
        pid = _leader(call.thread)
        self._executed(pid, _above(pid), texts)


def _text(memory: int, at: int) -> str:
    """The text at an address: what can be read of it."""
    data = b""
    while len(data) < WORD_BYTES and b"\0" not in data:
        place = at + len(data)
        try:  # to the end of a page: the next one may not exist
            piece = os.pread(memory, min(4096 - place % 4096, WORD_BYTES - len(data)), place)
        except OSError:
            break
        if not piece:
            break
        data += piece
    return data.partition(b"\0")[0].decode("utf-8", "replace")


def _above(pid: int) -> list[int]:
    """The processes above one, the nearest first."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        while len(found) < ABOVE and pid != os.getpid():
            with open(f"/proc/{pid}/stat", "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
            found.append(pid)
    return found


@contextlib.contextmanager
def _opened(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


def _leader(thread: int) -> int:
    with open(f"/proc/{thread}/status", "rb") as file:  # as text it would load a codec in the process of each command
        return int(next(line for line in file if line.startswith(b"Tgid:")).split()[1])


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
