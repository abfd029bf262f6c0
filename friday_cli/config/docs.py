"""Generates docs/config.md from the settings: the docstring under each field is its documentation."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, get_args, get_origin

import msgspec

from . import settings, validate
from .loader import ENVIRONMENT, PROJECT_KEYS

INTRODUCTION = """\
# Settings

<!-- Made by `python -m friday_cli.config`; change the docstrings in friday_cli/config/settings.py instead. -->

Friday reads `config.toml` in its config folder (`friday config path` shows it; `FRIDAY_HOME` moves everything). A flag
overrides an environment variable, which overrides the file, which overrides the default. `friday config get KEY` shows
a value, `friday config set KEY VALUE` changes it and keeps your comments, `friday config unset KEY` removes it,
`friday config edit` opens the file in your editor and checks it, and `friday config show` lists all values with their source.
All durations are seconds. `friday config schema config > config.schema.json` writes the JSON Schema of the file beside it; with
`#:schema ./config.schema.json` as the first line of the file, editors complete and check it.

```toml
model = "anthropic/claude-opus-5-5"
mode = "edits"

[permissions]
allow = ["bash(git status *)"]

[providers.work]
base_url = "https://models.example.org/v1"
key_env = "WORK_KEY"
```

"""

PROJECT = """\
`.friday/config.toml` and `.friday/config.local.toml` of a project are read only after `friday trust`. They can only make \
your settings stricter; a looser value, and every other key, is ignored with a notice. Flags and environment variables \
override them. Keys: {keys}."""


def markdown() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, struct in _tables(settings.Settings, ""):
        parts.append(f"## {title}\n\n{_clean(struct.__doc__)}\n\n" if title else "## Top level\n\n")
        for name, kind, default, text in _fields(struct):
            shown = "none" if default is None else f"`{msgspec.json.encode(default).decode()}`"
            parts.append(f"- **`{name}`** ({_type(kind)}; default {shown}): {text}\n")
        parts.append("\n")
    parts.append("## Environment variables\n\n")
    parts += [f"- `{variable}`: `{name}`.\n" for variable, name in ENVIRONMENT.items()]
    parts.append("\nAn empty variable counts as not set.\n\n## A project's own settings\n\n")
    text = PROJECT.format(keys=", ".join(f"`{key}`" for key in sorted(PROJECT_KEYS)))
    parts.append(textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n")
    return "".join(parts)


def _tables(struct: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """All tables that have keys (not only subtables), with their TOML headers, depth first."""
    if any(validate.struct_in(kind) is None for kind in validate.fields(struct).values()):
        yield (f"`[{prefix}]`" if prefix else ""), struct
    for name, kind in validate.fields(struct).items():
        if (inner := validate.struct_in(kind)) is not None:
            below = f"{prefix}.{name}" if prefix else name
            yield from _tables(
                inner, below + ({"models": ".MODEL"}.get(name, ".NAME") if get_origin(kind) is dict else "")
            )


def _fields(struct: type[msgspec.Struct]) -> Iterator[tuple[str, Any, object, str]]:
    texts = documentation(struct)
    for field in msgspec.structs.fields(struct):
        if validate.struct_in(field.type) is None:
            default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
            yield field.name, field.type, default, texts[field.name]


@cache
def documentation(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The docstring under each field of `struct`, also of those that it has from another one."""
    body = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0]
    assert isinstance(body, ast.ClassDef)
    above = struct.__bases__[0]
    found = {} if above is msgspec.Struct else dict(documentation(above))
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            found[statement.target.id] = _clean(str(following.value.value))
    return found


def text_of(name: str) -> str:
    """The documentation of the setting with this dotted name. Raises KeyError if there is none."""
    table, _, key = name.rpartition(".")
    struct = validate.struct_in(validate.kind_of(tuple(table.split(".")))) if table else settings.Settings
    if struct is None:
        raise KeyError(name)
    return documentation(struct)[key]


def choices_of(name: str) -> tuple[str, ...]:
    """The values that the setting with this dotted name can have, if they are few. Raises KeyError if there is none."""
    kind = validate.kind_of(tuple(name.split(".")))
    if kind is bool:
        return ("true", "false")
    return tuple(str(value) for value in get_args(kind)) if get_origin(kind) is Literal else ()


def _type(kind: Any) -> str:
    """The allowed values of a setting, as text for the page."""
    if get_origin(kind) is Literal:
        return ", ".join(f"`{str(value).lower()}`" for value in get_args(kind) if value != "")
    for part in get_args(kind):
        if isinstance(part, msgspec.Meta):
            return (part.extra or {}).get("unit", "") or _type(get_args(kind)[0])
        if part is type(None):
            return _type(next(other for other in get_args(kind) if other is not type(None)))
    if get_origin(kind) is tuple and validate.struct_in(get_args(kind)[0]) is not None:
        return "list of tables"
    if get_origin(kind) is dict and get_args(kind)[1] is Any:
        return "table"
    names = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`", tuple: "list of texts"}
    return names.get(get_origin(kind) or kind, "table of texts")


def _clean(text: str | None) -> str:
    return " ".join((text or "").split())
