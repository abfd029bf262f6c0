"""Commands that a person or a project wrote: Markdown files whose text, filled in, is sent as a prompt.

`commands/*.md` of the user's folder, then `.friday/commands` and `.claude/commands` of a trusted project; the first that
has a name wins. A file in a folder is called `folder:name`. Their `allowed-tools` only ever take tools away.

Interface: `load(cwd, trusted=..., reserved=...)`, `called(prompt, customs)`; `Custom.words(rest)`, `Custom.bounds()`.
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

if TYPE_CHECKING:
    from friday_cli.core.permissions.rules import Rules

KEYS = ("description", "argument-hint", "allowed-tools")
DEEPEST, MOST = 3, 500
"""Folders below a folder of commands, and files, that are looked at."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_CALLED = re.compile(r"/([a-z0-9][a-z0-9:_-]*)(?:\s+(.*))?\Z", re.S)
_PLACE = re.compile(r"\$(ARGUMENTS\b|[1-9](?!\d))")

Origin = Literal["user", "project", "claude"]


class CustomCommand(msgspec.Struct, frozen=True):
    """One command. `tools` are those it may use (None: all), `only` rules that narrow them."""

    name: str
    text: str
    path: str
    description: str = ""
    hint: str = ""
    tools: tuple[str, ...] | None = None
    only: tuple[str, ...] = ()

    def words(self, rest: str) -> str:
        """The prompt: `$ARGUMENTS` is all that was written behind the name, `$1` the first word of it.

        Where the text has no such place, `rest` comes behind it.
        """
        try:
            parts = shlex.split(rest)
        except ValueError:  # a quote without its end: it is one of a sentence
            parts = rest.split()
        filled = _PLACE.sub(
            lambda found: rest if found[1] == "ARGUMENTS" else "".join(parts[int(found[1]) - 1 :][:1]), self.text
        )
        return f"{filled}\n\n{rest}" if rest and not _PLACE.search(self.text) else filled

    def bounds(self) -> Rules | None:
        """What may be used while it runs, None for all that may be used anyway. It allows nothing by itself."""
        if self.tools is None:
            return None
        from friday_cli.core.permissions.rule import parse_rule
        from friday_cli.core.permissions.rules import Rules
        from friday_cli.tool_catalog import TASK_RESULT, TOOLS

        only = [parse_rule(rule, "allow", TOOLS) for rule in self.only]
        return Rules(mode="yolo", tools=TOOLS, allowed=frozenset((*self.tools, TASK_RESULT)), only=only)


class CustomCommands(msgspec.Struct, frozen=True):
    """All commands by name, and what is wrong with files or why they are not used."""

    found: dict[str, CustomCommand] = {}
    problems: tuple[FileError, ...] = ()


def called(prompt: str, customs: CustomCommands) -> tuple[CustomCommand, str] | None:
    """The command that a prompt begins with, and what stands behind its name; None where it is none."""
    match = _CALLED.match(prompt.strip())
    custom = customs.found.get(match[1]) if match else None
    return (custom, (match[2] or "").strip()) if custom and match else None


def load(
    cwd: Path, *, trusted: bool = False, reserved: Collection[str] = (), env: Mapping[str, str] | None = None
) -> CustomCommands:
    """Every command that counts in `cwd`. `trusted` counts the project as trusted; `reserved` names are taken.

    A project's files count only with the content that was trusted. Never raises for a file.
    """
    standing = trust.is_trusted(cwd, env=env)
    found: dict[str, CustomCommand] = {}
    problems: list[FileError] = []
    for path, name, origin, raw in (*_own(config_dir(env) / "commands"), *_project(standing, trusted)):
        try:
            if isinstance(raw, FileError):
                raise raw
            custom = parse(str(path), name, raw, origin)
        except FileError as error:
            problems.append(error)
            continue
        if name in reserved:
            problems.append(
                FileError(str(path), f"/{name} is a command of Friday's, which stays.", hint="Rename the file.")
            )
        else:
            found.setdefault(name, custom)
    return CustomCommands(found, tuple(problems))


