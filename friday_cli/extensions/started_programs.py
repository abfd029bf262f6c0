"""What the hooks and MCP servers of a project run: the files that their text names, the files that those load, and whether the
text says all of it."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from friday_cli.command_safety.readonly_programs import INTERPRETERS, SHELLS, word_set
from friday_cli.system.paths import text_of

UNCHECKED = "what it runs is not checked"
"""What the trust question says of a program whose text does not say what it runs."""
MOST_LOADED, MOST_BYTES = 100, 1_000_000
"""Files that a script is followed to, and bytes of each that are read."""
_PROJECT_DIR = re.compile(r"\$\{(?:CLAUDE|FRIDAY)_PROJECT_DIR\}|\$(?:CLAUDE|FRIDAY)_PROJECT_DIR\b")
_SHELL_SIGNS = re.compile(r"[\s;&|()<>`'\"=]+")
_PLAIN = word_set("mktemp mkdir touch tee logger notify-send curl cp mv rm ln chmod")
"""Programs that run no other, besides those that only read."""
_REDIRECTION, _GIT = re.compile(r"[&\d]*>"), re.compile(r"git\b")
"""A step that only opens a file; and git, whose settings name programs."""
_PYTHON, _FLAGS = re.compile(r"python[\d.]*"), re.compile(r"-[uBIsESOq]+")
"""Options of Python that name no program; those of others may (`sh -s`, `perl -I x`)."""
_LOADS = re.compile(
    r"^[ \t]*from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]+(?P<names>[\w, \t(]+)|^[ \t]*import[ \t]+(?P<modules>[\w., \t]+)"
    r"|(?:^|[;&|])[ \t]*(?:\.|source)[ \t]+(?P<sourced>[^\n;&|]+)"
    r"|(?:\brequire\(|\bfrom|\bimport\(?)\s*['\"](?P<required>\.[^'\"\n]+)['\"]",
    re.M,
)
"""How Python, shells and JavaScript name another file."""
_STEERING = re.compile(
    r"(?:PATH|LD_|DYLD_|PYTHON|NODE_|BASH_ENV|ENV$|RUBY|PERL5|JAVA_|CLASSPATH|NPM_|npm_|UV_|DENO_|BUN_)"
)
"""Variables that name code for a program."""
_JAVASCRIPT = ("", ".js", ".mjs", ".cjs", ".ts", ".json", "/index.js")


class ProgramText(NamedTuple):
    """A program as a project's file has it: a shell command, or with `args` a program and its arguments."""

    command: str
    args: Sequence[str] | None = None

    def words(self) -> Iterator[str]:
        """The words, and their parts between the signs of a shell."""
        try:
            words = [*(shlex.split(self.command) if self.args is None else [self.command]), *(self.args or ())]
        except ValueError:
            words = self.command.split()
        for word in words:
            yield word
            yield from filter(None, _SHELL_SIGNS.split(word))


def scripts_of(
    program: ProgramText, root: Path, trusted: Mapping[str, str], *, project: Path | None = None
) -> Iterator[tuple[str, str]]:
    """The files below `root` that a program's text names, also in shell text inside of it (`sh -c "cd x; ./a.sh"`), and those that
    they load as far as that can be seen. Relative to `root`, with the sha256 that is trusted ("" for none). `project` is what the
    variables of the project's folder mean (None: `root`). Blocks."""
    folder = text_of(project or root)
    named = (_PROJECT_DIR.sub(lambda _: folder, word) for word in program.words())
    waiting = [path for word in named if (path := _file_below(root, text_of(root), word))]
    seen: dict[str, None] = {}
    while waiting and len(seen) < MOST_LOADED:
        path = waiting.pop(0)
        if path not in seen:
            seen[path] = None
            waiting += _loaded(path, root)
    for path in seen:
        name = os.path.relpath(path, root)
        yield name, trusted.get(name, "")


def is_unchecked(program: ProgramText, root: Path) -> bool:
    """Whether the text of a project's program does not say which files it runs: a word that is only known when it runs, a program
    that picks others (`make`, `npx`, `python -m`), or one that is not known here. Blocks."""
    named = {name for name, _ in scripts_of(program, root, {})}
    if program.args is not None:
        return not _runs_named([program.command, *program.args], root, named)
    from friday_cli.command_safety import analyze  # loads the parser of shells
    from friday_cli.command_safety.context import NoFiles

    text = _PROJECT_DIR.sub(lambda _: shlex.quote(text_of(root)), program.command)
    found = analyze(text, NoFiles())
    programs = [
        step for step in found.steps if not (step.read_only or _REDIRECTION.match(step.raw)) or _GIT.match(step.text)
    ]
    moves = any(step.text.split(" ", 1)[0] in ("cd", "pushd", "popd") for step in found.steps)
    if found.dynamic_program or (programs and (moves or "PWD" in text or "~" in text)):
        return True
    try:
        return not all(_runs_named(shlex.split(step.text), root, named) for step in programs)
    except ValueError:
        return True


