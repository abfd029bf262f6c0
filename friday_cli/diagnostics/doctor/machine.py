"""Folders, the session file, programs and the terminal."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from friday_cli import paths
from friday_cli.config import SandboxSettings
from friday_cli.core.protocol.format import pluralize, size

from .fact import DoctorFact, Facts, Level

CHECK_S = 3.0
"""How long the session file is looked through."""


def folders(env: Mapping[str, str]) -> Facts:
    """Where Friday keeps its files, and whether it can write there."""
    from friday_cli.store.schema import file_system, is_network

    for kind, folder in (
        ("config", paths.config_dir(env)),
        ("data", paths.data_dir(env)),
        ("state", paths.state_dir(env)),
        ("cache", paths.cache_dir(env)),
    ):
        facts = [str(folder)] if folder.exists() else [str(folder), "not made yet"]
        system = file_system(folder)
        level: Level = "ok"
        hint = ""
        if system:
            facts.append(system)
        if is_network(system):
            level = "note"
            facts.append(
                "on the network: sessions are kept in a slower, safer way" if kind == "data" else "on the network"
            )
        if problem := _not_writable(folder):
            level = "bad" if kind == "data" else "note"
            facts.append(problem)
            hint = (
                "No session can be kept. Make it writable, or set FRIDAY_HOME to another folder."
                if kind == "data"
                else ""
            )
        yield DoctorFact("folders", kind, ", ".join(facts), level, hint)


def _not_writable(folder: Path) -> str:
    """Why nothing can be written into a folder (or made where it is to be), "" when it can."""
    import tempfile

    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".friday-"):
            return ""
    except OSError as error:
        return f"cannot be written: {error.strerror}"


def sessions(path: Path) -> Facts:
    """The session file at `path`: its size, its form, and whether it is whole."""
    from friday_cli.store.schema import MIGRATIONS, explain

    try:
        taken = path.stat().st_size
    except FileNotFoundError:
        yield DoctorFact("sessions", "file", f"{path}: none kept yet")
        return
    except OSError as error:
        yield DoctorFact("sessions", "file", f"{path}: {error.strerror}", "bad")
        return
    yield DoctorFact("sessions", "file", f"{path}, {size(taken)}{_log_beside(path)}")
    try:
        db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=2.0)
        try:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            mode = db.execute("PRAGMA journal_mode").fetchone()[0]
            if version > len(MIGRATIONS):
                text = f"{version}, from a newer Friday (this one knows {len(MIGRATIONS)})"
                yield DoctorFact(
                    "sessions", "form", text, "bad", "Update Friday, or set FRIDAY_HOME to another folder."
                )
                return
            yield DoctorFact("sessions", "form", f"{version} of {len(MIGRATIONS)}, journal {mode}")
            yield from _contents(db)
        finally:
            db.close()
    except sqlite3.Error as error:
        explained = explain(error, path)
        yield DoctorFact("sessions", "integrity", explained.message, "bad", explained.hint)


def _contents(db: sqlite3.Connection) -> Facts:
    """What is in the file, and whether it is whole; a large one is looked at for a few seconds only."""
    import time

    end = time.monotonic() + CHECK_S
    db.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    try:
        count = db.execute("SELECT count(*) FROM sessions").fetchone()[0]
        yield DoctorFact("sessions", "kept", pluralize(count, "session"))
        problems = [row[0] for row in db.execute("PRAGMA quick_check(3)")]
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        yield DoctorFact(
            "sessions", "integrity", f"no fault found in {CHECK_S:.0f} s; the file is too large to finish", "note"
        )
        return
    if problems == ["ok"]:
        yield DoctorFact("sessions", "integrity", "whole")
    else:
        hint = "`friday sessions repair` saves what can be read and keeps the damaged file."
        yield DoctorFact("sessions", "integrity", "; ".join(problems), "bad", hint)


def _log_beside(path: Path) -> str:
    try:
        taken = path.with_name(path.name + "-wal").stat().st_size
    except OSError:
        return ""
    return f" and {size(taken)} not yet moved into it"


def programs(env: Mapping[str, str]) -> Facts:
    """The programs that Friday uses where they are there."""
    import shutil

    for name, without in (
        ("git", "not found: what git knows of a folder is not used"),
        ("rg", "not found: Python searches instead, slower and with its own regular expressions"),
        ("bash", "not found: commands run with /bin/sh"),
    ):
        path = shutil.which(name, path=env.get("PATH"))
        yield DoctorFact(
            "programs", name, f"{_version_of(path)} ({path})" if path else without, "ok" if path else "note"
        )


def sandbox(settings: SandboxSettings, env: Mapping[str, str]) -> Facts:
    """What really confines commands here, and what that sandbox cannot do."""
    from friday_cli.workspace.sandbox.detect import detect_sandbox

    found = detect_sandbox(settings.kind, env)
    named = " ".join(filter(None, (found.kind, found.detail, f"({found.program})" if found.program else "")))
    network = "have a network" if settings.network else "have no network unless you allow it"
    if found.kind == "none":
        text = f"none ({found.why}): commands run with all your rights; mode auto asks about each"
        hint = (
            ""
            if settings.kind == "none"
            else "Install bubblewrap, or use a kernel with Landlock (Linux 5.13 or later)."
        )
        yield DoctorFact("sandbox", "kind", text, "note", hint)
        return
    text = f"{named}: commands write in the folder and a temp folder of their own, read no keys, {network}"
    yield DoctorFact("sandbox", "kind", text)
    if found.why:
        yield DoctorFact("sandbox", "better", found.why, "note", "Install bubblewrap for a closer sandbox.")
    for missing in LACKS.get(found.kind, ()):
        yield DoctorFact("sandbox", "cannot", missing, "note")
    if found.kind == "landlock":
        for abi, missing in LANDLOCK:
            if found.abi < abi:
                yield DoctorFact(
                    "sandbox", "cannot", f"{missing} (Landlock {abi} can, this kernel has {found.abi})", "note"
                )


LACKS = {
    "landlock": (
        "protect .git/hooks, .git/config and .friday in the folder: changes are told after each command",
        "limit the network beyond TCP: UDP and with it questions to name servers pass",
        "keep commands from sockets with a path (docker, the bus): only the variables that name them are taken away",
        "keep commands from changing times, modes and owners of your files outside",
        "hide the names in folders with secrets, or secrets below the folder itself",
    ),
    "seatbelt": ("keep commands from other processes: they can send signals to yours",),
}
"""What each kind of sandbox cannot do; see docs/sandbox.md."""
LANDLOCK = (
    (3, "keep commands from emptying files outside with truncate"),
    (4, "limit the network at all"),
    (6, "keep commands from signals to your processes, and from abstract sockets"),
)
"""What Landlock learned with which version."""


def _version_of(program: str) -> str:
    import subprocess

    try:
        ran = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"does not run: {type(error).__name__}"
    first = ran.stdout.decode("utf-8", "replace").split("\n")[0]
    found = re.search(r"\d+(?:\.\d+)+", first)
    return found[0] if found else first[:60] or f"exit {ran.returncode}"


def terminal(env: Mapping[str, str]) -> Facts:
    """What the terminal is, and what it can show."""
    import shutil

    streams = [(name, getattr(sys, name)) for name in ("stdin", "stdout", "stderr")]
    ends = [name for name, stream in streams if stream is not None and stream.isatty()]
    yield DoctorFact("terminal", "connected", ", ".join(ends) or "none of stdin, stdout, stderr")
    window = shutil.get_terminal_size()
    kind = ", ".join(f"{name}={env[name]}" for name in ("TERM", "COLORTERM", "TERM_PROGRAM") if env.get(name))
    yield DoctorFact("terminal", "kind", f"{kind or 'not told'}, {window.columns} x {window.lines}")
    off = "NO_COLOR is set" if env.get("NO_COLOR") else "TERM is dumb" if env.get("TERM", "dumb") == "dumb" else ""
    yield DoctorFact(
        "terminal", "colours", f"off: {off}" if off else "on" if "stdout" in ends else "off: not a terminal"
    )
    out = (
        sys.stdout if getattr(sys.stdout, "encoding", None) else sys.__stdout__
    )  # the chat has put its own in its place
    encoding = (getattr(out, "encoding", None) or "none").lower()
    utf = encoding.replace("-", "") == "utf8"
    hint = "" if utf else "Signs it does not know show as '?'. Set LANG to a UTF-8 one."
    yield DoctorFact("terminal", "encoding", encoding, "ok" if utf else "note", hint)
