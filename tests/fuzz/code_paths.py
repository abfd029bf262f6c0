"""Files that programs run later, at random places of a project and named at random."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

TOP = (
    "",
    "",
    "sub",
    "sub/deep",
    "packages/a b",
    "vendor/lib",
    "vendor/lib/inner",
    "ignored",
    "ignored/x",
    "build",
    "wörk",
    "linked-target",
)
"""Folders of the project: `vendor/lib` and `ignored/x` are repositories of their own; git ignores `ignored` and `build`."""
NAMES = (
    ".git/hooks/pre-commit", ".git/hooks/post-checkout", ".git/config", ".git/info/attributes", ".githooks/pre-push", ".gitmodules", ".hg/hgrc", ".friday/config.toml", ".friday/hooks.json",
    ".mcp.json", ".claude/settings.json", ".claude/commands/x.md", ".codex/config.toml", ".cursor/mcp.json", ".gemini/settings.json", ".opencode/plugin/x.ts", "opencode.json", ".vscode/tasks.json", ".vscode/deep/er/x",
    ".idea/workspace.xml", "x.code-workspace", ".exrc", ".dir-locals.el", ".devcontainer/devcontainer.json", ".devcontainer.json", ".husky/pre-commit", ".lefthook.yml", "lefthook-local.yml", "lefthook.toml", ".pre-commit-config.yaml",
    ".github/workflows/ci.yml", ".github/actions/a/action.yml", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile", "azure-pipelines.yml", ".envrc", ".bashrc", ".profile", ".zshrc", ".gdbinit", ".lldbinit", ".yarnrc.yml",
    ".yarn/releases/yarn.cjs", ".cargo/config.toml", "mise.toml", ".pnpmfile.cjs", ".mvn/extensions.xml", "gradle/wrapper/gradle-wrapper.properties", ".npmrc", ".venv/bin/python", "venv/bin/activate", "node_modules/.bin/tsc",
)  # fmt: skip


def build(root: Path) -> None:
    """Make the folders, with two repositories in the project, git-ignored folders, and links."""
    for folder in TOP:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for repository in ("", "vendor/lib", "ignored/x"):
        subprocess.run(["git", "init", "-q", str(root / repository)], check=True, capture_output=True)
    (root / ".gitignore").write_text("ignored/\nbuild/\n.vscode/\n.idea\n*.local\nnode_modules\n.venv\n.envrc\n")
    for name, target in {
        "link": "linked-target",
        "up": "sub/..",
        "g": ".git",
        "sub/top": "..",
        "v": "vendor/lib/.git/hooks",
    }.items():
        (root / name).symlink_to(target)


def path(rng: random.Random) -> str:
    """A file, relative to the project."""
    return os.path.join(rng.choice(TOP), rng.choice(NAMES))


def spelled(rng: random.Random, name: str, root: Path) -> str:
    """The same file in other words: other case, `..`, links of the project, absolute, doubled slashes."""
    if rng.random() < 0.2 and "hooks" not in name:
        name = "".join(rng.choice((c.upper(), c)) for c in name)
    for _ in range(rng.randint(0, 2)):
        form = rng.choice(
            ("./{n}", "sub/../{n}", "up/{n}", "sub/top/{n}", "{n}", "up/sub/top/{n}", "sub/deep/../../{n}")
        )
        name = form.format(n=name)
    if name.startswith(".git/") and rng.random() < 0.5:
        name = f"g/{name.removeprefix('.git/')}"
    name = name.replace("linked-target/", rng.choice(("link/", "linked-target/")))
    name = name.replace("/", rng.choice(("/", "/", "/", "//", "/./")))
    return f"{root}/{name}" if rng.random() < 0.25 else name
