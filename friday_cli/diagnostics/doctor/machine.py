"""Folders, the session file, programs and the terminal."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from friday_cli.config import SandboxSettings
from friday_cli.core.protocol.format import pluralize, size
from friday_cli.core.text.known_keys import without_keys
from friday_cli.system import paths

from .fact import Fact, Facts, Level

ROOM = 256 * 1024
"""Bytes that must fit into a folder; less is a full disk."""
FULL = "the disk is full"
CHECK_S = 3.0
"""Seconds after which the integrity check of the session file stops."""


def folders(env: Mapping[str, str]) -> Facts:
    """The folders of Friday, and whether they are writable."""
    from friday_cli.store.file_system import file_system, is_network

    for kind, folder in (
        ("config", paths.config_dir(env)),
        ("data", paths.data_dir(env)),
        ("state", paths.state_dir(env)),
        ("cache", paths.cache_dir(env)),
    ):
        facts = [str(folder)] if folder.exists() else [str(folder), "not created yet"]
        system = file_system(folder)
        level: Level = "ok"
        hint = ""
        if system:
            facts.append(system)
        if is_network(system):
            level = "note"
            mode = ": sessions use a slower, safer mode" if kind == "data" else ""
            facts.append(f"on a network file system{mode}")
        if problem := _not_writable(folder):
            level = "note"
            facts.append(problem)
            if kind == "data":
                level = "bad"
                remedy = "Free some space" if problem == FULL else "Make the folder writable"
                hint = f"Sessions cannot be saved. {remedy}, or set FRIDAY_HOME to another folder."
        yield Fact(kind, ", ".join(facts), level, hint)


def _not_writable(folder: Path) -> str:
    """Why nothing can be written to a folder, or it cannot be created, or ""."""
    import shutil
    import tempfile

    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder, prefix=".friday-", buffering=0) as file:
            written = file.write(bytes(ROOM))
            if shutil.disk_usage(folder).free and written == ROOM:
                return ""
            return FULL
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return FULL
        return f"not writable: {error.strerror}"


def batches(path: Path) -> Facts:
    """The file of `friday map` at `path`: its size, and how many batches have items that are not done."""
    if not path.is_file():
        yield Fact("file", f"{path}: does not exist yet")
        return
    try:
        db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=2.0)
        try:
            found = dict(db.execute("SELECT state, count(*) FROM batches GROUP BY state").fetchall())
        finally:
            db.close()
    except sqlite3.Error as error:
        yield Fact("file", f"{path}: {error}", "bad")
        return
    yield Fact("file", f"{path}, {size(path.stat().st_size)}")
    unfinished = f", {found['open']} not finished: friday map status" if found.get("open") else ""
    yield Fact("batches", f"{sum(found.values())}{unfinished}")


def sessions(path: Path) -> Facts:
    """The session file at `path`: its size, schema version and integrity."""
    from friday_cli.store.migrations import MIGRATIONS
    from friday_cli.store.schema import explain

    try:
        size_bytes = path.stat().st_size
    except FileNotFoundError:
        yield Fact("file", f"{path}: does not exist yet")
        return
    except OSError as error:
        yield Fact("file", f"{path}: {error.strerror}", "bad")
        return
    yield Fact("file", f"{path}, {size(size_bytes)}{_wal_size(path)}")
    try:
        db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=2.0)
        try:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            mode = db.execute("PRAGMA journal_mode").fetchone()[0]
            if version > len(MIGRATIONS):
                text = f"{version}, written by a newer Friday (this one supports {len(MIGRATIONS)})"
                yield Fact("form", text, "bad", "Update Friday, or set FRIDAY_HOME to another folder.")
                return
            yield Fact("form", f"{version} of {len(MIGRATIONS)}, journal {mode}")
            yield from _contents(db)
        finally:
            db.close()
    except sqlite3.Error as error:
        explained = explain(error, path)
        yield Fact("integrity", explained.message, "bad", explained.hint)


def _contents(db: sqlite3.Connection) -> Facts:
    """The number of sessions and the integrity of the file; stops after CHECK_S seconds."""
    import time

    end = time.monotonic() + CHECK_S
    db.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    try:
        count = db.execute("SELECT count(*) FROM sessions").fetchone()[0]
        yield Fact("kept", pluralize(count, "session"))
        problems = [row[0] for row in db.execute("PRAGMA quick_check(3)")]
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        yield Fact(
            "integrity", f"no error found in {CHECK_S:.0f} s; the file is too large for a complete check", "note"
        )
        return
    if problems == ["ok"]:
        yield Fact("integrity", "ok")
    else:
        hint = "`friday sessions repair` saves what can be read and keeps the damaged file."
        yield Fact("integrity", "; ".join(problems), "bad", hint)


def _wal_size(path: Path) -> str:
    try:
        size_bytes = path.with_name(path.name + "-wal").stat().st_size
    except OSError:
        return ""
    return f" and {size(size_bytes)} in its write-ahead log"


def programs(env: Mapping[str, str]) -> Facts:
    """Programs that Friday uses, and those on PATH that it does not trust."""
    from friday_cli.system.own_programs import find_program, why_not_used

    for name, missing in (
        ("git", "not found: no git status and no worktrees"),
        ("rg", "not found: search uses Python, slower and with Python's own regular expressions"),
        ("bash", "not found: commands use /bin/sh"),
        ("bwrap", "not found: no bubblewrap sandbox"),
    ):
        path = find_program(name, env.get("PATH"))
        yield Fact(name, f"{version_of(path)} ({path})" if path else missing, "ok" if path else "note")
        if reason := why_not_used(name, env.get("PATH")):
            yield Fact("not used", reason, "note")


def sandbox(settings: SandboxSettings, env: Mapping[str, str]) -> Facts:
    """The sandbox that commands run in, and its limitations."""
    from friday_cli.workspace.sandbox import system_call_filter
    from friday_cli.workspace.sandbox.detect import detect_sandbox

    found = detect_sandbox(settings.kind, env)
    label = " ".join(filter(None, (found.kind, found.detail, f"({found.program})" if found.program else "")))
    network = "may use the network" if settings.network else "have no network unless you allow it"
    if found.kind == "none":
        text = (
            f"none ({found.why}): commands run with all your permissions; mode auto asks before each, and in every mode only"
            " programs with literal arguments pass because they only read"
        )
        hint = "Install bubblewrap, or use a kernel with Landlock (Linux 5.13 or later)."
        hint = "" if settings.kind == "none" else hint
        yield Fact("kind", text, "note", hint)
        return
    text = f"{label}: commands can write to the project and a private temporary folder, cannot read keys, and {network}"
    yield Fact("kind", text)
    if found.read_only_kind == "none":
        text = "cannot be made read-only: only those with literal arguments pass because they only read"
        yield Fact("look", f"commands {text}", "note")
    else:
        text = "that pass because they only read cannot write, connect or read secret files"
        yield Fact("look", f"{found.read_only_kind}: commands {text}")
    if found.why:
        yield Fact("better", found.why, "note", "Install bubblewrap for a stricter sandbox.")
    for missing in LACKS.get(found.kind, ()):
        yield Fact("cannot", missing, "note")
    if found.kind == "landlock":
        filtered = system_call_filter.supported()
        if not filtered:
            yield Fact("cannot", f"block UDP, and with it DNS queries, on {os.uname().machine}", "note")
            text = "block Unix sockets with a path (tmux, docker, D-Bus, key agents): programs known for it are asked about"
            yield Fact("cannot", text, "note")
        for abi, missing in LANDLOCK_SINCE:
            if found.abi < abi and not (filtered and missing == NETWORK):
                yield Fact("cannot", f"{missing} (needs Landlock {abi}, this kernel has {found.abi})", "note")


LACKS = {
    "landlock": (
        "protect .git/hooks, .git/config and .friday in the project: changes are reported after each command",
        "prevent changes of times, modes and owners of files outside the project",
        "hide file names in folders with secrets, or secrets inside the project",
    ),
    "bubblewrap": ("block Unix sockets in the project that a container with a network of its own made",),
    "seatbelt": (
        "prevent signals to your other processes",
        "block Unix sockets with a path (tmux, docker, key agents) while a command has the network: programs known for it are asked about",
    ),
}
"""Limitations of each kind of sandbox; see docs/sandbox.md."""
NETWORK = "block the network"
LANDLOCK_SINCE = (
    (3, "prevent truncating files outside the project"),
    (4, NETWORK),
    (6, "prevent signals to your processes, and connections to abstract sockets"),
)
"""What Landlock cannot do before a given version of its ABI."""


def version_of(program: str) -> str:
    """What a program prints as its version, or why it prints none."""
    import subprocess

    try:
        completed = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
            env=without_keys(os.environ),
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"does not start: {type(error).__name__}"
    first = completed.stdout.decode("utf-8", "replace").split("\n")[0]
    found = re.search(r"\d+(?:\.\d+)+", first)
    return found[0] if found else first[:60] or f"exit {completed.returncode}"


def terminal(env: Mapping[str, str]) -> Facts:
    """The terminal and what it can display."""
    import shutil

    streams = [(name, getattr(sys, name)) for name in ("stdin", "stdout", "stderr")]
    connected = [name for name, stream in streams if stream is not None and stream.isatty()]
    yield Fact("connected", ", ".join(connected) or "none of stdin, stdout, stderr")
    window = shutil.get_terminal_size()
    kind = ", ".join(f"{name}={env[name]}" for name in ("TERM", "COLORTERM", "TERM_PROGRAM") if env.get(name))
    yield Fact("kind", f"{kind or 'unknown'}, {window.columns} x {window.lines}")
    off = "NO_COLOR is set" if env.get("NO_COLOR") else "TERM is dumb" if env.get("TERM", "dumb") == "dumb" else ""
    yield Fact("colours", f"off: {off}" if off else "on" if "stdout" in connected else "off: not a terminal")
    out = sys.stdout if getattr(sys.stdout, "encoding", None) else sys.__stdout__  # the chat replaces sys.stdout
    encoding = (getattr(out, "encoding", None) or "none").lower()
    utf = encoding.replace("-", "") == "utf8"
    hint = "" if utf else "Characters outside this encoding are shown as '?'. Set LANG to a UTF-8 locale."
    yield Fact("encoding", encoding, "ok" if utf else "note", hint)
