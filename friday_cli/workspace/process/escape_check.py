"""Whether a command that should stay in its own folder names one it should not.

It reads the text and nothing more: what is put together while the command runs is not seen. That catches the mistakes
of a willing model, not the tricks of an unwilling one; those take a sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from friday_cli.core.text.lazy_regex import pattern

ELSEWHERE = frozenset(
    (
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT",
        "GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE",
        "GIT_INDEX_FILE", "GIT_REPLACE_REF_BASE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE",
    )
)  # fmt: skip
"""Variables by which git takes another repository than that of the folder it runs in."""
_SWITCH = pattern(r"(?<![\w-])--(?:git-dir|work-tree)(?![\w-])|\bGIT_(?:DIR|WORK_TREE|COMMON_DIR|INDEX_FILE)\s*=")


def stray(command: str, away: Sequence[Path], own: Path, environ: Mapping[str, str]) -> str:
    """What in `command` leads out of the folder `own`: the name of a folder in `away`, or how git is sent to another
    one; "" when nothing is seen."""
    home = environ.get("HOME", "").rstrip("/")
    text = command.replace(str(own), "")
    for folder in away:
        names = [str(folder)]
        if home and folder.is_relative_to(home) and str(folder) != home:
            names += [f"{start}/{folder.relative_to(home)}" for start in ("~", "$HOME", "${HOME}")]
        for name in names:
            if len(folder.parts) > 1 and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text):
                return name
    found = _SWITCH().search(text)
    return found[0].rstrip("= ") if found else ""
