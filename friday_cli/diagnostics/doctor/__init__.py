"""Examines the installation for troubleshooting. Uses no network and prints no keys, so the output can be shared."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from friday_cli import __version__, config
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.sanitize import mask, sanitize
from friday_cli.extensions import profiles, trust
from friday_cli.llm.models import remember_keys
from friday_cli.system import paths
from friday_cli.system.project_search import left_out

from . import machine, servers, services
from .fact import DoctorFact, Fact, Facts, Level

__all__ = ["PACKAGES", "DoctorFact", "examine"]

PACKAGES = (
    "typer", "rich", "textual", "markdown-it-py", "anthropic", "openai", "httpx2", "h11", "aiohappyeyeballs", "msgspec", "platformdirs",
    "tomli-w", "tomlkit", "PyYAML", "html-to-markdown", "pypdf", "jsonschema", "referencing", "mcp", "anyio", "tree-sitter", "tree-sitter-bash",
)  # fmt: skip
"""The dependencies in pyproject.toml."""


def examine(
    env: Mapping[str, str] | None = None, *, cwd: Path | None = None, model: str | None = None
) -> list[DoctorFact]:
    """Run all checks. `model`: the model named on the command line. Never raises: an exception becomes a `bad` fact."""
    env = os.environ if env is None else env
    found: list[DoctorFact] = []
    settings, redact, project = config.Settings(), _Redactor(env), None

    def add(area: str, fact: Fact) -> None:
        found.append(DoctorFact(area, fact.name, redact(fact.text), fact.level, redact(fact.hint)))

    def check(area: str, work: Callable[[], Facts]) -> None:
        try:
            for fact in work():
                add(area, fact)
        except Exception as error:
            add(area, Fact("failed", f"check failed: {type(error).__name__}: {error}", "bad"))

    check("versions", _versions)
    try:
        project = trust.is_trusted(cwd or _current_folder(), env=env)
        loaded = config.load(project=project.root if project.ok else None, environ=env)
        settings = loaded.settings
        remember_keys(settings.providers, env)
        check("settings", lambda: _settings(project, loaded, env))
        check("language servers", lambda: servers.language_servers(cwd or _current_folder(), settings, project, env))
        check("MCP servers", lambda: servers.mcp_servers(cwd or _current_folder(), settings, project, env))
    except (FridayError, OSError) as error:
        add("settings", Fact("file", str(error), "bad"))
    check("skills", lambda: _skills(cwd or _current_folder(), env))
    check("hooks", lambda: _hooks(project, settings, env))
    check("plugins", lambda: _plugins(project, env))
    check("model", lambda: services.model(settings, env, model))
    check("keys", lambda: services.keys(settings, env))
    check("web search", lambda: services.web_search(settings, env, model))
    check("local servers", lambda: services.servers(settings, env))
    check("network", lambda: services.network(settings, env))
    check("folders", lambda: machine.folders(env))
    check("sessions", lambda: machine.sessions(paths.store_path(env)))
    check("batches", lambda: machine.batches(paths.data_dir(env) / "map.db"))
    check("programs", lambda: machine.programs(env))
    check("sandbox", lambda: machine.sandbox(settings.sandbox, env))
    check("terminal", lambda: machine.terminal(env))
    return found


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise FridayError("The current folder no longer exists.") from None


class _Redactor:
    """Sanitizes text, masks secrets and shortens the home folder to `~`."""

    def __init__(self, env: Mapping[str, str]) -> None:
        home = os.path.expanduser("~")
        homes = {env.get("HOME", "").rstrip("/"), home.rstrip("/"), os.path.realpath(home).rstrip("/")} - {""}
        pattern = "|".join(re.escape(h) for h in sorted(homes, key=len, reverse=True))
        self._home = re.compile(rf"(?<![\w.-])(?:{pattern})(?![\w.-])") if pattern else None

    def __call__(self, text: str) -> str:
        text = mask(sanitize(text))
        return self._home.sub("~", text) if self._home else text


def _versions() -> Facts:
    from importlib import metadata

    yield Fact("friday", __version__)
    yield Fact("python", f"{platform.python_version()} ({sys.executable})")
    yield Fact("platform", f"{platform.system()} {platform.release()}")  # platform.platform() runs a command
    yield Fact("sqlite", sqlite3.sqlite_version)
    installed, missing = [], []
    for name in PACKAGES:
        try:
            installed.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    yield Fact("packages", ", ".join(installed))
    if missing:
        hint = "Install Friday again: pip install --force-reinstall friday-cli"
        yield Fact("missing", ", ".join(missing), "bad", hint)


def _settings(project: trust.Trust, loaded: config.Loaded, env: Mapping[str, str]) -> Facts:
    from friday_cli.config.loader import user_file

    file = user_file(env)
    yield Fact("file", f"{file} ({'read' if file.exists() else 'does not exist: defaults are used'})")
    for name in loaded.notices:
        yield Fact("ignored", name, "note")
    variables = [name for name in sorted(env) if name.startswith("FRIDAY_") and env[name]]
    if variables:
        from friday_cli.workspace.process.environment import is_secret

        shown = {name: "…" if is_secret(name, env[name]) else env[name] for name in variables}
        yield Fact("variables", ", ".join(f"{name}={value}" for name, value in shown.items()))
    level: Level = "note" if project.outdated or (project.seen and not project.ok) else "ok"
    text = f"{project.root} is trusted" if project.ok else project.reason
    if project.state == "new" and not project.seen:
        text = f"{project.root} has nothing that needs trust"
    if project.revised:
        text += f"; changed since, and information only: {', '.join(change[2:] for change in project.revised)}"
    if project.skills_revised:
        text += f"; changed since, and not used: {', '.join(change[2:] for change in project.skills_revised[:5])}"
    yield Fact("project", text, "bad" if project.state == "broken" else level)
    if line := left_out(project.root):
        yield Fact("left out", line, "note")
    directory = loaded.settings.agents.delegation.profiles.directory
    found = profiles.load(directory, project, env=env)
    yield Fact("profiles", ", ".join(found.names()) or "none", "ok" if found.found else "bad")
    for problem in found.problems:
        yield Fact("profile", str(problem), "note")


def _skills(cwd: Path, env: Mapping[str, str]) -> Facts:
    from friday_cli.extensions.skills import files, lookup

    project = trust.is_trusted(cwd, env=env)
    found = lookup.load(cwd.resolve(), project, env)
    theirs = sum(skill.origin == "project" for skill in found.found.values())
    yield Fact("usable", f"{len(found.found):,} ({theirs:,} of the project)" if found.found else "none")
    if project.skills and not project.ok:
        unused = sum(name.endswith(f"/{files.FILE}") for name in project.skills)
        yield Fact("not trusted", f"{unused:,} of the project", "note", "Run `friday trust` to look at them.")
    for problem in found.problems[:5]:
        yield Fact("skill", str(problem), "note")


def _hooks(project: trust.Trust | None, settings: config.Settings, env: Mapping[str, str]) -> Facts:
    from friday_cli.agents.hooks.setup import configured_hooks

    hooks, problems = configured_hooks(project, env, claude=settings.hooks.claude)
    own = sum(hook.source == "user" for hook in hooks)
    text = f"{own} of yours, {len(hooks) - own} of the project" if hooks else "none"
    yield Fact("hooks", text)
    if project is not None and not project.ok and trust.HOOK_FILES[0] in project.files:
        yield Fact("not trusted", f"{trust.HOOK_FILES[0]} of the project", "note", "Run `friday trust` to look at it.")
    for problem in problems:
        yield Fact("hooks", problem, "note")


def _plugins(project: trust.Trust | None, env: Mapping[str, str]) -> Facts:
    """Each plugin with its origin, those that cannot be used, and those of a project that is not trusted."""
    from friday_cli.extensions.plugins.find import find_plugins
    from friday_cli.extensions.plugins.places import IN_PROJECT

    found = find_plugins(project, env)
    for plugin in found.found if found else ():
        whose = "of the project" if plugin.origin == "project" else "of yours"
        changed = plugin.files.changed()
        text = f"{plugin.version or 'no version'}, {whose}"
        hint = (
            "Look at it with `friday plugins check`, and add it again."
            if plugin.origin != "project"
            else "Run `friday trust`."
        )
        if changed:
            yield Fact(
                plugin.name, f"{text}: {changed[0]} has changed since it was added, so it is not used", "note", hint
            )
        else:
            yield Fact(plugin.name, text)
    for problem in found.problems if found else ():
        yield Fact("problem", problem, "note")
    if project is not None and not project.ok and any(name.startswith(IN_PROJECT) for name in project.files):
        yield Fact("not trusted", "plugins of the project", "note", "Run `friday trust` to look at them.")
    elif found is None:
        yield Fact("plugins", "none")
