"""`python -m tests.pythons [NAME...]`: installs Friday for each Python on this machine and uses it as a newcomer would.

Each Python from 3.11 on gets a fresh copy of the project, an empty home and the README's first command, which ends with `friday
demo`. Then `friday ask` and the chat, in a pseudo-terminal, get an answer of a service on the loopback. All of it is done with the
versions of the dependencies that pip chooses, and again with the lowest ones that pyproject.toml allows.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.architecture.test_pages import setup_commands
from tests.benchmarks.tui.terminal import Terminal
from tests.servers.fake_model_server import FakeModelServer, Say, thinking

PROJECT = Path(__file__).parents[1]
FIRST = (3, 11)
"""The oldest Python that pyproject.toml accepts."""
KEPT = re.compile(r"PATH|PIP_\w+|\w+_proxy", re.I)
"""The environment variables that an install gets: pip reaches its index by them."""
ANSWER = "The-answer-is-4711"
PATIENCE_S = 900


class Python(NamedTuple):
    """An interpreter: its version as (3, 13, 0), and its program."""

    version: tuple[int, ...]
    program: str

    @property
    def name(self) -> str:
        return ".".join(map(str, self.version))


def pythons(names: Sequence[str]) -> list[Python]:
    """The Pythons that are named, by program, path or version; without names all of pyenv, uv and PATH. One for each version."""
    found: dict[tuple[int, ...], Python] = {}
    for program in dict.fromkeys(_programs()):
        if (python := _examined(program)) and python.version >= FIRST:
            found.setdefault(python.version, python)
    if not names:
        return sorted(found.values())
    chosen = []
    for name in names:
        python = next((one for one in found.values() if one.name == name), None) or _examined(
            shutil.which(name) or name
        )
        if python is None or python.version < FIRST:
            raise SystemExit(f"{name} is no Python from {FIRST[0]}.{FIRST[1]} on that can make virtual environments.")
        chosen.append(python)
    return chosen


def _programs() -> Iterator[str]:
    """Programs that may be Pythons."""
    path = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    home = Path.home()
    tops = {Path(os.environ.get("PYENV_ROOT") or home / ".pyenv"), *(one.parent for one in path if one.name == "shims")}
    for folder in (*(top / "versions" for top in tops), home / ".local/share/uv/python"):
        yield from sorted(str(one) for one in folder.glob("*/bin/python3"))
    for folder in (one for one in path if one.name != "shims"):
        yield from sorted(str(one) for one in folder.glob("python3*") if re.fullmatch(r"python3(\.\d+)?", one.name))


def _examined(program: str) -> Python | None:
    """The Python behind a program; None if it does not run, or cannot make virtual environments."""
    code = "import ensurepip, sys, venv; print(*sys.version_info[:3])"
    try:
        ran = subprocess.run([program, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return Python(tuple(map(int, ran.stdout.split())), program)


def lowest() -> str:
    """Constraints for pip: each dependency in the lowest version that pyproject.toml allows."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = [re.match(r"([\w.-]+)>=([\d.]+)", text) for text in project["dependencies"]]
    return "".join(f"{bound[1]}=={bound[2]}\n" for bound in bounds if bound)


def tried(python: Python, constraints: str) -> str:
    """Install and use Friday in a temporary folder; "" if all of it works, else what does not."""
    with (
        tempfile.TemporaryDirectory(prefix="friday-python-") as name,
        thinking(lambda turn: Say(ANSWER), "chat") as server,
    ):
        top = Path(name)
        ignored = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", ".hypothesis", "build")
        shutil.copytree(PROJECT, top / "copy", ignore=ignored)
        env = {key: value for key, value in os.environ.items() if KEPT.fullmatch(key)}
        env |= {
            "HOME": str(top / "home"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        env |= {"FRIDAY_HOME": str(top / "friday"), "OWN_API_KEY": "sk-loopback", "PIP_CACHE_DIR": _pip_cache()}
        env |= {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
        for folder in ("home", "friday", "work"):
            (top / folder).mkdir()
        if constraints:
            (top / "constraints.txt").write_text(constraints)
            env["PIP_CONSTRAINT"] = str(top / "constraints.txt")
        settings = f'[providers.own]\nbase_url = "{server.base}"\napi = "chat"\n'
        (top / "friday/config.toml").write_text(settings)
        friday = top / "copy/.venv/bin/friday"
        command = setup_commands()[0].replace("python3", shlex.quote(python.program), 1)
        return (
            _ran(["bash", "-euc", command], env, top / "copy")
            or _ran([str(friday), "ask", "-m", "own/m-1", "hello"], env, top / "work", wanted=ANSWER)
            or _chatted(friday, env, top / "work", server)
        )


def _pip_cache() -> str:
    return os.environ.get("PIP_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pip"
    )


def _ran(argv: list[str], env: dict[str, str], cwd: Path, *, wanted: str = "") -> str:
    """Run a command; "" if it succeeds and prints `wanted`, else what it printed."""
    ran = subprocess.run(
        argv,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    fine = ran.returncode == 0 and wanted in ran.stdout
    return "" if fine else f"{shlex.join(argv)}: exit {ran.returncode}\n{ran.stdout[-1500:]}{ran.stderr[-1500:]}"


def _chatted(friday: Path, env: dict[str, str], cwd: Path, server: FakeModelServer) -> str:
    """Send a message in the chat; "" if the answer of the service is on the screen, else what is."""
    before = len(server.turns)
    with Terminal([str(friday), "-m", "own/m-1"], env, cwd) as terminal:
        try:
            terminal.until("F1 help")
            terminal.type("hello\r")
            terminal.until(ANSWER)
        except (RuntimeError, OSError):  # OSError: the program ended
            shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\s+", " ", terminal.out.decode(errors="replace"))
            return f"the chat sent {len(server.turns) - before} requests and did not show the answer: {shown[-1500:]}"
    return "" if len(server.turns) > before else "the chat: an answer without a request"


def main() -> int:
    """Try the Pythons that were asked for. The exit code is 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.pythons", description=__doc__)
    parser.add_argument("name", nargs="*", help="a program, a path or a version (without any: all that are found)")
    parser.add_argument("--newest", action="store_true", help="not with the lowest versions of the dependencies")
    asked = parser.parse_args()
    failures = 0
    for constraints in ("",) if asked.newest else ("", lowest()):
        for python in pythons(asked.name):
            problem = tried(python, constraints)
            failures += bool(problem)
            which = "lowest allowed" if constraints else "newest allowed"
            print(
                f"| {datetime.date.today()} | {python.name} | {which} | {'fails' if problem else 'works'} |", flush=True
            )
            if problem:
                print(problem, file=sys.stderr, flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
