"""What lies below the workspace that a command on many files would meet unnamed: links that lead out, secrets, odd names."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Callable, Sequence

import msgspec

from friday_cli.core.permissions.dangerous import is_secret

from .repository import holds_token

MOST = 50_000
"""Names that are looked through; in a larger tree nothing is known for sure."""
MOST_SHY = 10_000
"""As many for a search that passes over what is hidden or ignored, which is what models do all day."""
_OTHERS = frozenset((".git", ".venv", "venv", "node_modules", "site-packages", "vendor"))
"""Folders of other people's work: what looks like a key in them is an example."""
_ODD = re.compile(r"\s(?:\Z|[-'\"\\]|\.\.\Z)")
_ODD_FIRST = re.compile(r"[-'\"\\]")


class DirectoryScan(msgspec.Struct, frozen=True):
    """`links` are links to files outside the workspace, `secrets` files that may hold keys, `odd` names of which xargs
    would make several; `whole` is False where there was too much to see."""

    links: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    whole: bool = True

    def shown(
        self,
        globs: Sequence[str],
        *,
        links: bool,
        parted: bool = False,
        secrets: bool = True,
    ) -> str:
        """Why a program may not be run unseen on all these files whose names match one of `globs` (all, without
        one): links are followed with `links`, blanks divide names with `parted`, contents are printed with `secrets`."""
        if not self.whole:
            return "there are too many files to look through"
        for wanted, paths, why in (
            (links, self.links, "leads out of the workspace"), (secrets, self.secrets, "may hold secrets"),
        ):  # fmt: skip
            for path in paths if wanted else ():
                if not globs or any(
                    fnmatch.fnmatchcase(os.path.basename(path).lower(), glob.lower()) for glob in globs
                ):
                    return f"{path} {why}"
        return f"{self.odd[0]!r} reads as several names" if parted and self.odd else ""


def look(
    root: str,
    here: str,
    inside: Callable[[str], bool],
    under: Sequence[str] = (),
    *,
    deep: bool = True,
    shy: bool = False,
) -> DirectoryScan:
    """What lies below `root`, or below `under` in it, for a command in `here`; `inside` tells whether a real path belongs to
    the workspace. Without `deep` other people's work is passed over, with `shy` hidden folders are; and what that sees of too
    large a tree counts as all of it: asking about each search there would help nobody."""
    links: list[str] = []
    secrets: list[str] = []
    odd: list[str] = []
    seen = 0
    waiting = [os.path.join(root, top) if top != "." else root for top in under] or [root]
    while waiting:
        folder = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        seen += len(entries)
        if seen > (MOST_SHY if shy else MOST):
            return DirectoryScan(tuple(links), tuple(secrets), tuple(odd), whole=shy)
        for entry in entries:
            label = entry.path[len(root.rstrip("/")) + 1 :]
            if _ODD.search(entry.name) or (folder in (root, here) and _ODD_FIRST.match(entry.name)):
                odd.append(label)
            if entry.is_symlink():
                if _leads_out(entry.path, inside):
                    links.append(label)
            elif not shy and entry.name == ".git" and holds_token(f"{entry.path}/config"):
                secrets.append(f"{label}/config")
                continue
            elif entry.is_dir() and ((not deep and entry.name in _OTHERS) or (shy and entry.name.startswith("."))):
                continue
            elif entry.is_dir():
                waiting.append(entry.path)
                continue
            if is_secret(label) and _OTHERS.isdisjoint(label.split(os.sep)):
                secrets.append(label)
    return DirectoryScan(tuple(links), tuple(secrets), tuple(odd))


def _leads_out(path: str, inside: Callable[[str], bool]) -> bool:
    """Whether a link leads to a file of somebody else that is no program."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and not found.st_mode & 0o111 and not inside(os.path.realpath(path))
