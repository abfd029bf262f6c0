"""Detects a command that names a folder outside of its worktree.

Paths that the command computes while it runs are not detected. This catches mistakes of a cooperative model; only a sandbox
stops a hostile one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .context import AnalysisContext

_GIT_REDIRECT = re.compile(
    r"(?<![\w-])--(?:git-dir|work-tree)(?![\w-])|\bGIT_(?:DIR|WORK_TREE|COMMON_DIR|INDEX_FILE)\s*="
)


def find(texts: Iterable[str], context: AnalysisContext) -> str:
    """The part of a command's texts that leads out of the folder of `context`, or "". Either a folder in
    `context.away`, or an option or variable that sends git to another repository."""
    text = "\n".join(texts).replace(context.root, "")
    home = context.home.rstrip("/")
    for folder in context.away:
        names = [str(folder)]
        if home and folder.is_relative_to(home) and str(folder) != home:
            names += [f"{start}/{folder.relative_to(home)}" for start in ("~", "$HOME", "${HOME}")]
        for name in reversed(names):
            if len(folder.parts) > 1 and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text):
                return name
    found = _GIT_REDIRECT.search(text)
    return found[0].rstrip("= ") if found else ""
