"""Custom slash commands: Markdown files whose text, with the arguments filled in, is sent as a prompt.

Read from `commands/*.md` of the user's folder, then `.friday/commands`, `.agents/commands` and `.claude/commands` of a trusted
project; the first file with a name wins. After them come skills, which are called in the same way. A file in a subfolder is called `folder:name`. `allowed-tools` can only remove tools, never add any.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.protocol.tool_info import SERVER_PREFIX
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.core.text.suggest import closest_match
from friday_cli.system.paths import config_dir

from . import frontmatter, prompt_arguments, trust
from .plugins.find import find_plugins
from .skills.skill import Skill
from .tool_lists import Restriction, allowed_tools

KEYS = ("description", "argument-hint", "allowed-tools", "arguments")
MAX_DEPTH, MAX_FILES = 3, 500
"""Limits when reading a folder of commands: subfolder levels, and files."""
_NAME = pattern(r"[a-z0-9][a-z0-9_-]{0,63}")
_CALLED = pattern(r"/([a-z0-9][a-z0-9:_-]*)(?:\s+(.*))?\Z", re.S)

Origin = Literal["user", "project", "claude"]


class CustomCommand(msgspec.Struct, frozen=True):
    """One command. `tools`: the tools it may use (None: all); `only`: rules that restrict them further. `names`: names of
    its arguments, by position. `skill`: it stands for this skill, whose own text is used. `own`: the person wrote it."""

    name: str
    text: str
    path: str
    description: str = ""
    hint: str = ""
    tools: tuple[str, ...] | None = None
    only: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    skill: Skill | None = None
    own: bool = False

    def prompt(self, rest: str) -> str:
        """The prompt, with `rest`, the text after the name, filled in (`prompt_arguments.fill`)."""
        return prompt_arguments.fill(self.text, rest, self.names)

    def skipped_note(self) -> str:
        """Tells which shell commands of the text are not run; "" without any."""
        return prompt_arguments.skipped_note(self.name, self.text)

    def restrictions(self) -> Restriction | None:
        """What restricts the tools while it runs; None without restrictions."""
        if self.skill is not None:
            return self.skill.restrictions()
        return None if self.tools is None else Restriction(self.tools, self.only)


class CustomCommands(msgspec.Struct, frozen=True):
    """All commands by name, and the problems of files that are not used."""

    found: dict[str, CustomCommand] = {}
    problems: tuple[FileError, ...] = ()


def find_command(prompt: str, customs: CustomCommands) -> tuple[CustomCommand, str] | None:
    """The command at the start of a prompt, and the text after its name; None if the prompt is not a command."""
    match = _CALLED().match(prompt.strip())
    custom = customs.found.get(match[1]) if match else None
    return (custom, (match[2] or "").strip()) if custom and match else None


def unknown_note(prompt: str, customs: CustomCommands) -> str:
    """A line for the person about a prompt that begins like a command, and is none; "" for others."""
    match = _CALLED().match(prompt.strip())
    if match is None or match[1] in customs.found or match[1].startswith(SERVER_PREFIX):
        return ""
    near = closest_match(match[1], customs.found)
    more = f" Did you mean /{near}?" if near else ""
    return f"/{match[1]} is not a command or skill, so it is sent as text.{more}"


def load(
    cwd: Path, *, trusted: bool = False, reserved: Collection[str] = (), env: Mapping[str, str] | None = None
) -> CustomCommands:
    """Load every command available in `cwd`. `trusted`: treat the project as trusted; `reserved`: names of built-in
    commands. Files of a project are used only with the content that was trusted. Errors in files become `problems`."""
    trust_status = trust.is_trusted(cwd, env=env)
    found: dict[str, CustomCommand] = {}
    problems: list[FileError] = []
    files = (
        *_user_files(config_dir(env) / "commands"),
        *_project_files(trust_status, trusted),
        *_plugin_files(trust_status, trusted, env),
    )
    for path, name, origin, raw in files:
        try:
            if isinstance(raw, FileError):
                raise raw
            custom = parse(str(path), name, raw, origin)
        except FileError as error:
            problems.append(error)
            continue
        if name in reserved:
            problems.append(FileError(str(path), f"/{name} is a built-in command.", hint="Rename the file."))
        else:
            found.setdefault(name, custom)
    if trusted:
        trust_status = msgspec.structs.replace(trust_status, state="trusted", skills_revised=())
    for skill in _skills(cwd, trust_status, env):
        if skill.name not in reserved:
            command = CustomCommand(
                skill.name, "", skill.path, skill.description[:200], skill.hint, tools=skill.tools, skill=skill
            )
            found.setdefault(skill.name, command)
    return CustomCommands(found, tuple(problems))


def _skills(cwd: Path, trust_status: trust.Trust, env: Mapping[str, str] | None) -> list[Skill]:
    """The skills that a person can call."""
    from .skills.lookup import load

    return [skill for skill in load(cwd.resolve(), trust_status, env).found.values() if skill.by_person]


def _user_files(folder: Path) -> Iterator[tuple[Path, str, Origin, bytes | FileError]]:
    for count, path in enumerate(_markdown_files(folder)):
        if count >= MAX_FILES:
            return
        yield path, _command_name(os.path.relpath(path, folder)), "user", frontmatter.contents(path)


def _markdown_files(folder: Path, depth: int = 0) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.suffix == ".md" and entry.is_file():
            yield entry
        elif depth < MAX_DEPTH and entry.is_dir() and not entry.is_symlink():
            yield from _markdown_files(entry, depth + 1)


def _project_files(trust_status: trust.Trust, trusted: bool) -> Iterator[tuple[Path, str, Origin, bytes | FileError]]:
    if not (trust_status.ok or trusted):
        return
    folders: tuple[tuple[str, Origin], ...] = (
        (".friday/commands/", "project"),
        (".agents/commands/", "claude"),
        (".claude/commands/", "claude"),
    )
    for prefix, origin in folders:
        for relative, path, raw in trust.markdown_files(trust_status, prefix):
            yield path, _command_name(relative), origin, raw


def _plugin_files(
    trust_status: trust.Trust, trusted: bool, env: Mapping[str, str] | None
) -> Iterator[tuple[Path, str, Origin, bytes | FileError]]:
    """The commands of plugins, called `plugin:name`."""
    plugins = find_plugins(msgspec.structs.replace(trust_status, state="trusted") if trusted else trust_status, env)
    for plugin in plugins.found if plugins else ():
        for name, file in plugin.commands.items():
            path = plugin.root / file
            yield path, name, "claude", trust.trusted_content(path, plugin.files.files[file])


def _command_name(relative: str) -> str:
    return relative.removesuffix(".md").replace(os.sep, ":").lower()


def parse(path: str, name: str, raw: bytes, origin: Origin) -> CustomCommand:
    """Parse the content `raw` of the file `path`. Raises FileError with line, field and remedy."""
    if not all(_NAME().fullmatch(part) for part in name.split(":")):
        hint = "Use lower-case letters, digits, - and _; at most 64 characters."
        raise FileError(path, f"{sanitize_line(name, 80)!r} is not a valid command name.", hint=hint)
    text = frontmatter.decode(path, raw)
    page = frontmatter.MarkdownFile({}, {}, text)
    if text.startswith("---") and text.partition("\n")[0].strip("- \t") == "":
        page = frontmatter.read(path, text, known=KEYS)  # `argument-hint: [a] [b]` is common, and not valid YAML
    values: dict[str, object] = {}
    for key, value in page.keys.items():
        known = key.lower().replace("_", "-")
        if known in KEYS:
            values[known] = value
        elif origin != "claude":
            hint = f"Known: {', '.join(KEYS)}."
            raise FileError(path, "unknown key.", line=page.lines.get(key, 1), field=key, hint=hint)
    body = sanitize(page.body).strip()
    if not body:
        raise FileError(path, "has no text.", hint="Write the prompt below the front matter.")
    tools, only = _tools(path, page, values.get("allowed-tools"), origin)
    description = values.get("description")
    shown = description if isinstance(description, str) else body.partition("\n")[0]
    return CustomCommand(
        name=name,
        text=body,
        path=path,
        description=sanitize_line(shown, 200),
        hint=prompt_arguments.argument_hint(values.get("argument-hint")),
        tools=tools,
        only=only,
        names=prompt_arguments.argument_names(values.get("arguments")),
        own=origin == "user",
    )


def _tools(
    path: str, page: frontmatter.MarkdownFile, value: object, origin: Origin
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The names of the allowed tools, and rules that restrict them."""
    if value is None:
        return None, ()
    where = next(number for key, number in page.lines.items() if key.lower().replace("_", "-") == "allowed-tools")
    tools, only, _ = allowed_tools(path, value, where, imported=origin == "claude")
    return tools, only
