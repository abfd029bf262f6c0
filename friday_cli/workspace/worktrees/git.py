"""Runs git safely: no program of a repository's configuration runs, and nothing waits for user input or the network.

There are two kinds of calls. A few use the user's repository itself (find it, add and remove a worktree): they read its
configuration, but run no hooks or fsmonitor, and do not read or write content. All calls that read or write content run
in a temporary control folder (`Repository.control`), which uses the repository's objects and ignore lists and a few
harmless settings, but no filter, hook, driver or alias.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import PROCESS_LIMIT, ToolError, is_process_limit
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system.own_programs import find_program
from friday_cli.system.project_search import git_ceiling

from ..process.output import unnamed_file

CALL_S = 120.0
"""Seconds that one call may take."""
END_S = 1.5
"""Seconds between SIGTERM and SIGKILL for a call that is ended."""
REFS_GRACE_S = 10.0
"""Seconds that a call which changes refs may take to finish before SIGTERM: between creating a lock file and registering
it for cleanup, a signal would leave the lock file behind."""
OUTPUT = 256 * 1024 * 1024
"""Bytes that one call may print."""
ERRORS = 64 * 1024
"""Bytes of error output that are read, from the end: the decisive line comes last."""
LIST = 16 * 1024 * 1024
"""Bytes of a list of git (`info/exclude`, `info/attributes`) that are read."""
_PASSED = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
)  # fmt: skip
_QUIET = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_AUTHOR_NAME": "Friday",
    "GIT_AUTHOR_EMAIL": "friday@localhost",
    "GIT_COMMITTER_NAME": "Friday",
    "GIT_COMMITTER_EMAIL": "friday@localhost",
}
_OPTIONS = (
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "core.pager=cat",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "core.splitIndex=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
)
_SETTINGS = ("filemode", "symlinks", "ignorecase", "precomposeunicode", "autocrlf", "eol", "trustctime", "checkstat")
"""Settings under `core.` that say how files become content; none of them can name a program."""
_RAW = "* -text -ident !filter !working-tree-encoding\n"
"""Attributes without any conversion between file and content."""


class Git:
    """Runs git, found on the PATH of `environ`, not in `workspace`. Raises ToolError if it is not installed."""

    def __init__(self, environ: Mapping[str, str], workspace: Sequence[Path] = ()) -> None:
        program = find_program("git", environ.get("PATH", os.defpath), workspace)
        if program is None:
            raise ToolError(
                "git was not found, and worktrees need it.", hint="Install git, or continue without isolation."
            )
        self._program = program
        self._environ = {**{name: environ[name] for name in _PASSED if name in environ}, **_QUIET}

    def user_file(self, name: str) -> str:
        """The default path of a user-wide git file such as `ignore`."""
        home = self._environ.get("XDG_CONFIG_HOME") or os.path.join(self._environ.get("HOME", "/"), ".config")
        return os.path.join(home, "git", name)

    async def __call__(self, *words: str | Path, ok: Collection[int] = (0,), cut: int = 0, **options: Any) -> bytes:
        """The output of a call with the `options` of `run`. Raises ToolError with git's error message if the exit code is
        not in `ok`."""
        code, out, err = await self.run(*words, cut=cut, **options)
        if code not in ok and not (cut and len(out) == cut):
            raise ToolError(f"git {words[0]} failed: {error_line(err) or f'exit {code}'}")
        return out

    async def run(
        self,
        *words: str | Path,
        cwd: Path | None = None,
        git_dir: Path | None = None,
        env: Mapping[str, str] | None = None,
        data: bytes = b"",
        cut: int = 0,
    ) -> tuple[int, bytes, str]:
        """Exit code, output (at most `cut` bytes, 0: all) and error output of a call in `cwd` (default: `git_dir`), for the
        repository with the git folder `git_dir` if it is given. `data` is its input. Raises ToolError if it takes too long
        or prints too much. A cancelled call has ended when this returns."""
        refs = words[0] == "update-ref" or words[:2] == ("worktree", "add")
        ceiling = {"GIT_DIR": str(git_dir)} if git_dir else git_ceiling(cwd) if cwd else {}
        environ = {**self._environ, **ceiling, **(env or {})}
        call = _GitCall(refs, [self._program, *_OPTIONS, *map(str, words)], cwd or git_dir, environ)
        task = asyncio.create_task(call.run(data, cut))
        try:
            async with asyncio.timeout(CALL_S):
                return await asyncio.shield(task)
        except TimeoutError:
            await call.stop(task)
            raise ToolError(f"git {words[0]} took longer than {CALL_S:g} s and was stopped.") from None
        except asyncio.CancelledError:
            await call.stop(task)
            raise


class _GitCall:
    """One run of git. It is ended with SIGTERM, on which git removes its lock files; a call that changes refs (`refs`) gets
    `REFS_GRACE_S` first."""

    def __init__(self, refs: bool, argv: Sequence[str], cwd: Path | None, environ: Mapping[str, str]) -> None:
        self._refs, self._argv, self._cwd, self._environ = refs, argv, cwd, environ
        self._process: asyncio.subprocess.Process | None = None
        self._early_signal = 0

    async def run(self, data: bytes, cut: int) -> tuple[int, bytes, str]:
        with unnamed_file() as given, unnamed_file() as errors:
            given.write(data)
            given.seek(0)
            try:
                process = self._process = await asyncio.create_subprocess_exec(
                    *self._argv,
                    cwd=self._cwd,
                    env=self._environ,
                    stdin=given,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                )
            except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: no thread to wait for it
                reason = getattr(error, "strerror", None) or error
                said = f"git cannot be started in {self._cwd}: {reason}."
                raise ToolError(PROCESS_LIMIT if is_process_limit(error) else said) from None
            if self._early_signal:
                self._signal(self._early_signal)
            assert process.stdout
            try:
                out, truncated = await _read(process.stdout, cut or OUTPUT)
                if truncated:
                    self._signal(signal.SIGTERM)
                if truncated and not cut:
                    raise ToolError(f"git printed more than {OUTPUT // 1_000_000} MB.")
            finally:
                code = await process.wait()
            end = os.fstat(errors.fileno()).st_size
            err = os.pread(errors.fileno(), ERRORS, max(end - ERRORS, 0))
        return code, out, err.decode("utf-8", "replace")

    async def stop(self, task: asyncio.Task[tuple[int, bytes, str]]) -> None:
        """End the call and wait for it, even if the caller is cancelled."""
        later, grace = asyncio.get_running_loop().call_later, REFS_GRACE_S if self._refs else 0.0
        terminate = later(grace, self._signal, signal.SIGTERM)
        kill = later(grace + END_S, self._signal, signal.SIGKILL)
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        terminate.cancel()
        kill.cancel()
        task.exception()

    def _signal(self, number: int) -> None:
        if self._process is None:
            self._early_signal = number
        elif self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


async def _read(stream: asyncio.StreamReader, most: int) -> tuple[bytes, bool]:
    """The first `most` bytes of a stream, and whether it had more."""
    pieces, room = [], most
    while piece := await stream.read(1024 * 1024):
        pieces.append(piece[:room])
        if len(piece) > room:
            return b"".join(pieces), True
        room -= len(piece)
    return b"".join(pieces), False


def error_line(err: str) -> str:
    """The line of git's error output that names the problem, sanitized."""
    lines = [text for text in err.splitlines() if text.startswith(("fatal:", "error:"))] or err.splitlines()
    return sanitize_line(lines[-1].removeprefix("fatal: ").removeprefix("error: "), 300) if lines else ""


