"""Understands the arguments of a call: models know tools of other programs and use their names, units and forms.

Nothing is guessed: what could have another meaning is refused with the list of fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from ..text.sanitize import sanitize_line
from .errors import ToolError

if TYPE_CHECKING:
    from msgspec import inspect

UnknownFields = Literal["left out", "refused", "descriptions left out"]
"""What happens to fields that a tool does not have. With the last one, only a description of the call may be left out."""

DESCRIPTIONS = frozenset(
    ("description", "explanation", "instruction", "justification", "purpose", "rationale", "reason")
)
"""Fields that say what a call is for, and change nothing."""
MILLISECONDS_FROM = 10_000
"""A `timeout` without a unit from which on it can only be milliseconds; a smaller one could be seconds."""
PATH_ALIASES = dict.fromkeys(
    (
        "file_path",
        "absolute_path",
        "notebook_path",
        "filepath",
        "file_name",
        "filename",
        "file",
        "target_file",
        "dir_path",
        "directory",
        "folder",
        "target_directory",
    ),
    "path",
)
"""Names that other programs give to `path`."""
ID_ALIASES = dict.fromkeys(("agent_id", "subagent_id", "delegate_id", "delegation_id", "task_id"), "id")
"""Names that other programs give to the `id` of a sub-agent."""
_NAMED = 5
"""Left-out fields that are named in a result."""


class ToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the arguments of a tool, and of objects in them. `aliases` are names of other programs (Claude Code, Codex,
    Gemini CLI, Cursor) and the field that each stands for."""

    aliases: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def adapt(cls, sent: dict[str, Any]) -> None:
        """Replace what has another unit or form in other programs, before aliases are renamed. Names in camelCase are in
        snake_case here. What is left unchanged is checked like any other field. Raises ToolError."""


class UnderstoodArguments(msgspec.Struct, frozen=True):
    """Arguments in our spelling, and the fields that were left out."""

    arguments: dict[str, Any]
    left_out: tuple[str, ...]

    @property
    def note(self) -> str:
        """One line for the model, "" when nothing was left out."""
        names = ", ".join(sanitize_line(name, 40) for name in self.left_out[:_NAMED])
        more = f" and {len(self.left_out) - _NAMED} more" if len(self.left_out) > _NAMED else ""
        return f"[Left out, not an argument of this tool: {names}{more}]" if names else ""


def understand(
    kind: type[msgspec.Struct], sent: Mapping[str, Any], unknown: UnknownFields, within: str = ""
) -> UnderstoodArguments:
    """What a call with the arguments `sent` means in the fields of `kind`. `within` is the field that has them, "" for the
    call. Raises ToolError for an unknown field that may not be left out, and for two values of one field."""
    fields = _fields(kind)
    aliases = kind.aliases if issubclass(kind, ToolArguments) else {}
    given: dict[str, Any] = {}
    for name, value in sent.items():
        _put(given, name if name in fields else _snake_case(name), value)
    if issubclass(kind, ToolArguments):
        kind.adapt(given)
    renamed: dict[str, Any] = {}
    for name, value in given.items():
        _put(renamed, name if name in fields else aliases.get(name, name), value)
    out: dict[str, Any] = {}
    left_out: list[str] = []
    for name, value in renamed.items():
        field = fields.get(name)
        if value is None and not (field and field.required):
            continue
        if field is not None:
            out[name] = _value(field.type, value, unknown, left_out, f"{within}{name}")
        elif unknown == "left out" or (unknown == "descriptions left out" and name in DESCRIPTIONS):
            left_out.append(f"{within}{name}")
        else:
            names = ", ".join(fields) or "none"
            where = f" of `{within.rstrip('.')}`" if within else ""
            shown = sanitize_line(f"{within}{name}", 60)
            raise ToolError(f"there is no argument `{shown}`.", hint=f"The arguments{where} are: {names}.")
    return UnderstoodArguments(out, tuple(left_out))


def adapt_timeout(sent: dict[str, Any]) -> None:
    """Replace `timeout_ms`, and a `timeout` that can only be milliseconds, by `timeout_s` in seconds. Raises ToolError for
    a `timeout` that could be either."""
    for name in ("timeout_ms", "timeout"):
        value = sent.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or "timeout_s" in sent:
            continue
        if name == "timeout" and value < MILLISECONDS_FROM:
            raise ToolError(f"`timeout` = {value} has no unit.", hint="Give `timeout_s`, in seconds.")
        sent["timeout_s"] = sent.pop(name) / 1000


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, inspect.Field]:
    from msgspec import inspect

    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return {field.encode_name: field for field in described.fields}


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() if re.fullmatch(r"[a-z]\w*", name) else name


def _put(fields: dict[str, Any], name: str, value: Any) -> None:
    if fields.get(name) is not None and value is not None and fields[name] != value:
        raise ToolError(f"`{sanitize_line(name, 60)}` is given twice, with different values.", hint="Send it once.")
    if value is not None or name not in fields:
        fields[name] = value


def _value(kind: inspect.Type, value: Any, unknown: UnknownFields, left_out: list[str], name: str) -> Any:
    """A value with the JSON text in place of a list or an object decoded, and with its objects understood."""
    from msgspec import inspect

    if isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        kind = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    if isinstance(kind, inspect.ListType | inspect.DictType | inspect.StructType):
        value = decoded(value)
    if isinstance(kind, inspect.ListType):
        item = kind.item_type
        if isinstance(value, dict) and isinstance(item, inspect.StructType):
            value = [value]
        if isinstance(value, list):
            return [_value(item, one, unknown, left_out, name) for one in value]
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        understood = understand(kind.cls, value, unknown, within=f"{name}.")
        left_out += [field for field in understood.left_out if field not in left_out]
        return understood.arguments
    return value


def decoded(value: Any) -> Any:
    """The list or object in a JSON text; any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
    return found if isinstance(found, list | dict) else value
