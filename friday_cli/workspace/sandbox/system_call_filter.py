"""A filter of system calls (seccomp) for what Landlock does not restrict. The supervisor imports this: standard library
only. A refused call fails with an error; the program continues.

Always refused: changing the resource limits of another process. With the network off: sockets of every kind except local
ones and those of the kernel (netlink), and io_uring, which makes sockets without the system call. A read-only
command can also make no local socket, change no mode, owner, time or attribute of a file, send no device or file system a
command (ioctl) except those of terminals, create nothing in the kernel that outlives it (shared memory, queues, keys), and
change the priority or processors of no other process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from functools import lru_cache
from typing import NamedTuple

_PR_SET_SECCOMP, _MODE_FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38
_LOAD, _AND, _EQUAL, _AT_LEAST, _JUMP, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x05, 0x06
_ALLOW, _FAIL, _ASK = 0x7FFF0000, 0x00050000, 0x7FC00000
_SET_FILTER, _LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_KIND, _STREAM, _SEQPACKET = 0xF, 1, 5
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in the kernel's `struct seccomp_data`."""
_X32 = 0x40000000
"""The first number of a second set of system calls on x86_64."""
_UNIX, _NETLINK = 1, 16
_TRUNC, _ACCESS_MODE, _NO_ACCESS = 0o1000, 3, 3


class _Numbers(NamedTuple):
    """System calls of one architecture; 0 where it does not have one. `architecture` is the kernel's AUDIT_ARCH_*."""

    architecture: int
    socket: int
    prlimit: int
    socketcall: int = 0
    open: int = 0
    openat: int = 0
    ioctl: int = 0
    changes: tuple[int, ...] = ()
    """chmod, chown, utimes, setxattr, removexattr and truncate in all their forms; what creates shared memory, semaphores,
    message queues and keys."""
    scheduling: tuple[int, ...] = ()
    """sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr: the process is the first argument."""
    priority: tuple[int, ...] = ()
    """setpriority and ioprio_set: the process is the second argument."""
    connect: int = 0
    socketpair: int = 0
    seccomp: int = 0
    listen: int = 0
    sends: tuple[tuple[int, int], ...] = ()
    """sendto, sendmsg and sendmmsg, each with the number of the argument that has its flags."""
    executes: tuple[int, ...] = ()
    """execve and execveat."""


class GuardedCalls(NamedTuple):
    """What a guard is handed besides `connect`. `only_port`: it also decides on every address and on `listen`, and there are only TCP
    sockets and those of this machine. `programs`: what is executed. `terminals`: the other end of a new terminal."""

    only_port: bool = False
    programs: bool = False
    terminals: bool = False


_NEW = (452, 463, 466, 469)
"""fchmodat2, setxattrat, removexattrat, file_setattr: the same everywhere."""
_IO_URING_SETUP, _OPENAT2 = 425, 437
_IOCTL_KIND, _OF_TERMINALS = 0xFF00, 0x5400
OPEN_NETWORK = "with `[sandbox] network = true` in your settings it is open"
OTHER_END = 0x5441
"""The ioctl that opens the other end of a new terminal (TIOCGPTPEER)."""
_INET, _INET6, _TCP, _FASTOPEN = 2, 10, 6, 0x20000000
_X86 = _Numbers(
    0xC000003E,
    41,
    302,
    open=2,
    openat=257,
    ioctl=16,
    scheduling=(142, 144, 203, 314),
    priority=(141, 251),
    changes=(
        76,
        90,
        91,
        92,
        93,
        94,
        132,
        188,
        189,
        190,
        197,
        198,
        199,
        235,
        260,
        261,
        268,
        280,
        29,
        64,
        68,
        240,
        248,
        249,
        250,
        *_NEW,
    ),
    connect=42,
    socketpair=53,
    seccomp=317,
    listen=50,
    sends=((44, 3), (46, 2), (307, 3)),
    executes=(59, 322),
)
_GENERIC = _Numbers(
    0xC00000B7,
    198,
    261,
    openat=56,
    ioctl=29,
    scheduling=(118, 119, 122, 274),
    priority=(140, 30),
    changes=(5, 6, 7, 14, 15, 16, 45, 52, 53, 54, 55, 88, 180, 186, 190, 194, 217, 218, 219, *_NEW),
    connect=203,
    socketpair=199,
    seccomp=277,
    listen=201,
    sends=((206, 3), (211, 2), (269, 3)),
    executes=(221, 281),
)
_X86_32 = _Numbers(
    0x40000003,
    359,
    340,
    102,
    ioctl=54,
    connect=362,
    socketpair=360,
    listen=363,
    sends=((369, 3), (370, 2), (345, 3)),
    executes=(11, 358),
)
_ARM_32 = _Numbers(
    0x40000028,
    281,
    369,
    102,
    ioctl=54,
    connect=283,
    socketpair=288,
    listen=284,
    sends=((290, 3), (296, 2), (374, 3)),
    executes=(11, 387),
)
_TABLES = {
    "x86_64": (_X86, _X86_32),
    "aarch64": (_GENERIC, _ARM_32),
    "riscv64": (_GENERIC._replace(architecture=0xC00000F3),),
}
"""By machine: its own system calls, and those of its 32-bit programs."""