class Repository(msgspec.Struct, frozen=True):
    """A git repository. `git_dir` is the git folder of one working tree, `common` that of the whole repository, `objects`
    its object folder. `object_format` is sha1 or sha256. `settings` are lines for the configuration of a control folder,
    `attributes` is the user's attributes file. `tracks_modes`: whether git records which files are executable."""

    git_dir: Path
    common: Path
    objects: Path
    object_format: str
    settings: str
    attributes: str
    tracks_modes: bool

    @classmethod
    async def read(cls, git: Git, git_dir: Path) -> Repository:
        """The repository with the git folder `git_dir`. Raises ToolError if it is not valid."""
        words = ("rev-parse", "--git-common-dir", "--git-path", "objects", "--show-object-format")
        shared, stored, object_format, _ = (await git(*words, git_dir=git_dir)).split(b"\n")
        pattern = rf"^core\.({'|'.join(_SETTINGS)}|excludesfile|attributesfile)$"
        listed = await git("config", "-z", "--type=path", "--get-regexp", pattern, git_dir=git_dir, ok=(0, 1))
        settings: dict[str, str] = {}
        for entry in os.fsdecode(listed).split("\0")[:-1]:
            name, equals, value = entry.partition("\n")
            settings[name] = value if equals else "true"
        attributes = settings.pop("core.attributesfile", "") or git.user_file("attributes")
        settings["core.excludesfile"] = settings.get("core.excludesfile") or git.user_file("ignore")
        rows = [f"\t{name.removeprefix('core.')} = {_quoted(value)}\n" for name, value in settings.items()]
        modes = settings.get("core.filemode", "true").lower() not in ("false", "no", "off", "0")
        common, objects = _path(shared, git_dir), _path(stored, git_dir)
        return cls(git_dir, common, objects, object_format.decode(), "".join(rows), attributes, modes)

    @contextlib.contextmanager
    def control(self, tree: Path, index: Path, *, raw: bool, hidden: Sequence[Path] = ()) -> Iterator[dict[str, str]]:
        """The environment in which git reads and writes the content of `tree`, with `index` as its index. `raw` means no
        conversion of files; otherwise the repository's attributes for line ends and encodings apply. Filters never run.
        `hidden` folders are ignored."""
        with tempfile.TemporaryDirectory(prefix="git-", dir=index.parent) as name:
            folder = Path(name)
            for part in ("refs", "objects", "info"):
                (folder / part).mkdir()
            (folder / "HEAD").write_text("ref: refs/heads/none\n")
            attributes = "" if raw else f"\tattributesFile = {_quoted(self.attributes)}\n"
            extra = "[extensions]\n\tobjectFormat = sha256\n" if self.object_format == "sha256" else ""
            text = f"[core]\n\trepositoryFormatVersion = {int(bool(extra))}\n\tbare = false\n\tsafecrlf = false\n"
            (folder / "config").write_bytes(os.fsencode(text + self.settings + attributes + extra))
            own = b"" if raw else _content(self.common / "info" / "attributes")
            (folder / "info" / "attributes").write_bytes(_RAW.encode() if raw else own)
            patterns = [f"/{_escaped(p.relative_to(tree))}/\n" for p in hidden if p.is_relative_to(tree)]
            exclude = _content(self.common / "info" / "exclude") + b"\n" + os.fsencode("".join(patterns))
            (folder / "info" / "exclude").write_bytes(exclude)
            for shared in {*self.git_dir.glob("sharedindex.*"), *self.common.glob("sharedindex.*")}:
                shutil.copy2(shared, folder)  # git looks for the shared part of a split index here
            yield {
                "GIT_DIR": name,
                "GIT_WORK_TREE": str(tree),
                "GIT_INDEX_FILE": str(index),
                "GIT_OBJECT_DIRECTORY": str(self.objects),
                "HOME": name,
                "XDG_CONFIG_HOME": name,
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_ATTR_NOSYSTEM": "1",
            }


