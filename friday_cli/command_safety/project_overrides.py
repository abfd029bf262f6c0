"""What a project can put in a folder to change which program a name runs there, and which files a search passes over."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

_FILES: dict[str, tuple[str, ...]] = {
    "yarn": (".yarnrc", ".yarnrc.yml", ".corepack.env"), "pnpm": (".npmrc", ".pnpmfile.cjs", "pnpm-workspace.yaml", ".corepack.env"),
    "npm": (".corepack.env",), "npx": (".corepack.env",),
    "cargo": ("rust-toolchain", "rust-toolchain.toml"), "rustc": ("rust-toolchain", "rust-toolchain.toml"),
    "rustup": ("rust-toolchain", "rust-toolchain.toml"), "dotnet": ("global.json",), "poetry": (".poetry",),
    "pytest": ("conftest.py", "test*/conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml"), "tox": ("toxfile.py",),
}  # fmt: skip
"""Files that make a program run one of the project's when it is only asked for its version: yarn's `yarnPath`, the version of
pnpm with the project's own registry, rustup's `path`, the `paths` of .NET, plugins of poetry, pytest (before 9) and tox."""
_PLUGINS = {"pytest": re.compile(r"\baddopts\b|\[pytest\]|\[tool:pytest\]")}
_SHARED = {"pytest": ("pyproject.toml", "tox.ini", "setup.cfg")}
"""Files of many programs, that count where they speak to this one."""
_ELSEWHERE = re.compile(r"\bpath:")
_LONGEST = 256 * 2**10


def steered(name: str, here: str, root: str) -> str:
    """Why `name`, run in `here`, may be a program of the project, "" when nothing says so.

    Looked at are the folders from `here` up to the top of the repository, or to `root` where there is none.
    """
    place = Path(here or root)
    top = next((folder for folder in (place, *place.parents) if (folder / ".git").exists()), Path(root))
    for folder in (place, *place.parents):
        for file in _FILES.get(name, ()):
            if any(folder.glob(file)):
                return f"{file} may lead {name} to a program of the project"
        for file in _SHARED.get(name, ()):
            if _PLUGINS[name].search(_text(folder / file)):
                return f"{file} may lead {name} to a program of the project"
        if _ELSEWHERE.search(_text(folder / ".tool-versions")):
            return f".tool-versions may lead {name} to a program of the project"
        if folder == top:
            break
    return ""


def unsearched(root: str, label: str) -> bool:
    """Whether `rg` leaves the file `label` (below `root`) out unless it is told otherwise: it is hidden, or a plain line of an
    ignore file names it. Where ignore files take something back nothing is sure, and it counts as searched."""
    parts = label.split("/")
    if any(part.startswith(".") for part in parts):
        return True
    found = False
    for depth in range(len(parts)):
        folder = Path(root, *parts[:depth])
        for file in (".gitignore", ".ignore", ".rgignore"):
            if file == ".gitignore" and not (Path(root) / ".git").exists():
                continue
            for line in _text(folder / file).split("\n"):
                if line.startswith("!"):
                    return False
                found = found or _names(line.strip(), parts[depth:])
    return found


def _names(line: str, parts: list[str]) -> bool:
    """Whether a line of an ignore file, if it is a plain one, speaks of the path or of a folder above it."""
    bare = line.rstrip("/")
    if not bare or line.startswith("#") or re.search(r"[\\\[\]]|\*\*", bare):
        return False
    for end in range(1, len(parts) + 1):
        if end == len(parts) and line.endswith("/"):
            continue  # speaks of folders only
        if "/" in bare:
            if "/".join(parts[:end]) == bare.lstrip("/"):
                return True
        elif fnmatch.fnmatchcase(parts[end - 1], bare):
            return True
    return False


def _text(file: Path) -> str:
    """What a small file says, "" where there is none."""
    try:
        if not file.is_file():
            return ""
        with file.open("rb") as opened:
            return opened.read(_LONGEST).decode("utf-8", errors="replace")
    except OSError:
        return ""
