"""Which sandbox works on this machine. Found out by really confining a program, once, and remembered."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from .. import __version__, atomic
from ..core.errors import UsageError
from .plan import Kind, Plan

Wanted = Literal["auto", "bubblewrap", "landlock", "seatbelt", "none"]
PROBE_S = 10.0
"""How long trying a sandbox may take."""
_LANDLOCK = """\
import os, sys
sys.path.append(sys.argv[1])
from friday_cli.sandbox import landlock
from friday_cli.sandbox.plan import Plan
landlock.restrict(Plan("landlock", "", sys.argv[2], "/", False, (sys.argv[2],)))
open(os.path.join(sys.argv[2], "inside"), "w").close()
try:
    open(os.path.join(sys.argv[2], "..", "friday-probe-outside"), "x").close()
except PermissionError:
    print(landlock.version())
"""


class Choice(msgspec.Struct, frozen=True):
    """A sandbox that works here. `program` is what confines, `detail` its version, `why` why it is not a better one."""

    kind: Kind
    program: str = ""
    detail: str = ""
    why: str = ""

    @property
    def abi(self) -> int:
        """The version of Landlock, 0 for another kind."""
        return int(self.detail) if self.kind == "landlock" else 0


def choose(wanted: Wanted, environ: Mapping[str, str], *, cache: Path | None = None) -> Choice:
    """What confines commands: what is `wanted`, or with `auto` the best that works. `cache` is the folder where the
    answer is kept. Blocks for some milliseconds when it is not there yet.

    Raises UsageError where something else than `auto` and `none` is wanted and does not work.
    """
    if wanted == "none":
        return Choice("none", why="switched off in the settings")
    path = environ.get("PATH", os.defpath)
    file = cache / "sandbox.json" if cache else None
    key = _key(wanted, path)
    found = _known.get(key) or _kept(file, key)
    if found is None:
        found = _try(wanted, path)
        _keep(file, key, found)
    _known[key] = found
    if found.kind != wanted and wanted != "auto":
        hint = 'Set it to "auto" for what works, or to "none" for no sandbox.'
        raise UsageError(f"[sandbox] kind: {wanted} does not work here: {found.why}.", hint=hint)
    return found


def _try(wanted: Wanted, path: str) -> Choice:
    tries = {"bubblewrap": _bubblewrap, "landlock": _landlock} if sys.platform == "linux" else {"seatbelt": _seatbelt}
    reasons: list[str] = []
    for kind, attempt in tries.items():
        if wanted in ("auto", kind):
            made = attempt(path)
            if made.kind != "none":
                return msgspec.structs.replace(made, why="; ".join(reasons))
            reasons.append(f"{kind}: {made.why}")
    return Choice("none", why="; ".join(reasons) or f"there is no {wanted} on {sys.platform}")


def _bubblewrap(path: str) -> Choice:
    from . import bubblewrap

    program = shutil.which("bwrap", path=path)
    true = shutil.which("true", path=path)
    if program is None or true is None:
        return Choice("none", why="the program bwrap was not found")
    with tempfile.TemporaryDirectory(prefix="friday-") as folder:
        plan = Plan("bubblewrap", program, folder, "/", False, (folder,), freeze=(f"{folder}/.friday",))
        words = [os.fsdecode(word) for word in bubblewrap.wrapped(plan.resolved(), [os.fsencode(true)])]
        problem = _run(words)[1]
    version = re.search(r"\d[\d.]*", _run([program, "--version"])[0])
    return Choice("none", why=problem) if problem else Choice("bubblewrap", program, version[0] if version else "")


def _landlock(path: str) -> Choice:
    package = str(Path(__file__).parents[2])
    with tempfile.TemporaryDirectory(prefix="friday-") as folder:
        said, problem = _run([sys.executable, "-I", "-S", "-c", _LANDLOCK, package, folder + "/."])
    if not problem and not said.strip().isdigit():
        problem = "it let a file be written outside"
    return Choice("none", why=problem) if problem else Choice("landlock", detail=said.strip())


def _seatbelt(path: str) -> Choice:
    from . import seatbelt

    if not os.access(seatbelt.PROGRAM, os.X_OK):
        return Choice("none", why=f"{seatbelt.PROGRAM} was not found")
    with tempfile.TemporaryDirectory(prefix="friday-") as folder:
        plan = Plan("seatbelt", seatbelt.PROGRAM, folder, "/", False, (folder,))
        problem = _run([os.fsdecode(word) for word in seatbelt.wrapped(plan.resolved(), [b"/usr/bin/true"])])[1]
    return Choice("none", why=problem) if problem else Choice("seatbelt", seatbelt.PROGRAM)


def _run(words: Sequence[str]) -> tuple[str, str]:
    """What a program printed, and why it did not work ("" when it did)."""
    try:
        ran = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_S, check=False, cwd="/"
        )
    except (OSError, subprocess.SubprocessError) as error:
        return "", f"{type(error).__name__}: {error}"
    if ran.returncode:
        lines = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        return "", lines[-1][:200] if lines else f"exit {ran.returncode}"
    return ran.stdout.decode("utf-8", "replace"), ""


# ---- remembering ------------------------------------------------------------------

_known: dict[str, Choice] = {}
"""What this process found out."""


def _key(wanted: Wanted, path: str) -> str:
    """What the answer hangs on: the program, the kernel, the namespaces we are in, and what was taken from us."""
    parts = [__version__, wanted, sys.executable, str(os.getuid()), os.uname().release]
    program = shutil.which("bwrap", path=path)
    if program is not None:
        status = os.stat(program)
        parts += [os.path.realpath(program), str(status.st_mtime_ns), str(status.st_size)]
    for name in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/user", "/proc/self/ns/mnt", "/proc/self/status"):
        parts.append(_about(name))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _about(name: str) -> str:
    try:
        if "/ns/" in name:
            return os.readlink(name)
        with open(name, encoding="ascii", errors="replace") as file:
            rows = file.read().splitlines()
    except OSError:
        return ""
    return "\n".join(row for row in rows if ":" not in row or row.startswith(("NoNewPrivs", "Seccomp:", "CapBnd")))


class _Kept(msgspec.Struct, frozen=True):
    key: str
    choice: Choice


def _kept(file: Path | None, key: str) -> Choice | None:
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=_Kept) if file else None
    except (OSError, msgspec.MsgspecError):
        return None
    return kept.choice if kept and kept.key == key else None


def _keep(file: Path | None, key: str, choice: Choice) -> None:
    if file is None:
        return
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic.replace(file, msgspec.json.encode(_Kept(key, choice)).decode())
    except OSError:
        pass  # found out again next time