async def discover(git: Git, root: Path) -> tuple[Path, Path]:
    """The top and the git folder of the working tree that contains `root`. Raises ToolError if there is none."""
    code, out, err = await git.run("rev-parse", "--absolute-git-dir", "--show-toplevel", cwd=root)
    if code == 0:
        folder, _, top = out.partition(b"\n")
        if top.count(b"\n") != 1:
            raise ToolError(f"{root} cannot be used for worktrees: the name of its repository contains a line break.")
        return _path(top, root), _path(folder, root)
    if "not a git repository" in err:
        raise ToolError(
            f"{root} is not in a git repository, so no worktree can be created.",
            hint="Continue without isolation, or run `git init` first.",
        )
    if "must be run in a work tree" in err:
        raise ToolError(f"{root} is in a bare repository, which has no files for a worktree.")
    raise ToolError(f"No worktree of {root} can be created: {error_line(err)}")


def _path(out: bytes, near: Path) -> Path:
    return Path(os.path.realpath(near / os.fsdecode(out.removesuffix(b"\n"))))


def _content(path: Path) -> bytes:
    """The content of a regular file, b"" for anything else: reading a pipe would block."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(LIST) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


def _quoted(value: str) -> str:
    """A value in the syntax of a git configuration file."""
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        value = value.replace(character, escaped)
    return f'"{value}"'


def _escaped(path: Path) -> str:
    """A pattern for an ignore list that matches only this path."""
    return "".join(f"\\{character}" if character in "\\*?[ !#" else character for character in path.as_posix())
