"""What Friday sees here, for a person who looks for a fault: no network, no keys, fit to be pasted anywhere."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import msgspec

from . import __version__, config, paths, profiles, trust
from .core.errors import FridayError, NotConfigured
from .core.plain import mask, plain

Level = Literal["ok", "note", "bad"]
PACKAGES = (
    "typer", "rich", "textual", "anthropic", "openai", "httpx2", "msgspec", "platformdirs", "tomli-w", "PyYAML",
    "pathspec", "html-to-markdown", "pypdf", "jsonschema",
)  # fmt: skip
"""What Friday is installed with (pyproject.toml)."""
CHECK_S = 3.0
"""How long the session file is looked through."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class Fact(msgspec.Struct, frozen=True):
    """Something that was looked at. `level` is `bad` for what is broken; `hint` says what to do about it."""

    area: str
    name: str
    text: str
    level: Level = "ok"
    hint: str = ""


Facts = Iterator[Fact]


def examine(env: Mapping[str, str] | None = None, *, cwd: Path | None = None) -> list[Fact]:
    """Look at everything. Never raises: what cannot be looked at is a fact, too."""
    env = os.environ if env is None else env
    found: list[Fact] = []
    settings = config.Settings()

    def look(area: str, work: Callable[[], Facts]) -> None:
        try:
            found.extend(work())
        except Exception as error:
            found.append(Fact(area, "failed", f"cannot be looked at: {type(error).__name__}: {error}", "bad"))

    look("versions", _versions)
    try:
        here = trust.is_trusted(cwd or _current(), env=env)
        loaded = config.load(project=here.root if here.ok else None, environ=env)
        settings = loaded.settings
        look("settings", lambda: _settings(here, loaded, env))
    except (FridayError, OSError) as error:
        found.append(Fact("settings", "file", str(error), "bad"))
    look("model", lambda: _model(settings, env))
    look("keys", lambda: _keys(settings, env))
    look("local servers", lambda: _servers(settings, env))
    look("network", lambda: _network(settings, env))
    look("folders", lambda: _folders(env))
    look("sessions", lambda: _sessions(paths.store_path(env)))
    look("programs", lambda: _programs(env))
    look("terminal", lambda: _terminal(env))
    tidy = _Tidy(env)
    return [msgspec.structs.replace(f, text=tidy(f.text), hint=tidy(f.hint)) for f in found]


def _current() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise FridayError("The folder you are in does not exist any more.") from None


class _Tidy:
    """Makes a text fit to be shown: plain, without secrets, the home folder as `~`."""

    def __init__(self, env: Mapping[str, str]) -> None:
        home = os.path.expanduser("~")
        homes = {env.get("HOME", "").rstrip("/"), home.rstrip("/"), os.path.realpath(home).rstrip("/")} - {""}
        words = "|".join(re.escape(h) for h in sorted(homes, key=len, reverse=True))
        self._home = re.compile(rf"(?<![\w.-])(?:{words})(?![\w.-])") if words else None

    def __call__(self, text: str) -> str:
        text = mask(plain(text))
        return self._home.sub("~", text) if self._home else text


# ---- what it is made of -----------------------------------------------------------------------------------------


def _versions() -> Facts:
    from importlib import metadata

    yield Fact("versions", "friday", __version__)
    yield Fact("versions", "python", f"{platform.python_version()} ({sys.executable})")
    yield Fact("versions", "platform", platform.platform(terse=True))
    yield Fact("versions", "sqlite", sqlite3.sqlite_version)
    have, missing = [], []
    for name in PACKAGES:
        try:
            have.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    yield Fact("versions", "packages", ", ".join(have))
    if missing:
        hint = "Install Friday again: pip install --force-reinstall friday-cli"
        yield Fact("versions", "missing", ", ".join(missing), "bad", hint)


def _settings(here: trust.Trust, loaded: config.Loaded, env: Mapping[str, str]) -> Facts:
    from .config.layers import user_file

    file = user_file(env)
    yield Fact("settings", "file", f"{file} ({'read' if file.exists() else 'not there: the defaults hold'})")
    for name in loaded.notices:
        yield Fact("settings", "ignored", name, "note")
    set_ = [name for name in sorted(env) if name.startswith("FRIDAY_") and env[name]]
    if set_:
        yield Fact("settings", "variables", ", ".join(f"{name}={_public(name, env[name])}" for name in set_))
    level: Level = "ok" if here.ok or not here.files else "note"
    words = f"{here.root} is trusted" if here.ok else here.reason
    yield Fact("settings", "project", words, "bad" if here.state == "broken" else level)
    directory = loaded.settings.agents.delegation.profiles.directory
    found = profiles.load(directory, here, env=env)
    yield Fact("settings", "profiles", ", ".join(found.names()) or "none", "ok" if found.found else "bad")
    for problem in found.problems:
        yield Fact("settings", "profile", str(problem), "note")