@lru_cache(1)
def _machine() -> str:
    return os.uname().machine


def supported() -> bool:
    """Whether there is a filter for this machine."""
    return _machine() in _TABLES


def own_calls() -> dict[int, _Numbers]:
    """The system calls of this machine by the architecture that a call names."""
    return {numbers.architecture: numbers for numbers in _TABLES.get(_machine(), ())}


def prepare() -> None:
    """Make the filters of most commands, which processes that are forked then have."""
    if supported():
        as_bytes(network=False, read_only=False)
        _guard_bytes(asks=True, handed=GuardedCalls(terminals=True))


@lru_cache(8)
def as_bytes(*, network: bool, read_only: bool) -> bytes:
    """The filter of this machine as the kernel reads it, empty without a table."""
    return _encoded(program(_machine(), network=network, read_only=read_only)) if supported() else b""


@lru_cache(8)
def _guard_bytes(*, asks: bool, handed: GuardedCalls) -> bytes:
    """As `as_bytes`, the filter of `guard_calls`."""
    return _encoded(guard_program(_machine(), asks=asks, handed=handed))


def _encoded(steps: list[_Step]) -> bytes:
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def install(*, network: bool, read_only: bool) -> None:
    """Filter the system calls of this process and its future children, which have `no_new_privs`. Does nothing on a machine
    without a table. Raises OSError."""
    code = as_bytes(network=network, read_only=read_only)
    if not code:
        return
    text = ctypes.create_string_buffer(code, len(code))
    shape = struct.pack("@HP", len(code) // 8, ctypes.addressof(text))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_SECCOMP, _MODE_FILTER, shape, 0, 0):
        raise OSError(ctypes.get_errno(), "system call filter")


def guard_calls(handed: GuardedCalls) -> int:
    """Hand each `connect` of this process and its future children, and what `handed` names, to whoever reads the descriptor that is
    returned (`call_guard.CallGuard`), and refuse local sockets that need none to send (datagrams). Where the kernel cannot do that,
    no local socket can be made, and -1 is returned; with `only_port` that is an error. Does nothing on a machine without a table.
    Raises OSError."""
    if not supported():
        return _unguarded(handed)
    number = _TABLES[_machine()][0].seccomp
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    for flags in (_LISTENER | _WAIT_KILLABLE, _LISTENER, 0):
        code = _guard_bytes(asks=bool(flags), handed=handed)
        text = ctypes.create_string_buffer(code, len(code))
        shape = struct.pack("@HP", len(code) // 8, ctypes.addressof(text))
        result: int = libc.syscall(number, _SET_FILTER, flags, shape)
        if result >= 0:
            return result if flags else _unguarded(handed)
    raise OSError(ctypes.get_errno(), "system call filter")


def _unguarded(handed: GuardedCalls) -> int:
    if handed.only_port:
        raise OSError(f"its network cannot be limited to one address here; {OPEN_NETWORK}")
    return -1


def guard_program(machine: str, *, asks: bool, handed: GuardedCalls) -> list[_Step]:
    """The filter of `guard_calls`; `asks`: it hands over `connect` and what is `handed`, else it refuses local sockets."""
    steps: list[_Step] = []
    for numbers in _TABLES[machine]:
        body: list[_Step] = [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _FAIL | errno.ENOSYS)]
        streams = [(1, _KIND, kind, False) for kind in (_STREAM, _SEQPACKET)] if asks else []
        rules: list[_Rule] = [
            (numbers.socket, [(0, _WHOLE, _UNIX, True), *streams], errno.EACCES),
            (_IO_URING_SETUP, [], errno.ENOSYS),
        ]
        if asks:
            rules.append((numbers.socketpair, [(0, _WHOLE, _UNIX, True), *streams], errno.EACCES))
        if numbers.socketcall:
            rules.append((numbers.socketcall, [], errno.EACCES))
        if handed.only_port:
            rules += _only_tcp(numbers)
        body += [step for rule in rules for step in _refuse(*rule)]
        if asks:
            asked = [numbers.connect, *([numbers.listen] if handed.only_port else [])]
            asked += numbers.executes if handed.programs else ()
            for number in asked:
                body += [(_LOAD, 0, 0, _NUMBER), (_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ASK)]
            if handed.terminals and numbers.ioctl:
                body += _refuse(numbers.ioctl, [(1, _WHOLE, OTHER_END, True)], 0)[:-1]
                body.append((_RETURN, 0, 0, _ASK))
        steps += [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, numbers.architecture), (_JUMP, 0, 0, len(body) + 1)]
        steps += [*body, (_RETURN, 0, 0, _ALLOW)]
    return [*steps, (_RETURN, 0, 0, _FAIL | errno.ENOSYS)]


