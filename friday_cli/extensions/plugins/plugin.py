"""One plugin: its manifest and what it brings. It is read from a list of files with their sha256, never from the folder itself, so
only what the person has seen is used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from friday_cli.config.json_text import read_json
from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system import safe_files
from friday_cli.system.paths import text_of

from .. import trust

MANIFEST, CLAUDE_MANIFEST = "plugin.json", ".claude-plugin/plugin.json"
SERVERS, CLAUDE_SERVERS, LANGUAGE_SERVERS = "mcp.json", ".mcp.json", ".lsp.json"
OURS = "dev.friday.cli"
"""The folder of a plugin with profiles and commands of Friday."""
NO_HOOKS = "its hooks are not used: copy those that you want to your hooks.json."
SCHEMAS = "https://agent-plugins.org/schemas/"
VERSION = "1.0.0"
_NAME = re.compile(r"(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")
_TEXTS = ("version", "description", "homepage", "repository", "license")
_KNOWN = frozenset(("$schema", "name", *_TEXTS, "author", "keywords", "extensions"))

Origin = Literal["user", "project"]


MOST_BYTES = 100_000_000
"""Bytes of a file that are read: more than a whole plugin may have."""


class PluginFiles(msgspec.Struct, frozen=True):
    """The files of a plugin below `root`, by relative path with the sha256 that the person trusts."""

    root: Path
    files: Mapping[str, str]

    def content(self, name: str) -> bytes | None:
        """The content of a file; None if there is none. Raises FileError if it is not the trusted one, or outside of the plugin."""
        if name not in self.files:
            return None
        path = self.root / name
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise FileError(text_of(path), "is outside the plugin.")
        try:
            found = safe_files.read_linked(path, MOST_BYTES)
        except OSError as error:
            raise FileError(text_of(path), f"cannot be read: {error.strerror}.") from None
        if trust.hash_of(found) != self.files[name]:
            raise FileError(text_of(path), "has changed since it was trusted.")
        return found

    def changed(self, prefix: str = "") -> list[str]:
        """The files whose paths begin with `prefix` and that are not as they were when the person trusted them."""
        found = []
        for name in filter(lambda name: name.startswith(prefix), self.files):
            try:
                self.content(name)
            except FileError:
                found.append(name)
        return found

    def matching(self, pattern: str) -> list[re.Match[str]]:
        """The matches of a regular expression over whole paths, sorted by path."""
        return [found for name in sorted(self.files) if (found := re.fullmatch(pattern, name)) is not None]


class Plugin(msgspec.Struct, frozen=True):
    """A plugin. `skills`: folders; `agents`: files; `profiles`: those of Friday; `commands`: files by the name of the command;
    `servers`: the files with MCP servers, "" for those inside a manifest. `portable`: it has a manifest of Agent Plugins.
    `problems`: one line for each part that is not used."""

    name: str
    files: PluginFiles
    origin: Origin = "user"
    version: str = ""
    description: str = ""
    portable: bool = True
    skills: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    commands: dict[str, str] = {}
    servers: str = ""
    inline_servers: dict[str, Any] = {}
    language_servers: str = ""
    """The file with its language servers, "" for none."""
    problems: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        return self.files.root


def read(files: PluginFiles, origin: Origin = "user") -> Plugin:
    """The plugin of these files. Raises FileError if it has no valid manifest."""
    problems: list[str] = []
    portable = MANIFEST in files.files
    claude = _claude_manifest(files, problems) if CLAUDE_MANIFEST in files.files else {}
    if portable:
        manifest = _portable_manifest(files, problems)
    elif claude:
        manifest = claude
    else:
        raise FileError(text_of(files.root / MANIFEST), "is missing: this folder is not a plugin.")
    prefix = manifest["name"].replace(".", "-")
    skills = [found[1] for found in files.matching(r"(skills/[^/]+)/SKILL\.md")]
    agents, commands = [], {}
    if claude:
        agents = list(_named(files, claude, "agents", problems))
        commands = {
            _command_name(prefix, below): name for name, below in _named(files, claude, "commands", problems).items()
        }
        if not portable:
            skills += [found for found in _more_skills(files, claude, problems) if found not in skills]
    commands |= {_command_name(prefix, found[1]): found[0] for found in files.matching(rf"{OURS}/commands/(.+\.md)")}
    if files.matching(rf"{OURS}/hooks(\.json|/.+)"):
        problems.append(NO_HOOKS)
    for name, folder in (("skills", True), (SERVERS, False)) if portable else ():
        if (name in files.files) if folder else files.matching(rf"{re.escape(name)}/.*"):
            problems.append(f"{name} is not a {'folder' if folder else 'file'}, so it is not used.")
    inline = claude.get("mcpServers") if not portable else None
    named = inline if isinstance(inline, str) else ""
    default = SERVERS if portable else _inside(named, problems, "mcpServers") or CLAUDE_SERVERS
    return Plugin(
        manifest["name"],
        files,
        origin,
        version=_line(manifest.get("version")),
        description=_line(manifest.get("description")),
        portable=portable,
        skills=tuple(skills),
        agents=tuple(agents),
        commands=commands,
        profiles=tuple(found[0] for found in files.matching(rf"{OURS}/profiles/[^/]+\.md")),
        servers=default if default in files.files else "",
        inline_servers=inline if isinstance(inline, dict) else {},
        language_servers=_language_servers(files, claude, problems) if claude else "",
        problems=tuple(problems),
    )


def load_json(files: PluginFiles, name: str) -> dict[str, Any]:
    """The object in a JSON file of a plugin. Raises FileError."""
    path = text_of(files.root / name)
    found = read_json(path, files.content(name) or b"")
    if not isinstance(found, dict):
        raise FileError(path, "must be a JSON object.")
    return found


def _portable_manifest(files: PluginFiles, problems: list[str]) -> dict[str, Any]:
    """The manifest of Agent Plugins, checked as its specification says. Raises FileError if the plugin is to be refused."""
    found, path = load_json(files, MANIFEST), text_of(files.root / MANIFEST)
    schema = found.get("$schema")
    if schema != f"{SCHEMAS}{VERSION}/plugin.schema.json":
        shown = sanitize_line(str(schema), 100)
        raise FileError(path, f"{shown!r} is not a supported version; Friday reads {VERSION}.", field="$schema")
    _check_name(path, found.get("name"))
    for key, value in found.items():
        if key not in _KNOWN:
            problems.append(f"{MANIFEST}: the unknown field {sanitize_line(key, 60)} is ignored.")
        elif key in _TEXTS and not isinstance(value, str):
            raise FileError(path, "expected text.", field=key)
    author, keywords = found.get("author", {}), found.get("keywords", [])
    valid = isinstance(author, dict) and author.keys() <= {"name", "email", "url"}
    if not valid or not all(isinstance(value, str) for value in author.values()):
        raise FileError(path, "expected an object with name, email and url.", field="author")
    if not isinstance(keywords, list) or not all(isinstance(word, str) for word in keywords):
        raise FileError(path, "expected a list of texts.", field="keywords")
    if not isinstance(found.get("extensions", {}), dict):
        problems.append(f"{MANIFEST}: extensions is not an object, so it is ignored.")
    elif not all(isinstance(value, dict) for value in found.get("extensions", {}).values()):
        problems.append(f"{MANIFEST}: a member of extensions is not an object, so it is ignored.")
    return found


def _claude_manifest(files: PluginFiles, problems: list[str]) -> dict[str, Any]:
    """The manifest of Claude Code. Raises FileError if it has no name."""
    found = load_json(files, CLAUDE_MANIFEST)
    _check_name(text_of(files.root / CLAUDE_MANIFEST), found.get("name"))
    if "hooks" in found or "hooks/hooks.json" in files.files:
        problems.append(NO_HOOKS)
    for key in sorted(found.keys() & {"outputStyles", "themes", "monitors", "channels", "userConfig"}):
        problems.append(f"{key} has no effect in Friday.")
    return found


def _language_servers(files: PluginFiles, manifest: Mapping[str, Any], problems: list[str]) -> str:
    written = manifest.get("lspServers", LANGUAGE_SERVERS)
    name = CLAUDE_MANIFEST if isinstance(written, dict) else _inside(written, problems, "lspServers") or ""
    return name if name in files.files else ""


def _check_name(path: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        hint = "Use lower-case letters, digits, - and ., at most 64 characters."
        raise FileError(path, f"{sanitize_line(str(name), 80)!r} is not a valid name.", field="name", hint=hint)


def _named(files: PluginFiles, manifest: Mapping[str, Any], key: str, problems: list[str]) -> dict[str, str]:
    """The Markdown files of a component: those that the manifest names, or those in the folder of this name; each with its path in
    the folder that was named."""
    written = manifest.get(key, f"./{key}/")
    found: dict[str, str] = {}
    for item in written if isinstance(written, list) else [written]:
        path = _inside(item, problems, key)
        if path is not None:
            for name in sorted(files.files):
                if (
                    name.endswith(".md")
                    and not name.endswith("/SKILL.md")
                    and (name == path or name.startswith(f"{path}/"))
                ):
                    found.setdefault(name, name.removeprefix(f"{path}/").rpartition("/" if name == path else "\0")[2])
    return found


def _more_skills(files: PluginFiles, manifest: Mapping[str, Any], problems: list[str]) -> Iterator[str]:
    """The folders of skills that a manifest of Claude Code names: of one skill, or of several."""
    written = manifest.get("skills", [])
    for item in written if isinstance(written, list) else [written]:
        path = _inside(item, problems, "skills")
        if path is not None:
            top = re.escape(path)
            yield from (found[1] for found in files.matching(rf"({top}(?:/[^/]+)?)/SKILL\.md"))


def _inside(item: object, problems: list[str], key: str) -> str | None:
    """A path of a manifest relative to the plugin; None, and a problem, if it leads out of it."""
    if not item:
        return None
    path = os.path.normpath(item) if isinstance(item, str) else ""
    if not path or path.startswith(("/", "..")) or (isinstance(item, str) and "\\" in item):
        problems.append(f"{key}: {sanitize_line(str(item), 80)!r} is outside the plugin, so it is not used.")
        return None
    return path


def _command_name(plugin: str, below: str) -> str:
    """`PLUGIN:NAME`, with the subfolders in it."""
    return ":".join([plugin, *below.removesuffix(".md").lower().split("/")])


def _line(value: object) -> str:
    return sanitize_line(value, 300) if isinstance(value, str) else ""
