"""Custom slash commands: Markdown files whose text, with the arguments filled in, is sent as a prompt.

Read from `commands/*.md` of the user's folder, then `.friday/commands` and `.claude/commands` of a trusted project; the first
file with a name wins. A file in a subfolder is called `folder:name`. `allowed-tools` can only remove tools, never add any.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.paths import config_dir

from . import frontmatter, trust
from .plugins.find import find_plugins

if TYPE_CHECKING:
    from friday_cli.core.permissions.rules import Rules

KEYS = ("description", "argument-hint", "allowed-tools", "arguments")
MAX_DEPTH, MAX_FILES = 3, 500
"""Limits when reading a folder of commands: subfolder levels, and files."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_CALLED = re.compile(r"/([a-z0-9][a-z0-9:_-]*)(?:\s+(.*))?\Z", re.S)
_PLACEHOLDER = re.compile(r"\$(?:(ARGUMENTS)\b|([1-9])(?![.,]?\d)|([A-Za-z_]\w*))")
_SHELL = re.compile(r"!`([^`\n]+)`")

Origin = Literal["user", "project", "claude"]


class CustomCommand(msgspec.Struct, frozen=True):
    """One command. `tools`: the tools it may use (None: all); `only`: rules that restrict them further. `names`: names of
    its arguments, by position."""

    name: str
    text: str
    path: str
    description: str = ""
    hint: str = ""
    tools: tuple[str, ...] | None = None
    only: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def prompt(self, rest: str) -> str:
        """The prompt. `$ARGUMENTS` is replaced by `rest`, the text after the name, and `$1` or the name of the first argument
        by its first word. What names no word that was given stays (`$4,050`, `awk '{print $4}'`). If nothing was replaced,
        `rest` is appended."""
        try:
            parts = shlex.split(rest)
        except ValueError:  # an unbalanced quote, as in a sentence
            parts = rest.split()
        used = False

        def fill(found: re.Match[str]) -> str:
            nonlocal used
            number = int(found[2]) if found[2] else self.names.index(found[3]) + 1 if found[3] in self.names else 0
            if not found[1] and not 0 < number <= len(parts):
                return found[0]
            used = True
            return rest if found[1] else parts[number - 1]

        filled = _PLACEHOLDER.sub(fill, self.text)
        return filled if used or not rest else f"{filled}\n\n{rest}"

    def skipped_note(self) -> str:
        """Tells which shell commands of the text are not run; "" without any."""
        skipped = [sanitize_line(command, 60) for command in _SHELL.findall(self.text)]
        more = f" and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        return f"/{self.name}: not run, sent as text: {', '.join(skipped[:3])}{more}." if skipped else ""

    def restrictions(self) -> Rules | None:
        """Rules that restrict the tools while it runs; None without restrictions. They never allow more than before."""
        if self.tools is None:
            return None
        from friday_cli.core.permissions.rule import parse_rule
        from friday_cli.core.permissions.rules import Rules
        from friday_cli.core.protocol.tool_info import TASK_RESULT
        from friday_cli.tool_catalog import TOOLS

        only = [parse_rule(rule, "allow", TOOLS) for rule in self.only]
        return Rules(mode="yolo", tools=TOOLS, allowed=frozenset((*self.tools, TASK_RESULT)), only=only)


class CustomCommands(msgspec.Struct, frozen=True):
    """All commands by name, and the problems of files that are not used."""

    found: dict[str, CustomCommand] = {}
    problems: tuple[FileError, ...] = ()


def find_command(prompt: str, customs: CustomCommands) -> tuple[CustomCommand, str] | None:
    """The command at the start of a prompt, and the text after its name; None if the prompt is no command."""
    match = _CALLED.match(prompt.strip())
    custom = customs.found.get(match[1]) if match else None
    return (custom, (match[2] or "").strip()) if custom and match else None


def load(
    cwd: Path, *, trusted: bool = False, reserved: Collection[str] = (), env: Mapping[str, str] | None = None
) -> CustomCommands:
    """Load every command available in `cwd`. `trusted`: treat the project as trusted; `reserved`: names of built-in
    commands. Files of a project are used only with the content that was trusted. Errors in files become `problems`."""
    trust_status = trust.is_trusted(cwd, env=env)
    found: dict[str, CustomCommand] = {}
    problems: list[FileError] = []
    files = (
        *_user_files(config_dir(env) / "commands"), *_project_files(trust_status, trusted), *_plugin_files(trust_status, trusted, env),
    )  # fmt: skip
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
    return CustomCommands(found, tuple(problems))


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
    folders: tuple[tuple[str, Origin], ...] = ((".friday/commands/", "project"), (".claude/commands/", "claude"))
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
    if not all(_NAME.fullmatch(part) for part in name.split(":")):
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
        hint=_hint(values.get("argument-hint")),
        tools=tools,
        only=only,
        names=_argument_names(values.get("arguments")),
    )


def _argument_names(value: object) -> tuple[str, ...]:
    """The names in `arguments`: a list, or words."""
    words = value if isinstance(value, list) else str(value or "").replace(",", " ").split()
    return tuple(word for word in words if isinstance(word, str))


def _hint(value: object) -> str:
    """The argument hint. `[file]` without quotes is a list in YAML."""
    hint = " ".join(f"[{word}]" for word in value) if isinstance(value, list) else str(value or "")
    return sanitize_line(hint, 80)


def _tools(
    path: str, page: frontmatter.MarkdownFile, value: object, origin: Origin
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The names of the allowed tools, and rules that restrict them."""
    if value is None:
        return None, ()
    from friday_cli.core.protocol.tool_info import SERVER_PREFIX
    from friday_cli.tool_catalog import TOOLS

    from .profiles import claude_import

    where = next(number for key, number in page.lines.items() if key.lower().replace("_", "-") == "allowed-tools")
    entries = claude_import.items(value) if isinstance(value, str) else value
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise FileError(path, "expected a list of tools.", line=where, field="allowed-tools")
    known: list[tuple[tuple[str, ...], str | None]] = []
    for entry in entries:
        tool_names, pattern = claude_import.parse_entry(entry, imported=origin == "claude")
        unknown = [tool for tool in tool_names if tool not in TOOLS.names and not tool.startswith(SERVER_PREFIX)]
        if unknown and origin != "claude":
            hint = f"Known: {', '.join(sorted(TOOLS.names))}."
            raise FileError(path, f"unknown tool {entry!r}.", line=where, field="allowed-tools", hint=hint)
        if not unknown:
            known.append((tool_names, pattern))
    return tuple(dict.fromkeys(name for names, _ in known for name in names)), claude_import.narrowed(known)
