"""Whether a command that should stay in its own folder names one it should not.

What is put together while the command runs is not seen. That catches the mistakes of a willing model, not the tricks of
an unwilling one; those take a sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .context import AnalysisContext

_SWITCH = re.compile(r"(?<![\w-])--(?:git-dir|work-tree)(?![\w-])|\bGIT_(?:DIR|WORK_TREE|COMMON_DIR|INDEX_FILE)\s*=")


def named(texts: Iterable[str], ground: AnalysisContext) -> str:
    """What in the texts of a command leads out of the folder of `ground`: the name of a folder in `ground.away`, or how
    git is sent to another one; "" when nothing is seen."""
    text = "\n".join(texts).replace(ground.root, "")
    home = ground.home.rstrip("/")
    for folder in ground.away:
        names = [str(folder)]
        if home and folder.is_relative_to(home) and str(folder) != home:
            names += [f"{start}/{folder.relative_to(home)}" for start in ("~", "$HOME", "${HOME}")]
        for name in reversed(names):
            if len(folder.parts) > 1 and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text):
                return name
    found = _SWITCH.search(text)
    return found[0].rstrip("= ") if found else ""
