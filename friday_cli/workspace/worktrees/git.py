"""Friday's own git: no program of a repository's configuration runs, nothing waits for a person or for the network.

Two kinds of calls. The few that speak to the user's repository itself (find it, make and remove a worktree) read its
configuration, but neither hooks nor fsmonitor, and none of them touches content. All that reads or writes content runs
in a control folder made for one call: it borrows the repository's objects and ignore lists, takes over a handful of
harmless settings, and knows no filter, hook, driver or alias.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.sanitize import sanitize_line

CALL_S = 120.0
"""How long one call may take."""
END_S = 1.5
"""Between SIGTERM and SIGKILL for one that is to end."""
LET_S = 10.0
"""How long one that changes refs, which takes no time, may end by itself before SIGTERM: where that meets it between making
a lock file and noting it, the file would stay."""
OUTPUT = 256 * 1024 * 1024
"""Bytes one call may print."""
ERRORS = 64 * 1024
"""Bytes of its errors that are kept, the last ones."""
_KEPT = (
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
    "--no-pager", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}",
    "-c", "core.pager=cat", "-c", "core.untrackedCache=false", "-c", "core.splitIndex=false",
    "-c", "submodule.recurse=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
)  # fmt: skip
_TAKEN = ("filemode", "symlinks", "ignorecase", "precomposeunicode", "autocrlf", "eol", "trustctime", "checkstat")
"""Settings under `core.` that say how files become content; no value of them names a program."""
_RAW = "* -text -ident !filter !working-tree-encoding\n"
"""Attributes by which content is what stands in the file, byte for byte."""


class Git:
    """Runs git. `environ` is where its program is looked for. Raises ToolError where there is none."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        program = shutil.which("git", path=environ.get("PATH"))
        if program is None:
            raise ToolError(
                "git was not found, and worktrees need it.", hint="Install git, or go on without isolation."
            )
        self._program = program
        self._environ = {**{name: environ[name] for name in _KEPT if name in environ}, **_QUIET}

    def usual(self, name: str) -> str:
        """Where a list of the user's own stands when no setting names it."""
        home = self._environ.get("XDG_CONFIG_HOME") or os.path.join(self._environ.get("HOME", "/"), ".config")
        return os.path.join(home, "git", name)

    async def __call__(
        self,
        *words: str | Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        data: bytes = b"",
        ok: Collection[int] = (0,),
        cut: int = 0,
    ) -> bytes:
        """What a call prints, of which `cut` bytes are enough (0: all). Raises ToolError with git's own words when it
        does not end with a code in `ok`."""
        code, out, err = await self.ask(*words, cwd=cwd, env=env, data=data, cut=cut)
        if code not in ok and not (cut and len(out) == cut):
            raise ToolError(f"git {words[0]} failed: {said(err) or f'exit {code}'}")
        return out

    async def ask(
        self,
        *words: str | Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        data: bytes = b"",
        cut: int = 0,
    ) -> tuple[int, bytes, str]:
        """Exit code, output and errors of a call. Raises ToolError when it takes too long or prints too much; a
        cancelled call has ended when this returns."""
        refs = words[0] == "update-ref" or words[:2] == ("worktree", "add")
        call = _GitCall(refs, [self._program, *_OPTIONS, *map(str, words)], cwd, {**self._environ, **(env or {})})
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
    """One run of git. It is ended with SIGTERM, on which git takes its lock files away; `refs`: one that changes refs is
    let end by itself first."""

    def __init__(self, refs: bool, argv: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> None:
        self._refs, self._argv, self._cwd, self._environ = refs, argv, cwd, environ
        self._process: asyncio.subprocess.Process | None = None
        self._missed = 0

    async def run(self, data: bytes, cut: int) -> tuple[int, bytes, str]:
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                cwd=self._cwd,
                env=self._environ,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ToolError(f"git cannot be started in {self._cwd}: {reason}.") from None
        if self._missed:
            self._signal(self._missed)
        assert process.stdin
        assert process.stdout
        assert process.stderr
        errors = asyncio.create_task(_tail(process.stderr, ERRORS))
        feeding = asyncio.create_task(_feed(process.stdin, data))
        try:
            out = await _read(process.stdout, cut or OUTPUT)
            if out.more:
                self._signal(signal.SIGTERM)
            if out.more and not cut:
                raise ToolError(f"git printed more than {OUTPUT // 1_000_000} MB.")
        finally:
            code = await process.wait()
            err = await errors
            await feeding
        return code, out.data, err.decode("utf-8", "replace")

    async def stop(self, task: asyncio.Task[tuple[int, bytes, str]]) -> None:
        """End the call, and wait for that even where the waiter is cancelled."""
        later, grace = asyncio.get_running_loop().call_later, LET_S if self._refs else 0.0
        asking = later(grace, self._signal, signal.SIGTERM)
        pressing = later(grace + END_S, self._signal, signal.SIGKILL)
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        asking.cancel()
        pressing.cancel()
        task.exception()

    def _signal(self, number: int) -> None:
        if self._process is None:
            self._missed = number
        elif self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


async def _feed(stdin: asyncio.StreamWriter, data: bytes) -> None:
    try:
        stdin.write(data)
        await stdin.drain()
        stdin.close()
        await stdin.wait_closed()
    except (BrokenPipeError, ConnectionResetError):
        pass  # its exit code tells why it did not read on


class _GitOutput(NamedTuple):
    data: bytes
    more: bool


async def _read(stream: asyncio.StreamReader, most: int) -> _GitOutput:
    """The first `most` bytes of a stream, and whether there were more."""
    pieces, room = [], most
    while piece := await stream.read(1024 * 1024):
        pieces.append(piece[:room])
        if len(piece) > room:
            return _GitOutput(b"".join(pieces), True)
        room -= len(piece)
    return _GitOutput(b"".join(pieces), False)


async def _tail(stream: asyncio.StreamReader, most: int) -> bytes:
    """The last `most` bytes of a stream. It is read to its end: git writes in pieces, the one that tells comes last, and
    nobody may have to wait until it can write."""
    kept = b""
    while piece := await stream.read(most):
        kept = (kept + piece)[-most:]
    return kept


def said(err: str) -> str:
    """The line of git's errors that says what is wrong, made plain."""
    lines = [text for text in err.splitlines() if text.startswith(("fatal:", "error:"))] or err.splitlines()
    return sanitize_line(lines[-1].removeprefix("fatal: ").removeprefix("error: "), 300) if lines else ""


class Repository(msgspec.Struct, frozen=True):
    """A git repository as its content is read. `git_dir` is that of one working tree, `common` what all of them share.

    `settings` are lines for a control folder, `attributes` the user's own list. `keeps_modes`: whether it tells which
    files are programs.
    """

    git_dir: Path
    common: Path
    objects: Path
    form: str
    settings: str
    attributes: str
    keeps_modes: bool

    @classmethod
    async def read(cls, git: Git, git_dir: Path) -> Repository:
        """The repository whose folder is `git_dir`. Raises ToolError when it is none."""
        env = {"GIT_DIR": str(git_dir)}
        words = ("rev-parse", "--git-common-dir", "--git-path", "objects", "--show-object-format")
        told = (await git(*words, cwd=git_dir, env=env)).split(b"\n")[:-1]
        if len(told) != 3:
            raise ToolError(f"{git_dir} cannot be used for worktrees: there is a line break in its name.")
        pattern = rf"^core\.({'|'.join(_TAKEN)}|excludesfile|attributesfile)$"
        listed = await git("config", "-z", "--type=path", "--get-regexp", pattern, cwd=git_dir, env=env, ok=(0, 1))
        taken: dict[str, str] = {}
        for entry in os.fsdecode(listed).split("\0")[:-1]:
            name, equals, value = entry.partition("\n")
            taken[name] = value if equals else "true"
        attributes = taken.pop("core.attributesfile", "") or git.usual("attributes")
        taken["core.excludesfile"] = taken.get("core.excludesfile") or git.usual("ignore")
        rows = [f"\t{name.removeprefix('core.')} = {_quoted(value)}\n" for name, value in taken.items()]
        modes = taken.get("core.filemode", "true").lower() not in ("false", "no", "off", "0")
        common, objects = _path(told[0], git_dir), _path(told[1], git_dir)
        return cls(git_dir, common, objects, told[2].decode(), "".join(rows), attributes, modes)

    @contextlib.contextmanager
    def control(self, tree: Path, index: Path, *, raw: bool, hidden: Sequence[Path] = ()) -> Iterator[dict[str, str]]:
        """The environment in which git reads and writes the content of `tree`, with `index` as its index.

        `raw` takes files as they are, byte for byte; else line ends and encodings are those of the repository's
        attributes. Filters run in neither. `hidden` are folders it must not see.
        """
        with tempfile.TemporaryDirectory(prefix="git-", dir=index.parent) as name:
            folder = Path(name)
            for part in ("refs", "objects", "info"):
                (folder / part).mkdir()
            (folder / "HEAD").write_text("ref: refs/heads/none\n")
            attributes = "" if raw else f"\tattributesFile = {_quoted(self.attributes)}\n"
            extra = "[extensions]\n\tobjectFormat = sha256\n" if self.form == "sha256" else ""
            version = 1 if extra else 0
            text = f"[core]\n\trepositoryFormatVersion = {version}\n\tbare = false\n\tsafecrlf = false\n"
            (folder / "config").write_bytes(os.fsencode(text + self.settings + attributes + extra))
            own = b"" if raw else _content(self.common / "info" / "attributes")
            (folder / "info" / "attributes").write_bytes(_RAW.encode() if raw else own)
            places = [f"/{_escaped(p.relative_to(tree))}/\n" for p in hidden if p.is_relative_to(tree)]
            exclude = _content(self.common / "info" / "exclude") + b"\n" + os.fsencode("".join(places))
            (folder / "info" / "exclude").write_bytes(exclude)
            for shared in {*self.git_dir.glob("sharedindex.*"), *self.common.glob("sharedindex.*")}:
                shutil.copy2(shared, folder)  # where an index is split, its other half is looked for here
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
    """The top and the git folder of the working tree that `root` lies in. Raises ToolError where it lies in none."""
    code, out, err = await git.ask("rev-parse", "--show-toplevel", cwd=root)
    if code == 0 and out.strip():
        folder = await git("rev-parse", "--absolute-git-dir", cwd=root)
        return _path(out, root), _path(folder, root)
    if "not a git repository" in err:
        raise ToolError(
            f"{root} lies in no git repository, so no worktree can be made of it.",
            hint="Go on without isolation, or run `git init` first.",
        )
    if "must be run in a work tree" in err:
        raise ToolError(f"{root} lies in a bare repository, which has no files to make a worktree of.")
    raise ToolError(f"No worktree can be made of {root}: {said(err)}")


def _text(out: bytes) -> str:
    return os.fsdecode(out.removesuffix(b"\n"))


def _path(out: bytes, near: Path) -> Path:
    return Path(os.path.realpath(near / _text(out)))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _quoted(value: str) -> str:
    """A value as it stands in a git configuration file."""
    for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        value = value.replace(sign, written)
    return f'"{value}"'


def _escaped(path: Path) -> str:
    """A path as a pattern of an ignore list that matches it and nothing else."""
    return "".join(f"\\{sign}" if sign in "\\*?[ !#" else sign for sign in path.as_posix())
