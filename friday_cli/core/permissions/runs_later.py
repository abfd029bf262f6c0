"""Files that programs run later, or that give rights: a change of one needs permission in every mode.

One row for each kind of program. A name is matched at any depth and in any case; `*` stands for characters of one name; a name that
ends in `/` is a folder with all that is in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

ROWS: tuple[tuple[str, str, str], ...] = (
    ("git: hooks, settings with programs", "git-scm.com/docs/git-config, githooks, gitmodules",
              ".git/ .githooks/ .gitmodules .gitconfig .config/git/"),
    ("other version control", "mercurial-scm.org/doc/hgrc.5.html, jj-vcs.dev: config", ".hg/hgrc .hgrc .jj/repo/config.toml"),
    ("Friday", "docs/security.md", ".friday/ .config/friday/ .local/share/friday/ .local/state/friday/ .cache/friday/ .mcp.json"),
    ("other coding agents: settings, hooks, plugins", "the settings page of each",
              ".claude/ .codex/ .cursor/ .gemini/ .opencode/ opencode.json opencode.jsonc .config/opencode/ .qwen/ .kilocode/ .roo/ "
              ".windsurf/ .continue/ .amp/ .crush.json crush.json .aider.conf.yml .goose/"),
    ("editors: tasks, settings of a folder", "code.visualstudio.com/docs/editor/tasks, vimhelp.org: exrc",
              ".vscode/ .vs/ .idea/ .zed/ .fleet/ *.code-workspace .exrc .vimrc .nvimrc .nvim.lua .dir-locals.el .config/nvim/"),
    ("containers for development", "containers.dev/implementors/json_reference", ".devcontainer/ .devcontainer.json"),
    ("hooks of git by other programs", "typicode.github.io/husky, lefthook.dev, pre-commit.com",
              ".husky/ .lefthook/ lefthook*.yml lefthook*.yaml .lefthook*.yml .lefthook*.yaml lefthook*.toml .lefthook*.toml "
              "lefthook*.json .lefthook*.json .pre-commit-config.yaml .pre-commit-config.yml"),
    ("jobs", "docs.github.com/actions, docs.gitlab.com/ci/yaml",
              ".github/workflows/ .github/actions/ .gitea/workflows/ .forgejo/workflows/ .circleci/ .buildkite/ .woodpecker/ "
              ".gitlab-ci.yml .travis.yml .drone.yml .woodpecker.yml .woodpecker.yaml jenkinsfile azure-pipelines.yml "
              "azure-pipelines.yaml bitbucket-pipelines.yml appveyor.yml"),
    ("shells and desktops at their start", "bash(1): INVOCATION, zsh(1): STARTUP FILES, systemd.unit(5)",
              ".envrc .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout "
              ".kshrc .cshrc .tcshrc .inputrc .pam_environment .config/fish/ .config/systemd/ .config/autostart/"),
    ("keys", "ssh_config(5): ProxyCommand", ".ssh/ .gnupg/"),
    ("debuggers", "sourceware.org/gdb: Init File in the Current Directory, lldb.llvm.org: .lldbinit", ".gdbinit .lldbinit"),
    ("tools that pick their programs by a file of the folder",
              "yarnpkg.com/configuration/yarnrc#yarnPath, doc.rust-lang.org/cargo/reference/config.html, mise.jdx.dev/configuration, "
              "pnpm.io/pnpmfile, maven.apache.org/configure.html",
              ".yarnrc.yml .yarnrc .yarn/releases/ .yarn/plugins/ .cargo/config.toml .cargo/config mise.toml .mise.toml mise.local.toml "
              ".config/mise/ .mise/ .pnpmfile.cjs .pnpmfile.mjs .mvn/ gradle/wrapper/ .npmrc"),
    ("programs on an activated PATH", "docs.python.org/3/library/venv.html, docs.npmjs.com: npm exec",
              ".venv/bin/ venv/bin/ .venv/scripts/ venv/scripts/ node_modules/.bin/"),
)  # fmt: skip
"""(What runs or obeys them, the page of its documentation that says so, names.)"""


def _part(name: str) -> str:
    words = "[^/]*".join(re.escape(part) for part in name.rstrip("/").split("*"))
    return f"{words}(?:/.*)?" if name.endswith("/") else words


@cache
def _starred() -> re.Pattern[str]:
    """The names with `*`."""
    names = "|".join(_part(name) for _, _, names in ROWS for name in names.split() if "*" in name)
    return re.compile(f"(?:.*/)?(?:{names})", re.S)  # a folder's name may hold a line end


@cache
def _plain() -> dict[str, tuple[tuple[tuple[str, ...], bool], ...]]:
    """The names without `*` by their first part: the other parts, and whether it is a folder. One expression of all would take longer to
    compile than a command takes to be judged."""
    found: dict[str, list[tuple[tuple[str, ...], bool]]] = {}
    for name in (name for _, _, names in ROWS for name in names.split() if "*" not in name):
        first, *rest = name.rstrip("/").split("/")
        found.setdefault(first, []).append((tuple(rest), name.endswith("/")))
    return {first: tuple(rows) for first, rows in found.items()}


@cache
def deeper_names() -> dict[str, tuple[str, ...]]:
    """The rest of each name that is in a folder with other files, by that folder, as `.github`."""
    found: dict[str, list[str]] = {}
    for name in (name.rstrip("/") for _, _, names in ROWS for name in names.split()):
        folder, slash, rest = name.partition("/")
        if slash:
            found.setdefault(folder, []).append(rest)
    return {folder: tuple(rests) for folder, rests in found.items()}


def is_protected(path: str) -> bool:
    """Whether a change of `path` could run code or grant rights later."""
    parts = (path := path.lower()).split("/")
    for at, part in enumerate(parts, 1):
        for rest, folder in _plain().get(part, ()):
            end = at + len(rest)
            if tuple(parts[at:end]) == rest and (folder or end == len(parts)):
                return True
    return _starred().fullmatch(path) is not None


@cache
def protected_names() -> tuple[frozenset[str], Callable[[str], object]]:
    """What `is_protected` knows of a file or folder by its lower-case name alone, for folders with thousands: names, and what matches
    others."""
    return frozenset(name for name, rows in _plain().items() if any(not rest for rest, _ in rows)), _starred().fullmatch
