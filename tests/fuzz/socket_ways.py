"""Random ways of a confined program to a local socket or a port of the person. Run in the sandbox: `socket_ways.py SEED COUNT JSON`,
where JSON has the paths of sockets, an abstract name and a port. Prints one line for each way that got through."""

from __future__ import annotations

import ctypes
import json
import os
import random
import socket
import struct
import sys
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
CONNECT, SENDTO, SENDMMSG, SENDMSG, X32 = 42, 44, 307, 46, 0x40000000
KINDS = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW)
WAYS = (
    "connect",
    "connect",
    "sendto",
    "sendmsg",
    "pair",
    "nonblocking",
    "again",
    "syscall",
    "x32",
    "mmsg",
    "thread",
    "fork",
    "relative",
    "inherited",
)


def spelled(rng: random.Random, path: str, number: int) -> bytes:
    """A path in other words, with links and folders that are made for it."""
    for turn in range(rng.randint(0, 3)):
        name = f"w{number}-{turn}"
        form = rng.choice(
            ("link", "folder", "hard", "move", "cwd", "root", "fd", "dots", "slashes", "absolute", "relative", "task")
        )
        try:
            if form == "link":
                os.symlink(os.path.abspath(path), name)
                path = name
            elif form == "folder":
                os.symlink(os.path.dirname(os.path.abspath(path)), name)
                path = f"{name}/{os.path.basename(path)}"
            elif form == "hard":
                os.link(path, name)
                path = name
            elif form == "move" and not os.path.abspath(path).startswith("/proc"):
                os.rename(path, name)
                os.rename(name, path)
            elif form == "cwd":
                path = "/proc/self/cwd/" + os.path.relpath(path)
            elif form == "root":
                path = "/proc/self/root" + os.path.abspath(path)
            elif form == "task":
                path = f"/proc/self/task/{threading.get_native_id()}/cwd/" + os.path.relpath(path)
            elif form == "fd":
                path = f"/proc/self/fd/{os.open(os.path.dirname(os.path.abspath(path)), os.O_PATH)}/{os.path.basename(path)}"
            elif form == "dots":
                path = "./" * rng.randint(1, 9) + path if not path.startswith("/") else path
            elif form == "slashes":
                path = path.replace("/", "//")
            elif form == "absolute":
                path = os.path.abspath(path)
            else:
                path = os.path.relpath(path)
        except OSError:
            continue
    return os.fsencode(path)


def address(path: bytes) -> bytes:
    return struct.pack("H", socket.AF_UNIX) + path + b"\0"


def tried(rng: random.Random, way: str, kind: int, path: bytes) -> bool:
    """Whether a way got through; OSError if not."""
    if way == "pair":
        return socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b"x", path) > 0
    made = socket.socket(socket.AF_UNIX, kind)
    made.settimeout(0.2)
    if way == "sendto":
        return made.sendto(b"x", path) > 0
    if way == "sendmsg":
        return made.sendmsg([b"x"], [], 0, path) > 0
    if way in ("syscall", "x32", "mmsg"):
        name = address(path)
        buffer = ctypes.create_string_buffer(name, len(name))
        if way == "mmsg":
            data = ctypes.create_string_buffer(b"x", 1)
            vector = struct.pack("PN", ctypes.addressof(data), 1)
            vectors = ctypes.create_string_buffer(vector, len(vector))
            head = struct.pack(
                "PI4xPNPNi4xI4x", ctypes.addressof(buffer), len(name), ctypes.addressof(vectors), 1, 0, 0, 0, 0
            )
            done = LIBC.syscall(SENDMMSG, made.fileno(), ctypes.create_string_buffer(head, len(head)), 1, 0)
        else:
            done = LIBC.syscall(CONNECT | (X32 if way == "x32" else 0), made.fileno(), buffer, len(name))
        return bool(done >= 0)
    if way == "relative":
        before = os.getcwd()
        try:
            os.chdir(os.path.dirname(path) or b".")
            made.connect(os.path.basename(path))
        finally:
            os.chdir(before)
    elif way == "nonblocking":
        made.setblocking(False)
        made.connect(path)
    elif way == "again":
        LIBC.connect(made.fileno(), struct.pack("H", 0) + b"\0" * 14, 16)
        made.connect(path)
    else:
        made.connect(path)
    made.send(b"x")
    return True


def elsewhere(rng: random.Random, way: str, kind: int, path: bytes) -> bool:
    """The same in a thread or in another process."""
    if way == "thread":
        found: list[bool] = []

        def work() -> None:
            try:
                found.append(tried(rng, "connect", kind, path))
            except (OSError, ValueError, OverflowError):
                found.append(False)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found[0]
    child = os.fork()
    if not child:
        try:
            os._exit(0 if tried(rng, "connect", kind, path) else 1)
        except OSError:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def port(rng: random.Random, number: int) -> bool:
    """Whether a port of this machine was reached. A datagram says nothing about that: its receiver is asked."""
    host = rng.choice(("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost", "0.0.0.0"))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, rng.choice((socket.SOCK_STREAM, socket.SOCK_DGRAM)))
    made.settimeout(1)
    if rng.random() < 0.3:
        if made.type == socket.SOCK_STREAM:
            return made.sendto(b"x", socket.MSG_FASTOPEN, (host, number)) > 0
        made.sendto(b"x", (host, number))
        return False
    made.connect((host, number))
    return made.send(b"x") > 0 and made.type == socket.SOCK_STREAM


def main() -> None:
    first, count, given = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    for seed in range(first, first + count):
        rng = random.Random(seed)
        kind, way = rng.choice(KINDS), rng.choice(WAYS)
        words = f"port {given['port']}"
        try:
            if rng.random() < 0.15:
                reached = port(rng, given["port"])
            else:
                path = (
                    b"\0" + given["abstract"].encode()
                    if rng.random() < 0.1
                    else spelled(rng, rng.choice(given["paths"]), seed)
                )
                words = repr(path)
                reached = (elsewhere if way in ("thread", "fork") else tried)(rng, way, kind, path)
        except (OSError, ValueError, OverflowError):
            continue
        if reached:
            print("REACHED", seed, way, kind, words, flush=True)
    print("tried", count)


if __name__ == "__main__":
    main()
