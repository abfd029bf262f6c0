"""Which files of folders changed, as reported by the kernel (Linux's inotify), so that the folders need not be scanned."""

from __future__ import annotations

import errno
import os
import re
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

SHARE = 4
"""At most this part (one in `SHARE`) of the folders that a user's programs may watch together is watched."""
LOCAL = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "tmpfs", "overlay"))
"""File systems that change only through this kernel, which therefore knows of every change."""
_ATTRIBUTES, _MOVED, _DELETED_SELF, _MOVED_SELF = 0x4, 0x40 | 0x80, 0x400, 0x800
_MADE_OR_GONE, _WRITTEN = 0x100 | 0x200, 0x2 | 0x8
_UNMOUNTED, _OVERFLOW, _REMOVED = 0x2000, 0x4000, 0x8000
_FOLDERS_ONLY, _NO_LINKS, _IS_FOLDER = 0x1000000, 0x2000000, 0x40000000
_WATCHED = _MADE_OR_GONE | _WRITTEN | _ATTRIBUTES | _MOVED | _DELETED_SELF | _MOVED_SELF | _FOLDERS_ONLY | _NO_LINKS
_RULES = (".git", ".gitignore")
_HEAD = struct.Struct("iIII")


class FolderWatch:
    """Collects changes in the folders that were added, without their subfolders. `files` are the paths of entries that may
    have changed, `folders` those of subfolders that were created or removed. `missed` is True once something happened for
    which the folders must be scanned again: a folder moved, ignore rules changed, the kernel's queue was full. A write
    through a name in a folder that is not watched (a hard link) is not seen. Raises OSError where this is not possible."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.files: set[str] = set()
        self.folders: set[str] = set()
        self.missed = False
        if sys.platform != "linux" or not _are_local([os.path.realpath(root) for root in roots]):
            raise OSError(errno.ENOSYS, "changes of these folders cannot be watched")
        import ctypes  # takes milliseconds

        self._roots = frozenset(map(str, roots))
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._errno = ctypes.get_errno
        self._names: dict[int, str] = {}
        self._room = int(Path("/proc/sys/fs/inotify/max_user_watches").read_text("ascii")) // SHARE
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(self._errno(), "inotify")

    def add(self, folder: str) -> None:
        """Watch a folder. Does nothing if it cannot be read. Raises OSError if no more folders can be watched."""
        number = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _WATCHED)
        if number < 0:
            if self._errno() in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
                return
            raise OSError(self._errno(), "inotify")
        if self._names.setdefault(number, folder) != folder or len(self._names) > self._room:
            raise OSError(errno.ENOSPC, "mounted twice, or too many folders")

    def read(self) -> None:
        """Add what happened until now to `files`, `folders` and `missed`."""
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                number, mask, _, size = _HEAD.unpack_from(data, at)
                at += _HEAD.size + size
                self._add_event(number, mask, os.fsdecode(data[at - size : at].rstrip(b"\0")))

    def _add_event(self, number: int, mask: int, name: str) -> None:
        folder = self._names.get(number)
        if mask & _REMOVED:
            self._names.pop(number, None)
        elif folder is None:
            self.missed = self.missed or bool(mask & _OVERFLOW)
        elif mask & (_DELETED_SELF | _MOVED_SELF):  # for another folder, the event of the one above it says more
            self.missed = self.missed or folder in self._roots
        elif mask & _UNMOUNTED or name in _RULES or (mask & _IS_FOLDER and mask & (_ATTRIBUTES | _MOVED)):
            self.missed = True
        elif not mask & _IS_FOLDER:
            self.files.add(f"{folder}/{name}")
        elif mask & _MADE_OR_GONE:
            self.folders.add(f"{folder}/{name}")

    def close(self) -> None:
        """Stop watching."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _are_local(roots: Sequence[str]) -> bool:
    """Whether all folders, and everything mounted below them, are on local file systems."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return False
    mounts = {}
    for line in lines:
        fields, _, rest = line.partition(" - ")
        place = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), fields.split()[4])
        mounts[place.rstrip("/") + "/"] = rest.split(" ", 1)[0]
    for root in roots:
        above = max((place for place in mounts if f"{root}/".startswith(place)), key=len, default="")
        if any(mounts[place] not in LOCAL for place in mounts if place == above or place.startswith(f"{root}/")):
            return False
    return True
