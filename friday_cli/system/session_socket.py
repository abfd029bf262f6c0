"""The sockets of sessions: where they are, who may connect, and how a stale one is replaced.

Whoever connects can do what the person can in the chat. So the folder is the user's alone, and both sides ask the kernel
whose process the other one is. Nothing listens on a network.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import FridayError

from .paths import state_dir

if TYPE_CHECKING:
    import socket  # 3 ms that the list of sessions does not need

LONGEST_PATH = 100
"""Bytes of a path that every system takes for a socket; a longer one is named by the handle of its folder."""


def socket_folder(env: Mapping[str, str] | None = None) -> Path:
    """Where the sockets are: not in XDG_RUNTIME_DIR, which cron does not have and which ends with the last login."""
    return state_dir(env) / "sockets"


def listen(session: str, env: Mapping[str, str] | None = None) -> socket.socket:
    """A listening socket of a session that this process owns. One that is there already is of a process that died, because the
    owner has the session's lock. Raises FridayError."""
    folder = socket_folder(env)
    try:
        with _new_socket() as made:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _opened(folder) as handle:
                name = f"{session}.sock"
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=handle)
                made.bind(_address(folder, handle, name))
                os.chmod(name, 0o600, dir_fd=handle)
            made.listen(16)
    except OSError as error:
        raise FridayError(f"No socket can be made in {folder}: {error.strerror or error}.") from None
    return made


def connect(session: str, env: Mapping[str, str] | None = None) -> socket.socket | None:
    """A connection to the process that owns a session; None if nobody listens. Raises FridayError if the socket is not the
    user's."""
    folder = socket_folder(env)
    try:
        with _new_socket() as made, _opened(folder) as handle:
            made.connect(_address(folder, handle, f"{session}.sock"))
            if peer_uid(made) != os.geteuid():
                raise FridayError(f"The socket of session {session[:8]} in {folder} is of another user.")
    except OSError:
        return None
    return made


@contextmanager
def _new_socket() -> Iterator[socket.socket]:
    """A socket that does not block after the block, and is closed if that fails."""
    import socket

    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        yield made
    except BaseException:
        made.close()
        raise
    made.setblocking(False)


def is_there(session: str, env: Mapping[str, str] | None = None) -> bool:
    """Whether a session has a socket; it may be that of a process that died."""
    return os.path.lexists(socket_folder(env) / f"{session}.sock")


def remove(session: str, env: Mapping[str, str] | None = None) -> None:
    """Remove the socket of a session whose lock this process has."""
    with suppress(OSError):
        (socket_folder(env) / f"{session}.sock").unlink()


def sessions(env: Mapping[str, str] | None = None) -> list[str]:
    """The ids of sessions with a socket; that of a process that died may be among them."""
    try:
        return sorted(name.removesuffix(".sock") for name in os.listdir(socket_folder(env)) if name.endswith(".sock"))
    except OSError:
        return []


def peer_uid(connection: socket.socket) -> int:
    """The user of the process at the other end, as the kernel knows it. Raises OSError."""
    import socket

    if sys.platform == "darwin":  # LOCAL_PEERCRED of <sys/un.h>: struct xucred {u_int version; uid_t uid; ...}
        return int(struct.unpack("2I", connection.getsockopt(0, 1, 8))[1])
    return int(struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A handle of the folder, which is made the user's alone if it is open to others, as a command of an agent can make it. Raises
    OSError, and FridayError if it is another user's."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid():
            raise FridayError(f"{folder} is of another user, so no session is reached through it.")
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(handle, 0o700)
        yield handle
    finally:
        os.close(handle)


def _address(folder: Path, handle: int, name: str) -> str:
    path = str(folder / name)
    return path if len(os.fsencode(path)) <= LONGEST_PATH else f"/proc/self/fd/{handle}/{name}"
