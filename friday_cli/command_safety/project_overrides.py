"""Project files that change which program a name runs, and which files a search skips."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

from friday_cli.core.text.lazy_regex import pattern

from .name_patterns import name_regex

_FILES: dict[str, tuple[str, ...]] = {
    "yarn": (".yarnrc", ".yarnrc.yml", ".corepack.env"), "pnpm": (".npmrc", ".pnpmfile.cjs", "pnpm-workspace.yaml", ".corepack.env"),
    "npm": (".npmrc", ".corepack.env"), "npx": (".corepack.env",), "bundle": (".bundle/config",), "jest": ("node_modules/jest",),
    "cargo": ("rust-toolchain", "rust-toolchain.toml"), "rustc": ("rust-toolchain", "rust-toolchain.toml"),
    "rustup": ("rust-toolchain", "rust-toolchain.toml"), "dotnet": ("global.json",), "poetry": (".poetry",),
    "pytest": ("conftest.py", "test*/conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml"), "tox": ("toxfile.py",),
}  # fmt: skip
"""Files that make a program run project code even for `--version`: yarn's `yarnPath`, npm and pnpm with the project's registry, which npm asks for its newest version, the gems of `bundle`, jest's own copy,
rustup's `path`, the `paths` of .NET, plugins of poetry, pytest (before 9) and tox."""
_SHARED_PATTERN = {"pytest": re.compile(r"\baddopts\b|\[pytest\]|\[tool:pytest\]")}
_SHARED = {"pytest": ("pyproject.toml", "tox.ini", "setup.cfg")}
"""Files that several programs read; they count if they configure this one."""
_TOOL_PATH = pattern(r"\bpath:")
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore", ".git/info/exclude")
_MAX_IGNORE_CHARACTERS = 20_000
"""Length of an ignore file that is read; with a longer one nothing counts as ignored."""
_MAX_BYTES = 256 * 2**10


def override_reason(name: str, directory: str, root: str) -> str:
    """Why `name`, run in `directory`, may run project code, or "". Checks the folders from `directory` up to the top of
    the repository, or up to `root` outside a repository."""
    start = Path(directory or root)
    top = next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), Path(root))
    for folder in (start, *start.parents):
        for file in _FILES.get(name, ()):
            if any(folder.glob(file)):
                return f"{file} may make {name} run code of the project"
        for file in _SHARED.get(name, ()):
            if _SHARED_PATTERN[name].search(_text(folder / file)):
                return f"{file} may make {name} run code of the project"
        if _TOOL_PATH().search(_text(folder / ".tool-versions")):
            return f".tool-versions may make {name} run code of the project"
        if folder == top:
            break
    return ""


def is_ignored_by_rg(root: str, label: str) -> bool:
    """Whether `rg` skips the file `label` (relative to `root`) by default: it is hidden, or a simple ignore line names it, and no negated line may match it."""
    parts = label.split("/")
    ignored = any(part.startswith(".") for part in parts)
    top, in_git = Path(root), (Path(root) / ".git").exists()
    while not (top / ".git").exists() and top != top.parent:
        top = top.parent
        if any(_is_shown(_text(top / file), parts) for file in _IGNORE_FILES):
            return False
    for depth in range(len(parts)):
        folder = Path(root, *parts[:depth])
        for file in _IGNORE_FILES:
            text = _text(folder / file)
            if _is_shown(text, parts[depth:]):
                return False
            if in_git or file != ".gitignore":
                ignored = ignored or any(_line_matches(line.strip(), parts[depth:]) for line in text.split("\n"))
    return ignored


def _is_shown(text: str, parts: list[str]) -> bool:
    """Whether a negated line of an ignore file may match, or the file is too long to be read."""
    lines = (line[1:].strip() for line in text.split("\n") if line.startswith("!"))
    return len(text) > _MAX_IGNORE_CHARACTERS or any(_may_match(line, parts) for line in lines)


def _may_match(line: str, parts: list[str]) -> bool:
    """Whether a negated line of an ignore file may match the path or a folder above it. It shows hidden names, too."""
    wanted = name_regex(line.rstrip("/").rpartition("/")[2])
    return any(wanted.fullmatch(part) for part in (parts[:-1] if line.endswith("/") else parts))


def _line_matches(line: str, parts: list[str]) -> bool:
    """Whether a simple line of an ignore file matches the path or a folder above it."""
    bare = line.rstrip("/")
    if not bare or line.startswith("#") or re.search(r"[\\\[\]]|\*\*", bare):
        return False
    for end in range(1, len(parts) + 1):
        if end == len(parts) and line.endswith("/"):
            continue  # matches folders only
        if "/" in bare:
            if "/".join(parts[:end]) == bare.lstrip("/"):
                return True
        elif fnmatch.fnmatchcase(parts[end - 1], bare):
            return True
    return False


def _text(file: Path) -> str:
    """The first 256 KiB of a file, or "" if it cannot be read."""
    try:
        if not file.is_file():
            return ""
        with file.open("rb") as opened:
            return opened.read(_MAX_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