def _only_tcp(numbers: _Numbers) -> list[_Rule]:
    """No socket that can send without `connect`: none but TCP and those of this machine, and no data with the first packet."""
    others = [(0, _WHOLE, family, False) for family in (_UNIX, _NETLINK, _INET, _INET6)]
    rules: list[_Rule] = [(numbers.socket, others, errno.EACCES)]
    for family in (_INET, _INET6):
        here = (0, _WHOLE, family, True)
        rules.append((numbers.socket, [here, (1, _KIND, _STREAM, False)], errno.EACCES))
        rules.append((numbers.socket, [here, (2, _WHOLE, 0, False), (2, _WHOLE, _TCP, False)], errno.EACCES))
    rules += [(number, [(flags, _FASTOPEN, 0, False)], errno.EOPNOTSUPP) for number, flags in numbers.sends]
    return rules


_Step = tuple[int, int, int, int]
"""An instruction of the kernel's BPF: code, instructions to skip if a test is true, if it is false, operand."""
_Condition = tuple[int, int, int, bool]
"""Number of an argument, mask, value, and whether they must be equal (or must differ)."""
_Rule = tuple[int, list[_Condition], int]
"""A system call to refuse: its number, the conditions, the error."""
_WHOLE = 0xFFFFFFFF


def program(machine: str, *, network: bool, read_only: bool) -> list[_Step]:
    """The filter for a machine of the table."""
    own, *others = _TABLES[machine]
    steps: list[_Step] = []
    for numbers in (own, *([] if read_only else others)):
        body: list[_Step] = [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _FAIL | errno.ENOSYS)]
        body += [step for rule in _rules(numbers, network=network, read_only=read_only) for step in _refuse(*rule)]
        steps += [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, numbers.architecture), (_JUMP, 0, 0, len(body) + 1)]
        steps += [*body, (_RETURN, 0, 0, _ALLOW)]
    return [*steps, (_RETURN, 0, 0, _FAIL | errno.ENOSYS if read_only else _ALLOW)]


def _rules(numbers: _Numbers, *, network: bool, read_only: bool) -> list[_Rule]:
    """The system calls to refuse."""
    rules: list[_Rule] = [(numbers.prlimit, [(0, _WHOLE, 0, False)], errno.EPERM)]
    families = [_NETLINK] if read_only else [_NETLINK, _UNIX]
    if read_only or not network:
        rules.append((numbers.socket, [(0, _WHOLE, family, False) for family in families], errno.EACCES))
        rules.append((_IO_URING_SETUP, [], errno.ENOSYS))
        if numbers.socketcall:
            rules.append((numbers.socketcall, [], errno.EACCES))
    if read_only:
        rules += [(number, [], errno.EPERM) for number in numbers.changes]
        rules += [(number, [(0, _WHOLE, 0, False)], errno.EPERM) for number in numbers.scheduling]
        rules += [(number, [(1, _WHOLE, 0, False)], errno.EPERM) for number in numbers.priority]
        rules.append((numbers.ioctl, [(1, _IOCTL_KIND, _OF_TERMINALS, False)], errno.ENOTTY))
        rules.append((_OPENAT2, [], errno.ENOSYS))  # its flags cannot be read here
        for number, flags in (
            (numbers.open, 1),
            (numbers.openat, 2),
        ):
            # truncates a file that is not opened for writing
            for mode in (0, _NO_ACCESS) if number else ():
                rules.append((number, [(flags, _TRUNC | _ACCESS_MODE, _TRUNC | mode, True)], errno.EACCES))
    return rules


def _refuse(number: int, conditions: list[_Condition], error: int) -> list[_Step]:
    """Refuse a system call if all conditions hold."""
    left = 3 * len(conditions) + 1
    steps = [(_LOAD, 0, 0, _NUMBER), (_EQUAL, 0, left, number)]
    for argument, mask, value, equal in conditions:
        left -= 3
        steps += [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), (_AND, 0, 0, mask)]
        steps.append((_EQUAL, 0, left, value) if equal else (_EQUAL, left, 0, value))
    return [*steps, (_RETURN, 0, 0, _FAIL | error)]
