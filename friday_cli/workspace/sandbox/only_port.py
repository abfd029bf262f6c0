"""Lets a command reach one port of this machine and nothing else by TCP. The supervisor imports this: standard library only.

A filter of system calls cannot read an address, and Landlock knows ports, but no addresses. So the supervisor (`call_guard`) makes each
connection itself, to the address that it read and judged. Names are not resolved: that needs other sockets, which the filter refuses.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import sys

from .local_sockets import connected, held_below

_LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""
_MAPPED, _SIX = b"\0" * 10 + b"\xff\xff", b"\0" * 15 + b"\x01"
"""What an IPv4 address in one of IPv6 begins with, and the loopback of IPv6."""
_libc = ctypes.CDLL(None, use_errno=True)


def connect(fd: int, family: int, name: bytes, process: int, port: int) -> int:
    """Connect the socket `fd` of a process to the address `name`, if that is `port` of this machine, or one on which a process of the
    same command listens. Returns an error number, 0 for none."""
    address = _address(family, name)
    if address is None or not _is_loopback(address[0]):
        return errno.EACCES
    if address[1] != port:
        # Whoever listens there must be the command itself, all of it: a foreign service may have the port at another address.
        inodes = _listening(process, *address)
        if not inodes or not all(held_below(os.getpid(), [inode]) for inode in inodes):
            return errno.EACCES
    return connected(fd, name)


def listen(fd: int, family: int, backlog: int) -> int:
    """Let the socket `fd` listen, if it is a local one or bound to this machine alone. Returns an error number, 0 for none."""
    if family != socket.AF_UNIX:
        name, size = ctypes.create_string_buffer(128), ctypes.c_uint(128)
        if _libc.getsockname(fd, name, ctypes.byref(size)):
            return ctypes.get_errno()
        address = _address(family, name.raw[: size.value])
        if address is None or not _is_loopback(address[0]):
            return errno.EACCES
    return 0 if _libc.listen(fd, ctypes.c_int(backlog & 0xFFFFFFFF)) == 0 else ctypes.get_errno()


def _address(family: int, name: bytes) -> tuple[bytes, int] | None:
    """The address (4 or 16 bytes) and the port in a `struct sockaddr` of this family; None for another one."""
    size = 4 if family == socket.AF_INET else 16 if family == socket.AF_INET6 else 0
    at = 4 if size == 4 else 8
    if not size or len(name) < at + size or int.from_bytes(name[:2], sys.byteorder) != family:
        return None
    return name[at : at + size], struct.unpack_from("!H", name, 2)[0]


def _is_loopback(address: bytes) -> bool:
    return (
        address.removeprefix(_MAPPED)[:1] == b"\x7f"
        if len(address) == 4 or address.startswith(_MAPPED)
        else address == _SIX
    )


def _listening(process: int, address: bytes, port: int) -> list[int]:
    """The inodes of the sockets that a connection to an address may reach, in the network of a process: those that listen on its port at
    that address or at all of them."""
    found: list[int] = []
    plain = address.removeprefix(_MAPPED)
    wanted = {plain, _MAPPED + plain, bytes(4), bytes(16), _MAPPED + bytes(4)}
    for kind in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{process}/net/{kind}", encoding="ascii") as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        for row in rows:
            host, _, number = row[1].rpartition(":")
            if row[3] == _LISTENS and int(number, 16) == port and _decoded(host) in wanted:
                found.append(int(row[9]))
    return found


def _decoded(host: str) -> bytes:
    """An address of /proc/net/tcp, whose words of four bytes are in the order of the machine."""
    words = (int(host[at : at + 8], 16) for at in range(0, len(host), 8))
    return b"".join(word.to_bytes(4, sys.byteorder) for word in words)
