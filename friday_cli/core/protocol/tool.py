"""Tools: typed functions that a model calls, with results for the model and for people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from .call_arguments import UnderstoodArguments, UnknownFields, understand
from .claims import Claims
from .displays import AnyDisplay, DiffDisplay
from .errors import ToolError
from .events import ToolSpec
from .messages import Image, Usage
from .receipt import Finding, ToolFacts
from .shell_script import CommandAnalysis
from .tool_info import CallEffect, Effect, ToolEffect, ToolInfo
from .workspace import SandboxAccess, Workspace

PARALLEL: frozenset[str] = frozenset(("read", "net", "spawn", "own"))
"""Effects whose calls may run in parallel; the rest run one at a time, in call order."""

CHANGING: frozenset[str] = frozenset(("write", "run"))
"""Effects that a power failure does not undo: the events before them are synced to disk before they begin."""


class Output(msgspec.Struct, frozen=True):
    """The result of a tool."""

    text: str
    """For the model; the tool truncates it."""
    display: AnyDisplay | None = None
    """For people."""
    facts: ToolFacts = ToolFacts()
    """For the receipt."""
    images: tuple[Image, ...] = ()
    error: bool = False
    """Whether the call failed."""
    ends: FinalReport | None = None
    """The final report of the tool that ends an agent's run."""
    warnings: tuple[str, ...] = ()
    """Shown to people as notices."""
    usage: Usage = Usage()
    """That of requests to a model, which the tool has charged to the agent."""
    denied: str = ""
    """What a command that ran read-only was denied: the call runs again as usual if that is permitted."""


class FinalReport(msgspec.Struct, frozen=True):
    """The report of `task_result`, which ends the run."""

    result: str
    success: bool
    findings: tuple[Finding, ...] = ()
    claims: Claims = Claims()


class KnownFiles(msgspec.Struct, eq=False):
    """The files that an agent has read: resolved path -> sha256 of the content that it last read or wrote."""

    hashes: dict[str, str] = {}


class ToolContext(msgspec.Struct, frozen=True):
    """Everything that a running call may use."""

    agent: str
    """The path of the caller."""
    call_id: str
    workspace: Workspace
    seen: KnownFiles
    emit: Callable[[str], None]
    """Shows live output to people."""
    ask: Callable[[str, Sequence[str]], Awaitable[str]]
    """Waits for a person's answer to (question, choices). Raises ToolError if no person can answer."""
    read_only: bool = False
    """The call is permitted only because it reads, so it must run where it can do nothing else."""
    withheld: Callable[[Sequence[str]], set[str]] = lambda labels: set()
    """Those of the labels of files found by a search that permission rules keep from its result."""
    hand_in: Callable[[str], Awaitable[str]] | None = None
    """Waits for a person's answer to a plan. Raises ToolError if no person can answer."""


