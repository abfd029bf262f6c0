"""Detects which sandbox works on this machine, by confining a program once; the result is cached."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from friday_cli import __version__
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.text.known_keys import without_keys
from friday_cli.system import cache_file
from friday_cli.system.own_programs import find_program

from . import SandboxKind

if TYPE_CHECKING:
    from .plan import SandboxPlan

Wanted = Literal["auto", "bubblewrap", "landlock", "seatbelt", "none"]
PROBE_S = 10.0
"""Seconds that the test of a sandbox may take."""
KEPT = 8
"""Results in the cache: for other settings, programs, namespaces and rights."""
_LANDLOCK = """\
import os, sys
sys.path.append(sys.argv[1])
from friday_cli.workspace.sandbox import landlock
from friday_cli.workspace.sandbox.plan import SandboxPlan
landlock.restrict(SandboxPlan("landlock", "", sys.argv[2], "/", False, (sys.argv[2],)))
open(os.path.join(sys.argv[2], "inside"), "w").close()
try:
    open(os.path.join(sys.argv[2], "..", "friday-probe-outside"), "x").close()
except PermissionError:
    print(landlock.version())
"""


class SandboxChoice(msgspec.Struct, frozen=True):
    """A sandbox that works here: its `program`, its version (`detail`), and `why` no better one is used. `read_only_kind` is the kind
    for read-only commands: Landlock where it works, because it costs least and alone prevents that a file of the
    folder is executed."""

    kind: SandboxKind
    program: str = ""
    detail: str = ""
    why: str = ""
    read_only_kind: SandboxKind = "none"

    @property
    def abi(self) -> int:
        """The version of Landlock, 0 for another kind."""
        return int(self.detail) if self.kind == "landlock" else 0


def detect_sandbox(
    wanted: Wanted, environ: Mapping[str, str], *, cache: Path | None = None, workspace: Sequence[Path] = ()
) -> SandboxChoice:
    """The sandbox `wanted`, or with `auto` the best that works. `cache` is the folder for the result, without which this
    blocks for some milliseconds. No program of a `workspace` is used. Raises UsageError if a kind other than `auto` and `none` is wanted and does not work."""
    if wanted == "none":
        return SandboxChoice("none", why="switched off in the settings")
    path = environ.get("PATH", os.defpath)
    bwrap = find_program("bwrap", path, workspace)
    file = cache / "sandbox.json" if cache else None
    key = _cache_key(wanted, bwrap)
    found = _detected.get(key) or _load(file).get(key)
    if found is None:
        found = _try(wanted, bwrap, find_program("true", path, workspace))
        _save(file, key, found)
    _detected[key] = found
    if found.kind != wanted and wanted != "auto":
        hint = 'Set it to "auto" for the best that works, or to "none" for no sandbox.'
        raise UsageError(f"[sandbox] kind: {wanted} does not work here: {found.why}.", hint=hint)
    return found


def _try(wanted: Wanted, bwrap: str | None, true: str | None) -> SandboxChoice:
    tries: dict[SandboxKind, Callable[[], SandboxChoice]] = {"seatbelt": _seatbelt}
    if sys.platform == "linux":
        tries = {"bubblewrap": partial(_bubblewrap, bwrap, true), "landlock": _landlock}
    reasons: list[str] = []
    for kind, attempt in tries.items():
        if wanted in ("auto", kind):
            result = attempt()
            if result.kind != "none":
                kind_read_only = _read_only_kind(result.kind)
                return msgspec.structs.replace(result, why="; ".join(reasons), read_only_kind=kind_read_only)
            reasons.append(f"{kind}: {result.why}")
    return SandboxChoice("none", why="; ".join(reasons) or f"{wanted} does not exist on {sys.platform}")


def _bubblewrap(program: str | None, true: str | None) -> SandboxChoice:
    from . import bubblewrap

    if program is None or true is None:
        return SandboxChoice("none", why="the program bwrap was not found")
    if problem := _probe("bubblewrap", program, bubblewrap.wrap, true):
        return SandboxChoice("none", why=problem)
    version = re.search(r"\d[\d.]*", _run([program, "--version"])[0])
    return SandboxChoice("bubblewrap", program, version[0] if version else "")


def _landlock() -> SandboxChoice:
    import tempfile  # the result is kept: most starts try nothing

    package = str(Path(__file__).parents[3])
    with tempfile.TemporaryDirectory(prefix="friday-") as folder:
        printed, problem = _run([sys.executable, "-I", "-S", "-c", _LANDLOCK, package, folder + "/."])
    if not problem and not printed.strip().isdigit():
        problem = "it did not prevent writing a file outside"
    return SandboxChoice("none", why=problem) if problem else SandboxChoice("landlock", detail=printed.strip())


def _read_only_kind(kind: SandboxKind) -> SandboxKind:
    """The kind of sandbox for read-only commands, where `kind` works."""
    from . import system_call_filter  # loads ctypes

    if system_call_filter.supported() and (kind == "landlock" or (kind == "bubblewrap" and not _landlock().why)):
        return "landlock"
    return "none" if kind == "landlock" else kind


def _seatbelt() -> SandboxChoice:
    from . import seatbelt

    if not os.access(seatbelt.PROGRAM, os.X_OK):
        return SandboxChoice("none", why=f"{seatbelt.PROGRAM} was not found")
    problem = _probe("seatbelt", seatbelt.PROGRAM, seatbelt.wrap, "/usr/bin/true")
    return SandboxChoice("none", why=problem) if problem else SandboxChoice("seatbelt", seatbelt.PROGRAM)


def _probe(kind: SandboxKind, program: str, wrap: Callable[[SandboxPlan, list[bytes]], list[bytes]], true: str) -> str:
    """Why the program `true` cannot be run in a sandbox, "" if it can."""
    import tempfile

    from .plan import SandboxPlan

    with tempfile.TemporaryDirectory(prefix="friday-") as folder:
        plan = SandboxPlan(kind, program, folder, "/", False, (folder,), freeze=(f"{folder}/.friday",))
        return _run([os.fsdecode(word) for word in wrap(plan.resolved(), [os.fsencode(true)])])[1]


def _run(words: Sequence[str]) -> tuple[str, str]:
    """What a program printed, and why it failed ("" if it succeeded)."""
    try:
        ran = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_S, cwd="/", env=without_keys(os.environ)
        )
    except (OSError, subprocess.SubprocessError) as error:
        return "", f"{type(error).__name__}: {error}"
    if ran.returncode:
        lines = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        return "", lines[-1][:200] if lines else f"exit {ran.returncode}"
    return ran.stdout.decode("utf-8", "replace"), ""


_RELEVANT = ("NoNewPrivs", "Seccomp:", "CapBnd")
"""The lines of /proc/self/status that count."""
_detected: dict[str, SandboxChoice] = {}
"""The results of this process by cache key."""


def _cache_key(wanted: Wanted, program: str | None) -> str:
    """A hash of what the result depends on: the program, the kernel, our namespaces and our capabilities."""
    parts = [__version__, "read_only", wanted, sys.executable, str(os.getuid()), os.uname().release]
    if program is not None:
        status = os.stat(program)
        parts += [os.path.realpath(program), str(status.st_mtime_ns), str(status.st_size)]
    for name in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/user", "/proc/self/ns/mnt", "/proc/self/status"):
        with contextlib.suppress(OSError), open(name, encoding="ascii", errors="replace") as file:
            parts += [row for row in file.read().splitlines() if ":" not in row or row.startswith(_RELEVANT)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


class _CachedChoices(msgspec.Struct, frozen=True):
    """What was detected by cache key, the newest last."""

    choices: dict[str, SandboxChoice]


def _load(file: Path | None) -> dict[str, SandboxChoice]:
    """The cached results; none of a file that somebody else could have written: they name a program that is run."""
    content = cache_file.read(file) if file is not None else None
    try:
        return msgspec.json.decode(content, type=_CachedChoices).choices if content is not None else {}
    except msgspec.MsgspecError:
        return {}


def _save(file: Path | None, key: str, choice: SandboxChoice) -> None:
    if file is not None:
        newest = list(_load(file).items())[1 - KEPT :]
        cache_file.write(file, msgspec.json.encode(_CachedChoices(dict([*newest, (key, choice)]))))
