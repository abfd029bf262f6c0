"""Parses SKILL.md. Files of other programs are read leniently: what is wrong becomes a notice where a skill is left."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from friday_cli.core.protocol.errors import FileError
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.sanitize import sanitize_line

from .. import frontmatter
from ..prompt_arguments import argument_hint, argument_names
from .skill import Origin, Skill

NAME = pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_NAME, MAX_DESCRIPTION, MAX_COMPATIBILITY = 64, 1024, 500
NAME_HINT = f"Use lower-case letters, digits and single hyphens; at most {MAX_NAME} characters."
KEYS = (
    "name", "description", "license", "compatibility", "metadata", "allowed-tools", "argument-hint", "arguments",
    "disable-model-invocation", "user-invocable", "context", "agent",
)  # fmt: skip
WITHOUT_EFFECT = frozenset(
    (
        "model",
        "version",
        "author",
        "tags",
        "category",
        "homepage",
        "when_to_use",
        "hooks",
        "effort",
        "mode",
        "paths",
        "shell",
        "dependencies",
        "keywords",
        "icon",
        "color",
    )
)
"""Keys of other programs that have no effect here."""


def parse(folder: Path, raw: bytes, sha256: str, origin: Origin) -> Skill:
    """Parse the content `raw` of SKILL.md in `folder`. Raises FileError with line, field and remedy."""
    path = f"{folder}/SKILL.md"
    text = frontmatter.decode(path, raw)
    notices: list[str] = []
    try:
        page = frontmatter.read(path, text)
    except FileError:
        page = frontmatter.read(path, text, known=(*KEYS, *WITHOUT_EFFECT))
        notices.append("its front matter is not YAML; each value is read as plain text.")
    values: dict[str, Any] = {}
    for key, value in page.keys.items():
        known = key.lower().replace("_", "-")
        if known in KEYS:
            values[known] = value
        elif key in WITHOUT_EFFECT or known in WITHOUT_EFFECT:
            notices.append(f"{sanitize_line(key, 40)} has no effect in Friday.")
        else:
            notices.append(f"{sanitize_line(key, 40)} is unknown and ignored.")
    if not page.body.strip():
        raise FileError(path, "has no instructions.", hint="Write them below the front matter.")
    tools, only = _tools(path, page, values.get("allowed-tools"), notices)
    return Skill(
        name=_name(path, folder.name, values.get("name"), notices),
        description=_description(path, values.get("description"), notices),
        folder=str(folder),
        sha256=sha256,
        origin=origin,
        tools=tools,
        only=only,
        hint=argument_hint(values.get("argument-hint")),
        names=argument_names(values.get("arguments")),
        by_model=not _flag(values, "disable-model-invocation", False, notices),
        by_person=_flag(values, "user-invocable", True, notices),
        fork=_fork(values.get("context"), notices),
        agent=_text(values.get("agent"), 64),
        license=_text(values.get("license"), 200),
        notices=(*notices, *_compatibility(values.get("compatibility"))),
    )


def _text(value: object, most: int) -> str:
    return "" if value is None or isinstance(value, (list, dict)) else sanitize_line(str(value), most)


def _name(path: str, folder: str, value: object, notices: list[str]) -> str:
    """The name: that of the file if it can be one, else one made from it. Raises FileError if there is none."""
    given = _text(value, 200)
    if not given:
        notices.append("has no name; the name of its folder is used.")
    name = re.sub(r"[^a-z0-9]+", "-", (given or folder).lower()).strip("-")[:MAX_NAME].strip("-")
    if not name:
        raise FileError(path, f"{given or folder!r} is not a valid name.", line=1, field="name", hint=NAME_HINT)
    if given and name != given:
        notices.append(f"its name {given!r} is changed to {name}. {NAME_HINT}")
    elif given and given != folder:
        notices.append(f"its name {given} is not the name of its folder, {sanitize_line(folder, 80)}.")
    return name


def _description(path: str, value: object, notices: list[str]) -> str:
    text = _text(value, 4 * MAX_DESCRIPTION).strip()
    if not text:
        hint = "Add a line description: what it does and when to use it."
        raise FileError(path, "is missing, so no agent could choose it.", line=1, field="description", hint=hint)
    if len(text) > MAX_DESCRIPTION:
        notices.append(f"its description is longer than {MAX_DESCRIPTION:,} characters; the rest is not used.")
    return text[:MAX_DESCRIPTION]


def _flag(values: dict[str, Any], key: str, default: bool, notices: list[str]) -> bool:
    value = values.get(key, default)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        notices.append(f"{key}: expected true or false; {str(default).lower()} is used.")
        return default
    return value


def _fork(value: object, notices: list[str]) -> bool:
    if value not in (None, "", "fork", "inline"):
        notices.append(f"context: {_text(value, 40)} is unknown and ignored.")
    return value == "fork"


def _compatibility(value: object) -> tuple[str, ...]:
    text = _text(value, MAX_COMPATIBILITY + 1)
    return (f"says that it needs: {text[:MAX_COMPATIBILITY]}",) if text else ()


def _tools(
    path: str, page: frontmatter.MarkdownFile, value: object, notices: list[str]
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The tools in `allowed-tools`, and rules that restrict them."""
    from ..tool_lists import allowed_tools

    if isinstance(value, str):
        value = _items(value)
    if not value:
        return None, ()
    where = next(number for key, number in page.lines.items() if key.lower().replace("_", "-") == "allowed-tools")
    tools, only, unknown = allowed_tools(path, value, where, imported=True)
    notices += [f"allowed-tools: {sanitize_line(entry, 60)} is unknown and ignored." for entry in unknown]
    if not tools:
        notices.append("allowed-tools does not name a tool that exists here, so it restricts nothing.")
        return None, ()
    return tools, only


def _items(value: str) -> list[str]:
    """`Read, Bash(git log)` or, as the specification has it, `Read Bash(git log)`."""
    from ..profiles import claude_import

    entries = claude_import.items(value)
    if len(entries) > 1:
        return entries
    return re.findall(r"[^\s(]+(?:\([^)]*\))?", value)
