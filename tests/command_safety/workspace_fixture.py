"""A folder as a person has it, for judging commands in: files, links, secrets, a repository, another one inside."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import Any

from friday_cli.command_safety import AnalysisContext, analyze
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.protocol.errors import ToolError
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost

ENVIRONMENT = {"HOME": "/home/me", "PATH": "/usr/local/bin:/usr/bin:/bin"}


def create_project(folder: Path) -> Path:
    """The folder `ws` below `folder`, with something of everything; next to it what is none of its business."""
    root = folder / "ws"
    for name in ("src/deep", "docs", "tests", "node_modules/.bin", "evil/objects", "evil/refs", "my dir", "odd"):
        (root / name).mkdir(parents=True)
    for name in (
        "README.md",
        "src/a.py",
        "src/b.py",
        "src/deep/c.py",
        "docs/x.md",
        "tests/test_a.py",
        "package.json",
        "Makefile",
        ".env",
        ".env.example",
        "server.pem",
        "my dir/file.txt",
        "x.txt",
        "list.txt",
        "run.sh",
    ):
        (root / name).write_text("text\n")
    (root / "odd/-delete").write_text("")
    (root / "evil/HEAD").write_text("ref: refs/heads/main\n")
    (root / "evil/config").write_text("[core]\n\tfsmonitor = ./run.sh\n")
    (root / ".gitignore").write_text("# keys\n*.pem\n/build/\n")
    (root / ".git").mkdir()
    (root / ".git/config").write_text('[core]\n\tbare = false\n[filter "lfs"]\n\tclean = git-lfs clean -- %f\n')
    outside = folder / "outside"
    outside.mkdir()
    (outside / "key.txt").write_text("secret\n")
    (folder / "ws-evil").mkdir()
    (root / "link.txt").symlink_to(outside / "key.txt")
    (root / "linked").mkdir()
    (root / "linked/out.md").symlink_to(outside / "key.txt")
    return root


class VirtualWorkspace:
    """A workspace that is only a name: what lies in it is told by the text of a path."""

    def __init__(self, root: Path, away: tuple[Path, ...]) -> None:
        self.root, self.roots, self.away = root, (root,), away

    def resolve(self, path: str, *, write: bool = False) -> Path:
        real = Path(os.path.normpath(self.root / path))
        if not real.is_relative_to(self.root):
            raise ToolError(f"{path} lies outside.")
        return real

    def labels(self, path: str) -> tuple[str, ...]:
        return (self.resolve(path).relative_to(self.root).as_posix(),)


def virtual_context(
    root: Path = Path("/nowhere/ws"), *, away: tuple[Path, ...] = (), home: str = "/home/me"
) -> AnalysisContext:
    """A context for tests in which no file counts."""
    paper: Any = VirtualWorkspace(root, away)
    return AnalysisContext(paper, {**ENVIRONMENT, "HOME": home})


def context(root: Path) -> AnalysisContext:
    """The folder as commands see it."""
    return AnalysisContext(LocalWorkspace(root, CommandHost(environ=ENVIRONMENT)), ENVIRONMENT)


def passes(command: str, place: AnalysisContext | Path) -> bool:
    """Whether every part of a command only reads, in a context or in the folder of a project."""
    script = analyze(command, context(place) if isinstance(place, Path) else place)
    return not script.trouble and bool(script.steps) and all(step.read_only for step in script.steps)


def bash(command: str, place: AnalysisContext) -> RuleInput:
    """A call of the tool `bash`, judged."""
    return RuleInput("bash", "run", (command,), analyze(command, place))