def _own(folder: Path) -> Iterator[tuple[Path, str, Origin, bytes | FileError]]:
    for count, path in enumerate(_below(folder)):
        if count >= MOST:
            return
        yield path, _named(os.path.relpath(path, folder)), "user", frontmatter.contents(path)


def _below(folder: Path, depth: int = 0) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.suffix == ".md" and entry.is_file():
            yield entry
        elif depth < DEEPEST and entry.is_dir() and not entry.is_symlink():
            yield from _below(entry, depth + 1)


def _project(standing: trust.Trust, trusted: bool) -> Iterator[tuple[Path, str, Origin, bytes | FileError]]:
    if not (standing.ok or trusted):
        return
    places: tuple[tuple[str, Origin], ...] = ((".friday/commands/", "project"), (".claude/commands/", "claude"))
    for prefix, origin in places:
        for name, sha in sorted(standing.files.items()):
            if not name.startswith(prefix) or not name.endswith(".md"):
                continue
            path = standing.root / name
            raw = frontmatter.contents(path)
            if isinstance(raw, bytes) and trust.hash_of(raw) != sha:
                raw = FileError(str(path), "has changed since it was trusted.", hint="Run friday trust.")
            yield path, _named(name.removeprefix(prefix)), origin, raw


def _named(relative: str) -> str:
    return relative.removesuffix(".md").replace(os.sep, ":").lower()


def parse(path: str, name: str, raw: bytes, origin: Origin) -> CustomCommand:
    """The command in `raw`, the content of the file `path`. Raises FileError naming line, field and remedy."""
    if not all(_NAME.fullmatch(part) for part in name.split(":")):
        hint = "Use small letters, digits, - and _, at most 64."
        raise FileError(path, f"{sanitize_line(name, 80)!r} is no name for a command.", hint=hint)
    text = frontmatter.decode(path, raw)
    page = frontmatter.MarkdownFile({}, {}, text)
    if text.startswith("---") and text.partition("\n")[0].strip("- \t") == "":
        page = frontmatter.read(
            path, text, lenient=True
        )  # `argument-hint: [a] [b]` is what everybody writes, and no YAML
    values: dict[str, object] = {}
    for key, value in page.keys.items():
        known = key.lower().replace("_", "-")
        if known in KEYS:
            values[known] = value
        elif origin != "claude":
            raise FileError(
                path, "unknown key.", line=page.lines.get(key, 1), field=key, hint=f"Known: {', '.join(KEYS)}."
            )
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
    )


def _hint(value: object) -> str:
    """What may follow the name. `[file]` without quotes is a list in YAML."""
    words = " ".join(f"[{word}]" for word in value) if isinstance(value, list) else str(value or "")
    return sanitize_line(words, 80)


def _tools(
    path: str, page: frontmatter.MarkdownFile, value: object, origin: Origin
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Our names of the tools that stay, and rules that narrow them."""
    if value is None:
        return None, ()
    from friday_cli.core.protocol.tool_info import SERVER_PREFIX
    from friday_cli.tool_catalog import TOOLS

    from .profiles import claude_import

    where = next(number for key, number in page.lines.items() if key.lower().replace("_", "-") == "allowed-tools")
    entries = claude_import.items(value) if isinstance(value, str) else value
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise FileError(path, "expected a list of tools.", line=where, field="allowed-tools")
    names: list[str] = []
    whole: set[str] = set()
    only: list[str] = []
    for entry in entries:
        ours, pattern = claude_import.take_apart(entry)
        unknown = [tool for tool in ours if tool not in TOOLS.names and not tool.startswith(SERVER_PREFIX)]
        if unknown and origin != "claude":
            hint = f"Known: {', '.join(sorted(TOOLS.names))}."
            raise FileError(path, f"there is no tool {entry!r}.", line=where, field="allowed-tools", hint=hint)
        if unknown:
            continue
        names += ours
        if pattern and pattern != "*":
            only.append(claude_import.rule(ours[0], pattern))
        else:
            whole.add(ours[0])
    return tuple(dict.fromkeys(names)), tuple(rule for rule in only if rule.partition("(")[0] not in whole)
