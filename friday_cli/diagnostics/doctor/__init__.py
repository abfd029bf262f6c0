"""What Friday sees here, for a person who looks for a fault: no network, no keys, fit to be pasted anywhere."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from friday_cli import __version__, config, paths
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.sanitize import mask, sanitize
from friday_cli.extensions import profiles, trust

from . import machine, services
from .fact import DoctorFact, Facts, Level

__all__ = ["PACKAGES", "DoctorFact", "Level", "examine"]

PACKAGES = (
    "typer", "rich", "textual", "markdown-it-py", "anthropic", "openai", "httpx2", "h11", "msgspec", "platformdirs",
    "tomli-w", "tomlkit", "PyYAML", "html-to-markdown", "pypdf", "jsonschema", "tree-sitter", "tree-sitter-bash",
)  # fmt: skip
"""What Friday is installed with (pyproject.toml)."""


def examine(
    env: Mapping[str, str] | None = None, *, cwd: Path | None = None, model: str | None = None
) -> list[DoctorFact]:
    """Look at everything; `model` is the one that the command line names. Never raises: what cannot be looked at is a fact,
    too."""
    env = os.environ if env is None else env
    found: list[DoctorFact] = []
    settings = config.Settings()

    def look(area: str, work: Callable[[], Facts]) -> None:
        try:
            found.extend(work())
        except Exception as error:
            found.append(DoctorFact(area, "failed", f"cannot be looked at: {type(error).__name__}: {error}", "bad"))

    look("versions", _versions)
    try:
        here = trust.is_trusted(cwd or _current(), env=env)
        loaded = config.load(project=here.root if here.ok else None, environ=env)
        settings = loaded.settings
        look("settings", lambda: _settings(here, loaded, env))
    except (FridayError, OSError) as error:
        found.append(DoctorFact("settings", "file", str(error), "bad"))
    look("model", lambda: services.model(settings, env, model))
    look("keys", lambda: services.keys(settings, env))
    look("local servers", lambda: services.servers(settings, env))
    look("network", lambda: services.network(settings, env))
    look("folders", lambda: machine.folders(env))
    look("sessions", lambda: machine.sessions(paths.store_path(env)))
    look("programs", lambda: machine.programs(env))
    look("sandbox", lambda: machine.sandbox(settings.sandbox, env))
    look("terminal", lambda: machine.terminal(env))
    tidy = _Redactor(env)
    return [msgspec.structs.replace(f, text=tidy(f.text), hint=tidy(f.hint)) for f in found]


def _current() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise FridayError("The folder you are in does not exist any more.") from None


class _Redactor:
    """Makes a text fit to be shown: plain, without secrets, the home folder as `~`."""

    def __init__(self, env: Mapping[str, str]) -> None:
        home = os.path.expanduser("~")
        homes = {env.get("HOME", "").rstrip("/"), home.rstrip("/"), os.path.realpath(home).rstrip("/")} - {""}
        words = "|".join(re.escape(h) for h in sorted(homes, key=len, reverse=True))
        self._home = re.compile(rf"(?<![\w.-])(?:{words})(?![\w.-])") if words else None

    def __call__(self, text: str) -> str:
        text = mask(sanitize(text))
        return self._home.sub("~", text) if self._home else text


# ---- what it is made of -----------------------------------------------------------------------------------------


def _versions() -> Facts:
    from importlib import metadata

    yield DoctorFact("versions", "friday", __version__)
    yield DoctorFact("versions", "python", f"{platform.python_version()} ({sys.executable})")
    yield DoctorFact("versions", "platform", platform.platform(terse=True))
    yield DoctorFact("versions", "sqlite", sqlite3.sqlite_version)
    have, missing = [], []
    for name in PACKAGES:
        try:
            have.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    yield DoctorFact("versions", "packages", ", ".join(have))
    if missing:
        hint = "Install Friday again: pip install --force-reinstall friday-cli"
        yield DoctorFact("versions", "missing", ", ".join(missing), "bad", hint)


def _settings(here: trust.Trust, loaded: config.Loaded, env: Mapping[str, str]) -> Facts:
    from friday_cli.config.loader import user_file

    file = user_file(env)
    yield DoctorFact("settings", "file", f"{file} ({'read' if file.exists() else 'not there: the defaults hold'})")
    for name in loaded.notices:
        yield DoctorFact("settings", "ignored", name, "note")
    set_ = [name for name in sorted(env) if name.startswith("FRIDAY_") and env[name]]
    if set_:
        yield DoctorFact("settings", "variables", ", ".join(f"{name}={_public(name, env[name])}" for name in set_))
    level: Level = "ok" if here.ok or not here.files else "note"
    words = f"{here.root} is trusted" if here.ok else here.reason
    yield DoctorFact("settings", "project", words, "bad" if here.state == "broken" else level)
    directory = loaded.settings.agents.delegation.profiles.directory
    found = profiles.load(directory, here, env=env)
    yield DoctorFact("settings", "profiles", ", ".join(found.names()) or "none", "ok" if found.found else "bad")
    for problem in found.problems:
        yield DoctorFact("settings", "profile", str(problem), "note")


def _public(name: str, value: str) -> str:
    from friday_cli.workspace.process.environment import is_secret

    return "…" if is_secret(name, value) else value