def runs_elsewhere(environ: Mapping[str, str], cwd: str) -> bool:
    """Whether the environment or the folder of a server decides what it runs."""
    return cwd not in ("", ".") or any(_STEERING.match(name) for name in environ)


def _runs_named(words: list[str], root: Path, named: set[str]) -> bool:
    """Whether a command runs a file of the project that its text names, or nothing of the project."""
    name = os.path.basename(words[0]) if words else ""
    operands = list(words[1:])
    while operands and _PYTHON.fullmatch(name) and _FLAGS.fullmatch(operands[0]):
        operands.pop(0)
    if INTERPRETERS.fullmatch(name) or name in SHELLS or name in ("source", "."):
        words = operands
        if not words or words[0].startswith("-"):
            return False
        path = os.path.normpath(os.path.join(root, words[0]))
        return os.path.relpath(path, root) in named or (os.path.isabs(words[0]) and _is_elsewhere(path, root))
    if "/" in words[0]:
        return os.path.relpath(os.path.normpath(os.path.join(root, words[0])), root) in named
    return name in _PLAIN


def _is_elsewhere(path: str, root: Path) -> bool:
    """Whether an absolute path is a file that no agent writes: not of the project, not a temporary one, and not one that means something
    else in each process (`/proc/self/cwd`)."""
    real = os.path.realpath(path)
    changing = [os.path.realpath(one) for one in (root, tempfile.gettempdir(), "/tmp", "/var/tmp", "/proc", "/dev")]
    below = any(
        name.startswith(f"{folder.rstrip('/')}/")
        for name in (path, real)
        for folder in (text_of(root), "/proc", "/dev", *changing)
    )
    return not below and os.path.isfile(path)


def _file_below(root: Path, folder: str, name: str) -> str:
    """The path of a regular file below `root`, named from `folder`; "" if there is none."""
    path = os.path.normpath(os.path.join(folder, name))
    inside = path.startswith(f"{text_of(root).rstrip('/')}/") and "\0" not in path
    return path if inside and os.path.isfile(path) else ""


def _loaded(path: str, root: Path) -> list[str]:
    """The files below `root` that a script names in the ways of Python, shells and JavaScript, and those beside a script of Python that
    take the place of a module of its library: these are loaded whatever it names."""
    own, top = os.path.dirname(path), text_of(root)
    try:
        with open(path, "rb") as file:
            text = file.read(MOST_BYTES).decode("utf-8", "replace")
        python = path.endswith(".py") or "python" in text.partition("\n")[0]
        beside = sorted(os.listdir(own)) if python else []
    except OSError:
        return []
    found = (
        _file_below(root, folder, name)
        for match in _LOADS.finditer(text)
        for name in _names(match)
        for folder in (own, top)
    )
    library = (
        _file_below(root, own, f"{name}{end}")
        for name in beside
        if name.split(".")[0] in sys.stdlib_module_names
        for end in ("", "/__init__.py")
    )
    return [name for name in (*found, *library) if name]


def _names(match: re.Match[str]) -> Iterator[str]:
    """The names of the files that one statement may mean."""
    given = match.groupdict()
    modules = [part.split(" as ")[0].strip() for part in (given["modules"] or "").split(",")]
    if given["module"]:
        module = given["module"].lstrip(".")
        parts = [part.split(" as ")[0].strip(" \t(") for part in (given["names"] or "").split(",")]
        modules += [module, *(f"{module}.{part}".strip(".") for part in parts)]
    for module in filter(None, modules):
        name = module.replace(".", "/")
        yield from (f"{name}.py", f"{name}/__init__.py")
    if given["sourced"]:
        word = given["sourced"].strip().split("#")[0].strip()
        yield re.sub(r"^.*[)}\"']/|[\"']|^\$\w+/", "", word).split()[0] if word.strip("\"'") else ""
    if given["required"]:
        yield from (given["required"] + end for end in _JAVASCRIPT)
