"""Opens folders below a root name by name, without following links. Search processes import this: standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""To list a folder."""
WALK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""To go through a folder."""
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def opened_folder(root: str | os.PathLike[str], parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder that `parts` lead to from `root`, without following any link. `make` creates missing
    folders. Raises OSError."""
    fd = os.open(root, WALK)
    try:
        for name in parts:
            if make:
                try:
                    os.mkdir(name, dir_fd=fd)
                except FileExistsError:
                    pass
            below = os.open(name, WALK, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


@contextmanager
def listed(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of a folder; for their status the kernel does not walk its path again. Raises OSError."""
    fd = os.open(folder, FOLDER)
    try:
        with os.scandir(fd) as entries:
            yield entries
    finally:
        os.close(fd)
