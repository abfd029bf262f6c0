"""Tools that are functions of a program: `py__NAME`, with a schema from the annotations of their parameters."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal, get_type_hints, overload

import msgspec

from friday_cli.core.protocol.errors import ToolError, UsageError
from friday_cli.core.protocol.tool import Output, Tool, ToolContext, schema_of
from friday_cli.core.protocol.tool_info import PROGRAM_PREFIX, ToolInfo
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.core.text.untrusted import wrap_untrusted

Function = Callable[..., Awaitable[object]]
OwnEffect = Literal["read", "net", "run"]
"""What a function may do: look, use the network, or anything."""
SUBJECT_CHARS = 2_000
"""Characters of the arguments that rules are matched with and a person is shown."""


class OwnTool:
    """A function that agents can call. It can still be called directly. Made by `tool`."""

    def __init__(self, function: Function, own_tool: Tool) -> None:
        self.function, self.tool = function, own_tool
        self.__doc__ = function.__doc__

    @property
    def name(self) -> str:
        """How models, rules and profiles name it: `py__NAME`."""
        return self.tool.name

    def __call__(self, *args: Any, **more: Any) -> Awaitable[object]:
        return self.function(*args, **more)


@overload
def tool(function: Function, /) -> OwnTool: ...
@overload
def tool(*, effect: OwnEffect = "run", name: str = "", description: str = "") -> Callable[[Function], OwnTool]: ...
def tool(
    function: Function | None = None, /, *, effect: OwnEffect = "run", name: str = "", description: str = ""
) -> OwnTool | Callable[[Function], OwnTool]:
    """Make an async function into a tool `py__NAME`. `effect` decides what the modes do with a call: `read` passes and may run
    beside others, `net` and `run` are asked about as for fetching pages and commands. The docstring describes it, unless
    `description` does; `Annotated[T, msgspec.Meta(description=...)]` describes a parameter. A text that it returns is the
    result, anything else becomes JSON; it reports a failure to the model with ToolError. Raises UsageError for a function
    that cannot be a tool."""

    def make(given: Function) -> OwnTool:
        return OwnTool(given, _tool(given, name or getattr(given, "__name__", ""), description, effect))

    return make if function is None else make(function)


def _tool(function: Function, name: str, description: str, effect: OwnEffect) -> Tool:
    full = f"{PROGRAM_PREFIX}{name}"
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,50}", name):
        raise UsageError(f"{name!r} cannot be the name of a tool: letters, digits and _, at most 51.")
    if not inspect.iscoroutinefunction(function):
        raise UsageError(f"{name}: a tool is an async function.")
    about = sanitize(description or inspect.getdoc(function) or "").strip()
    if not about:
        raise UsageError(f"{name}: a tool needs a description.", hint="Write a docstring for the model.")
    arguments = _arguments(function, name)

    async def run(context: ToolContext, sent: dict[str, Any]) -> Output:
        try:
            given = msgspec.convert(sent, arguments, strict=False)
        except msgspec.ValidationError as error:
            raise ToolError(f"{full}: bad arguments: {error}") from None
        result = await function(**{field: getattr(given, field) for field in arguments.__struct_fields__})
        text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
        return Output(wrap_untrusted(text, source=full))

    return Tool(
        run=run,
        info=ToolInfo(full, effect),
        args=arguments,
        description=about,
        schema=schema_of(arguments),
        subjects=lambda sent, workspace: (_line(sent),) if sent else (),
        title=_line,
    )


def _arguments(function: Function, name: str) -> type[msgspec.Struct]:
    """The parameters of a function as a struct. Raises UsageError for one that has no type, or has no name in a call."""
    try:
        types = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise UsageError(f"{name}: an annotation cannot be read: {error}.") from None
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        if (
            parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            or parameter.name not in types
        ):
            raise UsageError(f"{name}: the parameter {parameter.name} needs a type, and must not be *args or **kwargs.")
        kind = types[parameter.name]
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, parameter.default))
    try:
        made = msgspec.defstruct(f"{name}_arguments", fields, forbid_unknown_fields=True, kw_only=True)
        schema_of(made)
    except TypeError as error:
        raise UsageError(f"{name}: its parameters cannot be sent as JSON: {error}.") from None
    return made


def _line(sent: dict[str, Any]) -> str:
    return sanitize_line(json.dumps(sent, ensure_ascii=False), SUBJECT_CHARS) if sent else ""
