"""Which plugins a session has: those that the person added, with the content that was shown then, and those of a trusted project."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from friday_cli.core.protocol.errors import FileError, FridayError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system.paths import config_dir

from .. import trust
from .places import IN_PROJECT, STORE
from .plugin import Plugin, PluginFiles, read

MAX_STORE = 16_000_000
"""Largest store in bytes."""


class PinnedPlugin(msgspec.Struct, frozen=True):
    """A plugin that the person added: `source` is where it came from, `files` its files with their sha256."""

    source: str
    files: dict[str, str]
    sha256: str = ""
    """Of all files together."""


class PluginStore(msgspec.Struct):
    """The file plugins.json."""

    plugins: dict[str, PinnedPlugin] = {}


class Plugins(msgspec.Struct, frozen=True):
    """All usable plugins, and one line for each that cannot be used."""

    found: tuple[Plugin, ...] = ()
    problems: tuple[str, ...] = ()


def folder(env: Mapping[str, str] | None = None) -> Path:
    """The folder with the plugins of the person."""
    return config_dir(env) / "plugins"


def read_store(env: Mapping[str, str] | None = None) -> PluginStore:
    """The plugins that the person added. Raises FileError if the file is damaged."""
    path = config_dir(env) / STORE
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(MAX_STORE), type=PluginStore)
    except FileNotFoundError:
        return PluginStore()
    except OSError as error:
        raise FileError(str(path), f"cannot be read: {error.strerror}.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise FileError(str(path), "is damaged.", hint="Remove it, and add the plugins again.") from None


def load(project: trust.Trust | None, env: Mapping[str, str] | None = None) -> Plugins:
    """The plugins of a session. Those of a project are used only if it is trusted, and only with the trusted content."""
    theirs = files_of_project(project) if project is not None and project.ok else {}
    found: dict[str, Plugin] = {}
    problems: list[str] = []
    try:
        mine = read_store(env).plugins
    except FileError as error:
        mine, problems = {}, [str(error)]
    for name, pinned in sorted(mine.items()):
        files = PluginFiles(folder(env) / name, pinned.files)
        try:
            plugin = read(files)
            found.setdefault(plugin.name, plugin)
        except FridayError as error:
            problems.append(
                sanitize_line(f"the plugin {name} is not used: {error} `friday plugins check` shows more.", 400)
            )
    for root, shas in sorted(theirs.items()):
        assert project is not None
        try:
            plugin = read(PluginFiles(project.root / root, shas), "project")
        except FridayError as error:
            problems.append(sanitize_line(f"the plugin {root} is not used: {error}", 400))
            continue
        if found.setdefault(plugin.name, plugin) is not plugin:
            problems.append(f"the plugin {root} is not used: another one has the name {plugin.name}.")
    return Plugins(tuple(found.values()), tuple(problems))


def files_of_project(project: trust.Trust) -> dict[str, dict[str, str]]:
    """The files of the plugins of a project: by folder and by path in it."""
    found: dict[str, dict[str, str]] = {}
    for name, sha in project.files.items():
        if name.startswith(IN_PROJECT) and (match := re.match(r"(\.[a-z]+/plugins/[^/]+)/(.+)", name)):
            found.setdefault(match[1], {})[match[2]] = sha
    return found