def _public(name: str, value: str) -> str:
    from .machine.environment import is_secret

    return "…" if is_secret(name, value) else value


# ---- models -----------------------------------------------------------------------------------------------------


def _model(settings: config.Settings, env: Mapping[str, str]) -> Facts:
    from .models import resolve
    from .models.presets import SCRIPTED, service
    from .models.resolve import key_of

    try:
        choice = resolve(None, settings, env=env)
        if choice.provider not in SCRIPTED:
            key_of(service(choice.provider, settings.providers, env), env)
    except NotConfigured as error:
        level: Level = "bad" if settings.model else "note"
        text = error.message if settings.model else "none: there is no key, and none is set"
        hint = 'Set a key (`friday auth set anthropic`), or try `friday ask --model demo "..."`.'
        yield Fact("model", "would use", text, level, hint)
        return
    except FridayError as error:
        yield Fact("model", "would use", str(error), "bad")
        return
    yield Fact("model", "would use", f"{choice.name}, because of {choice.source}")
    yield Fact("model", "context", f"{choice.window:,} tokens{'' if choice.known else ' (assumed)'}")
    for note in choice.notes:
        yield Fact("model", "remark", note, "note")


def _keys(settings: config.Settings, env: Mapping[str, str]) -> Facts:
    from .models.keys import find_key, list_keys
    from .models.presets import names, service

    missing = []
    said: set[str] = set()
    places: dict[str, list[str]] = {}
    for name in names(settings.providers):
        try:
            of = service(name, settings.providers, env)
            key = find_key(of, env)
        except FridayError as error:
            if str(error) not in said:  # a damaged file of keys is the same for all
                yield Fact("keys", name, str(error), "bad")
            said.add(str(error))
            continue
        if key is None and not of.local:
            missing.append(name)
        if key is not None and key.note:
            yield Fact("keys", name, key.note, "note")
    try:
        rows = list_keys(settings.providers, env)
    except FridayError:
        return
    for row in rows:
        places.setdefault(row.provider, []).append(row.source + (" (used)" if row.used else " (not used)"))
    for name, found in places.items():
        yield Fact("keys", name, ", ".join(found))
    yield Fact("keys", "no key for", ", ".join(missing) or "none of them")


def _servers(settings: config.Settings, env: Mapping[str, str]) -> Facts:
    import asyncio

    from .models.probe import probe

    found = asyncio.run(probe(settings.providers, env))
    for server in found.servers:
        count = len(server.models)
        yield Fact("local servers", server.provider, f"{server.base_url}: {count} model{'' if count == 1 else 's'}")
        for model in server.models:
            for words in model.warnings:
                yield Fact("local servers", model.id, words, "note")
    if not found.servers:
        yield Fact("local servers", "found", "none answers")
    for words in found.notes:
        yield Fact("local servers", "not asked", words, "note")


# ---- network ----------------------------------------------------------------------------------------------------


def _network(settings: config.Settings, env: Mapping[str, str]) -> Facts:
    from .models.presets import names, service

    set_ = [name for upper in _PROXIES for name in (upper, upper.lower()) if env.get(name)]
    for name in set_:
        yield Fact("network", name, without_credentials(env[name]))
    if not set_:
        yield Fact("network", "proxy", "none set")
    for name in _CERTIFICATES:
        if value := env.get(name):
            there = os.access(value, os.R_OK)
            hint = "" if there else "No https connection works before it names what is there; unset it or correct it."
            yield Fact("network", name, value if there else f"{value}: cannot be read", "ok" if there else "bad", hint)
    if not any(env.get(name) for name in _CERTIFICATES):
        yield Fact("network", "certificates", "those of the system")
    for name in names(settings.providers):
        try:
            of = service(name, settings.providers, env)
        except FridayError:
            continue  # said under keys
        if of.moved_by:
            yield Fact("network", name, f"{of.host}, by {of.moved_by}")


def without_credentials(value: str) -> str:
    """A proxy's address without the name and password in it."""
    return re.sub(r"^((?:[a-z0-9+.-]+:)?(?://)?)[^\s]*@", r"\1…@", value, flags=re.I)