class Tool(msgspec.Struct, frozen=True):
    """A tool of an agent. Permission rules match what the arguments name that its row of the catalogue declares
    (`ToolInfo.effects`): path labels, whole commands, `domain:host`, profile names."""

    run: Callable[[ToolContext, Any], Awaitable[Output]]
    info: ToolInfo
    """Its row of the catalogue."""
    args: type[msgspec.Struct]
    """Its arguments as fields, which the model reads with their `msgspec.Meta(description=...)`."""
    description: str
    subjects: Callable[[Any, Workspace], Sequence[str]] | None = None
    """Replaces the subjects of its first effect if they are not written as an argument."""
    also: Callable[[Any, Workspace], Sequence[CallEffect]] = lambda args, workspace: ()
    """Adds effects that depend on more than one argument."""
    title: Callable[[Any], str] = lambda args: ""
    """One short line for people."""
    script: Callable[[Any, Workspace], CommandAnalysis | None] = lambda args, workspace: None
    """The analysis of a shell command; None for other tools."""
    sandbox_access: Callable[[Any, Workspace], tuple[SandboxAccess, str]] = lambda args, workspace: ("", "")
    """How far beyond a sandbox the call goes, and why the model says that it must."""
    begins: Callable[[Any], ToolFacts] = lambda args: ToolFacts()
    """The facts of a call that is cancelled."""
    schema: dict[str, Any] | None = None
    """Replaces that of `args` for a tool of a server: its arguments are a dict, and the server checks them."""
    forward: Callable[[Any], tuple[str, dict[str, Any]]] | None = None
    """The call (name and arguments) that a call of this tool is treated as, from the permission on."""
    change: Callable[[Workspace, KnownFiles, Any], Awaitable[DiffDisplay | None]] | None = None
    """What the call would change in its file. It changes nothing, and raises FridayError."""
    only_shows: Callable[[Any], bool] = lambda args: False
    """Whether a call that could change files only shows what it would change: it is judged as reading."""

    def __post_init__(self) -> None:
        """Raises ValueError for an effect of an argument that the tool does not have: nothing would hold for it."""
        for declared in self.info.effects or ():
            name = declared.argument.partition(".")[0]
            if name and name not in self.args.__struct_fields__:
                raise ValueError(f"The catalog says that {self.name} has the argument {name!r}, but it does not.")

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def effect(self) -> Effect:
        return self.info.effect

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, schema_of(self.args) if self.schema is None else self.schema)

    @property
    def unknown_fields(self) -> UnknownFields:
        """What happens to arguments that it does not have. Without them a call must not do something else."""
        if self.info.exact:
            return "refused"
        return "left out" if self.effect in ("read", "net", "own") else "descriptions left out"

    def used(self, args: Any, workspace: Workspace) -> tuple[tuple[str, ...], tuple[CallEffect, ...]]:
        """What a call does: the subjects of its first effect, and its other effects. Raises ToolError for a path that
        cannot be resolved."""
        first, *others = self.info.effects or (ToolEffect(self.effect),)
        subjects = self.subjects(args, workspace) if self.subjects else _named(first, args, workspace)
        more = [CallEffect(one.effect, _named(one, args, workspace)) for one in others if one.argument]
        return tuple(subjects), (*(one for one in more if one.subjects), *self.also(args, workspace))

    def understand(self, sent: dict[str, Any]) -> UnderstoodArguments:
        """The arguments of a call in our spelling, for `parse`. Raises ToolError."""
        if self.schema is not None:
            return UnderstoodArguments(sent, ())
        try:
            return understand(self.args, sent, self.unknown_fields)
        except ToolError as error:
            raise ToolError(f"{self.name}: {error.message}", hint=error.hint) from None

    def parse(self, arguments: dict[str, Any]) -> msgspec.Struct | dict[str, Any]:
        """The arguments of a call as `args`. Raises ToolError."""
        if self.schema is not None:
            return arguments
        try:
            return msgspec.convert(arguments, self.args, strict=False)
        except msgspec.ValidationError as error:
            raise ToolError(f"{self.name}: bad arguments: {error}") from None


def _named(declared: ToolEffect, args: Any, workspace: Workspace) -> tuple[str, ...]:
    """What the argument of a declared effect names, as rules name it."""
    if not declared.argument:
        return ()
    values = [args]
    for field in declared.argument.split("."):
        found = (getattr(value, field) for value in values)
        values = [one for value in found for one in (value if isinstance(value, list | tuple) else (value,))]
    names = [value for value in values if value]
    if declared.effect in ("read", "write"):
        names = [label for name in names for label in workspace.labels(name)]
    return tuple(dict.fromkeys(names))


AS_ELSEWHERE = {"as_elsewhere": True}
"""`extra_json_schema` of a list whose items have fields that another tool describes: models are told their types only."""
_UNSENT = (
    *AS_ELSEWHERE,
    "additionalProperties",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minimum",
    "exclusiveMinimum",
)
"""What models keep to without being told: limits, and that there are no other fields. A call beyond them is answered with an error."""


@cache
def schema_of(args: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a struct as models read it, with references resolved. Do not modify the result.

    Without what costs tokens and tells nothing: names and docstrings of classes, what is in `_UNSENT`, empty defaults, and
    null as another way to leave a field out. `Tool.parse` still accepts null and checks the limits."""
    top, definitions = msgspec.json.schema_components([args], ref_template="{name}")

    def inline(node: Any, bare: bool = False) -> Any:
        if isinstance(node, list):
            return [inline(item, bare) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return inline({**definitions[node["$ref"]], **{k: v for k, v in node.items() if k != "$ref"}}, bare)
        out: dict[str, Any] = {}
        inside = bare or AS_ELSEWHERE.items() <= node.items()
        kinds = [kind for kind in node.get("anyOf", ()) if kind != {"type": "null"}]
        if len(kinds) == 1:
            node = {**kinds[0], **{key: value for key, value in node.items() if key != "anyOf"}}
        for key, value in node.items():
            if key == "properties":
                out[key] = {name: inline(field, bare) for name, field in value.items()}
            elif not _is_noise(key, value, node, bare=bare):
                out[key] = inline(value, inside)
        return out

    schema: dict[str, Any] = inline(top[0])
    return schema


def _is_noise(key: str, value: Any, node: dict[str, Any], *, bare: bool) -> bool:
    if key in ("title", "description"):  # of a class, or of a field that another tool describes
        return key == "title" or bare or "properties" in node
    return not value if key in ("default", "required") else key in _UNSENT
