"""Which files and subfolders of a folder a snapshot includes: git's ignore rules, and folders of tools."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from friday_cli.system.gitignore import Level, level_of
from friday_cli.system.project_search import nearest_repository

from ..fs.change_detection import BUILD_FOLDERS, SKIPPED

IGNORED = 64 * 1024
"""Largest ignored file (such as `.env`) that is included, in bytes."""


class FolderRules(NamedTuple):
    """The ignore rules of a folder. `level` is None in a folder that is ignored itself: all of it counts."""

    level: Level | None
    repository: bool

    def skips(self, folder: str, name: str) -> bool:
        """Whether a subfolder is not scanned."""
        if name in SKIPPED or (name in BUILD_FOLDERS and not self.repository):  # no ignore rules
            return True
        return self.level is not None and self.level.hides(folder, True)

    def hides(self, path: str, size: int) -> bool:
        """Whether a file is not included."""
        return self.level is not None and size > IGNORED and self.level.hides(path, False)

    def below(self, folder: str) -> FolderRules:
        return self._replace(level=self.level and self.level.below(folder))


def rules_of(root: Path) -> FolderRules:
    """The rules of a folder that is scanned from its top."""
    level, hidden = level_of(root)
    return FolderRules(None if hidden else level, nearest_repository(root) is not None)


def was_hidden(path: str, size: int, rules: Mapping[str, FolderRules]) -> bool:
    """Whether a file was not included under the rules of an earlier scan, by folder."""
    above, new = os.path.dirname(path), []
    while above not in rules:
        new.append(above)
        if (parent := os.path.dirname(above)) == above:
            return False  # nothing is known of the earlier scan
        above = parent
    found = rules[above]
    return found.hides(path, size) or any(found.skips(folder, os.path.basename(folder)) for folder in reversed(new))