# ---- this machine -----------------------------------------------------------------------------------------------


def _folders(env: Mapping[str, str]) -> Facts:
    from .store.schema import file_system, is_network

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
        yield Fact("folders", kind, ", ".join(facts), level, hint)


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


def _sessions(path: Path) -> Facts:
    from .store.schema import MIGRATIONS, explain

    try:
        size = path.stat().st_size
    except FileNotFoundError:
        yield Fact("sessions", "file", f"{path}: none kept yet")
        return
    except OSError as error:
        yield Fact("sessions", "file", f"{path}: {error.strerror}", "bad")
        return
    yield Fact("sessions", "file", f"{path}, {_bytes(size)}{_log_beside(path)}")
    try:
        db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=2.0)
        try:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            mode = db.execute("PRAGMA journal_mode").fetchone()[0]
            if version > len(MIGRATIONS):
                text = f"{version}, from a newer Friday (this one knows {len(MIGRATIONS)})"
                yield Fact("sessions", "form", text, "bad", "Update Friday, or set FRIDAY_HOME to another folder.")
                return
            yield Fact("sessions", "form", f"{version} of {len(MIGRATIONS)}, journal {mode}")
            yield from _contents(db)
        finally:
            db.close()
    except sqlite3.Error as error:
        explained = explain(error, path)
        yield Fact("sessions", "integrity", explained.message, "bad", explained.hint)


def _contents(db: sqlite3.Connection) -> Facts:
    """What is in the file, and whether it is whole; a large one is looked at for a few seconds only."""
    import time

    end = time.monotonic() + CHECK_S
    db.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    try:
        count = db.execute("SELECT count(*) FROM sessions").fetchone()[0]
        yield Fact("sessions", "kept", f"{count} session{'' if count == 1 else 's'}")
        problems = [row[0] for row in db.execute("PRAGMA quick_check(3)")]
    except sqlite3.OperationalError as error:
        if "interrupted" not in str(error):
            raise
        yield Fact(
            "sessions", "integrity", f"no fault found in {CHECK_S:.0f} s; the file is too large to finish", "note"
        )
        return
    if problems == ["ok"]:
        yield Fact("sessions", "integrity", "whole")
    else:
        hint = "Keep a copy, then repair it with `sqlite3 friday.db .recover`, or move it away."
        yield Fact("sessions", "integrity", "; ".join(problems), "bad", hint)


def _log_beside(path: Path) -> str:
    try:
        size = path.with_name(path.name + "-wal").stat().st_size
    except OSError:
        return ""
    return f" and {_bytes(size)} not yet moved into it"


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _programs(env: Mapping[str, str]) -> Facts:
    import shutil

    for name, without in (
        ("git", "not found: what git knows of a folder is not used"),
        ("rg", "not found: Friday's own search is used, which is slower"),
        ("bash", "not found: commands run with /bin/sh"),
    ):
        path = shutil.which(name, path=env.get("PATH"))
        yield Fact("programs", name, f"{_version_of(path)} ({path})" if path else without, "ok" if path else "note")
    text = "none: commands are not confined, they run with all your rights; only modes and rules decide what runs"
    yield Fact("programs", "sandbox", text, "note")


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


def _terminal(env: Mapping[str, str]) -> Facts:
    import shutil

    streams = [(name, getattr(sys, name)) for name in ("stdin", "stdout", "stderr")]
    ends = [name for name, stream in streams if stream is not None and stream.isatty()]
    yield Fact("terminal", "connected", ", ".join(ends) or "none of stdin, stdout, stderr")
    size = shutil.get_terminal_size()
    kind = ", ".join(f"{name}={env[name]}" for name in ("TERM", "COLORTERM", "TERM_PROGRAM") if env.get(name))
    yield Fact("terminal", "kind", f"{kind or 'not told'}, {size.columns} x {size.lines}")
    off = "NO_COLOR is set" if env.get("NO_COLOR") else "TERM is dumb" if env.get("TERM", "dumb") == "dumb" else ""
    yield Fact("terminal", "colours", f"off: {off}" if off else "on" if "stdout" in ends else "off: not a terminal")
    encoding = (getattr(sys.stdout, "encoding", None) or "none").lower()
    utf = encoding.replace("-", "") == "utf8"
    hint = "" if utf else "Signs it does not know show as '?'. Set LANG to a UTF-8 one."
    yield Fact("terminal", "encoding", encoding, "ok" if utf else "note", hint)
