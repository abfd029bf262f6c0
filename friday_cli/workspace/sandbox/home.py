"""What confined commands can read in a home folder: nothing hidden, except what tools need."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

READABLE = (
    # git, and settings that tools look for in every folder above a project
    ".gitconfig",
    ".gitignore",
    ".gitignore_global",
    ".gitattributes",
    ".config/git",
    ".editorconfig",
    ".tool-versions",
    ".python-version",
    ".node-version",
    ".nvmrc",
    ".ruby-version",
    ".java-version",
    ".clang-format",
    ".clang-tidy",
    # languages, their packages and their build tools
    ".cargo",
    ".rustup",
    ".nvm",
    ".npm",
    ".node-gyp",
    ".volta",
    ".bun",
    ".deno",
    ".yarn",
    ".pnpm-store",
    ".fnm",
    ".asdf",
    ".asdfrc",
    *(f".{name}env" for name in ("py", "rb", "j", "nod")),
    ".conda",
    ".virtualenvs",
    ".rye",
    ".rvm",
    ".gem",
    ".bundle",
    ".sdkman",
    ".jdks",
    ".m2",
    ".gradle",
    ".ivy2",
    ".sbt",
    ".coursier",
    ".konan",
    ".dotnet",
    ".nuget/packages",
    ".ghcup",
    ".cabal",
    ".stack",
    ".opam",
    ".elan",
    ".julia",
    ".juliaup",
    ".mix",
    ".hex/packages",
    ".nimble",
    ".luarocks",
    ".platformio",
    ".espressif",
    ".swiftpm",
    ".nix-profile",
    ".nix-defexpr",
    ".local/state/nix",
    ".terraform.d/plugin-cache",
    ".linuxbrew",
    ".local/bin",
    ".local/lib",
    ".local/share/pipx",
    ".local/share/uv",
    ".local/share/virtualenv",
    ".local/share/virtualenvs",
    ".local/share/fnm",
    ".local/share/pnpm",
    ".local/share/mise",
    ".local/share/rtx",
    ".local/share/corepack",
    ".local/share/pypoetry/venv",
    ".local/share/coursier",
    ".local/share/fonts",
    ".fonts",
    ".config/fontconfig",
    ".config/go",
    ".config/ruff",
    ".config/fd",
    ".config/matplotlib",
    # caches
    ".cache/pip",
    ".cache/uv",
    ".cache/pypoetry",
    ".cache/pre-commit",
    ".cache/go-build",
    ".cache/golangci-lint",
    ".cache/ccache",
    ".cache/sccache",
    ".cache/bazel",
    ".cache/bazelisk",
    ".cache/node",
    ".cache/node-gyp",
    ".cache/yarn",
    ".cache/pnpm",
    ".cache/deno",
    ".cache/composer",
    ".cache/ms-playwright",
    ".cache/Cypress",
    ".cache/electron",
    ".cache/puppeteer",
    ".cache/torch",
    ".cache/huggingface/hub",
    ".cache/huggingface/datasets",
    ".cache/coursier",
    ".cache/conda",
    ".cache/rattler",
    ".cache/zig",
    ".cache/nix",
    ".cache/ruff",
    ".cache/mypy",
    ".cache/fontconfig",
    ".cache/matplotlib",
)
"""Hidden files and folders of a home that tools need. What holds keys in them is in `protected_paths.SECRETS`."""
_SHARED = (".local", ".local/share", ".config", ".cache")
"""Folders with the files of many programs: never shown because one program in them is on PATH."""


def possible_paths(paths: Sequence[str], home: str) -> tuple[str, ...]:
    """Those of `paths` that are not in `home`, or in something that it has: of what tools need and what is secret a home has
    few, and a command asks the kernel for each of its paths."""
    try:
        names = {".", "..", *(name.lower() for name in os.listdir(home or "?"))}  # some file systems ignore the case
    except OSError:
        return tuple(paths)
    top = home.rstrip("/") + "/"
    firsts = ((path, path[len(top) :].partition("/")[0] if path.startswith(top) else "") for path in paths)
    return tuple(path for path, first in firsts if not first or not first.isascii() or first.lower() in names)


def hidden_paths(home: str) -> tuple[str, ...]:
    """The hidden files and folders of a home, except those in `READABLE`. Links are left out: they lead to files that
    have another name."""
    try:
        with os.scandir(home or "?") as entries:
            names = [entry.name for entry in entries if entry.name.startswith(".") and not entry.is_symlink()]
    except OSError:
        return ()
    return tuple(os.path.join(home, name) for name in sorted(set(names).difference(READABLE)))


def readable_paths(environ: Mapping[str, str], home: str) -> tuple[str, ...]:
    """Paths in a home that commands can read though what is around them is hidden: `READABLE`, and where the programs
    on PATH are."""
    found = [os.path.join(home, name) for name in READABLE]
    for folder in environ.get("PATH", "").split(":"):
        if folder.startswith(home.rstrip("/") + "/"):
            found.append(_installation(folder.rstrip("/"), home))
    return tuple(dict.fromkeys(found))


def _installation(folder: str, home: str) -> str:
    """The folder of an installation whose programs are in `folder`: `~/.x/versions/3` for `~/.x/versions/3/bin`."""
    above, name = os.path.split(folder)
    within = os.path.relpath(above, home)
    known = within in READABLE or (not (within.startswith(".") and "/" not in within) and within not in _SHARED)
    return above if name in ("bin", "sbin", "shims", "condabin") and known and within != "." else folder
