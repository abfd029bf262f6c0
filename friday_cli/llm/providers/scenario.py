"""Loads and validates scenario files for the scripted provider; errors name the line and field."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from friday_cli.core.protocol.errors import ErrorKind, FileError
from friday_cli.core.protocol.provider import Stop

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=86_400)]


class _ScenarioEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts of a scenario: an unknown key is an error."""


class ScriptedFailure(_ScenarioEntry, frozen=True):
    """The error of a request; `retry_after` in seconds."""

    kind: ErrorKind
    message: str = "scripted failure"
    status: int = 0
    retry_after: _Seconds | None = None


class ScriptedCall(_ScenarioEntry, frozen=True):
    """A tool call. `raw` is argument text as sent by a model, which may be malformed; it replaces `arguments`."""

    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None
    id: str = ""


class ScriptedUsage(_ScenarioEntry, frozen=True):
    """Tokens of a turn; see `core.protocol.messages.Usage`."""

    input: _Count = 0
    output: _Count = 0
    cache_read: _Count = 0
    cache_write: _Count = 0
    reasoning: _Count = 0
    cached: bool = True


class ScriptedPrice(_ScenarioEntry, frozen=True):
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


class ScriptedTurn(_ScenarioEntry, frozen=True):
    """One reply, or one failure after `truncate_after` chunks. `delay_s` seconds pass before the first chunk.

    `chunks` splits the text: a number of pieces, or a list of pieces, which replaces `text`. `when` makes the turn a
    rule. `stubborn` sends the calls even if the request forbids tools; otherwise the reply is then `wrap_up`.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    delay_s: _Seconds = 0.0
    chunk_delay_s: _Seconds = 0.0
    chunks: _Count | tuple[str, ...] = 0
    usage: ScriptedUsage | None = None
    stop: Stop | None = None
    note: str = ""
    fail: ScriptedFailure | None = None
    truncate_after: _Count | None = None
    when: str | None = None
    wrap_up: str | None = None
    stubborn: bool = False


class AgentScript(_ScenarioEntry, frozen=True):
    """The turns of the agents that match one pattern. `repeat` and `otherwise` define the replies after the last turn.

    `count` selects the next turn: by the number of requests so far, or by the number of replies in the history (which
    is right in a resumed session, but repeats a failure for ever).
    """

    turns: tuple[ScriptedTurn, ...] = ()
    repeat: Literal["", "last"] = ""
    otherwise: ScriptedTurn | None = None
    wrap_up: str = "Stopping here."
    count: Literal["requests", "history"] = "requests"


class Scenario(_ScenarioEntry, frozen=True):
    """A scenario. `window` and `max_output` are tokens; without `price` the cost is unknown.

    `strict`: a request without a turn fails; otherwise the reply is "done".
    """

    agents: dict[str, AgentScript]
    name: str = "scenario"
    badge: str = "scripted"
    window: _Count = 200_000
    max_output: _Count = 32_000
    price: ScriptedPrice | None = None
    strict: bool = False

    @classmethod
    def of(cls, data: Mapping[str, Any], *, path: str = "scenario") -> Scenario:
        """The scenario from a dict in the form of the file; an agent can be a list of turns. Raises FileError."""
        return _validate(_json_data(data, path), path, {})

    @classmethod
    def load(cls, path: str) -> Scenario:
        """Read a .yaml, .yml, .json or .toml file. Raises FileError, with line and field if they are known."""
        try:
            with open(path, encoding="utf-8-sig") as f:
                text = f.read()
        except OSError as e:
            raise FileError(path, e.strerror or "cannot be read") from e
        except UnicodeDecodeError as e:
            raise FileError(path, "is not UTF-8 text") from e
        lines: dict[str, int] = {}
        data = _toml(path, text) if path.lower().endswith(".toml") else _yaml(path, text, lines)
        if not isinstance(data, dict):
            raise FileError(path, "a scenario is a table with the key `agents`")
        name = os.path.splitext(os.path.basename(path))[0]
        return _validate({"name": name} | _json_data(data, path), path, lines)

    def script(self, agent: str) -> AgentScript | None:
        """The script with the most specific pattern for an agent's path, None if no pattern matches."""
        matches = [(rank, script) for pattern, script in self.agents.items() if (rank := _specificity(pattern, agent))]
        return max(matches, key=lambda match: match[0])[1] if matches else None


def _specificity(pattern: str, agent: str) -> int:
    """How specific a pattern is for a path, 0 if it does not match. Literal names count most, then a fixed depth."""
    if pattern == "*":
        return 1
    wanted, steps = pattern.split("."), agent.split(".")
    deep = wanted[-1] == "**"
    if deep:
        if len(steps) < len(wanted):
            return 0
        del wanted[-1], steps[len(wanted) :]
    if len(wanted) != len(steps) or any(w not in ("*", s) for w, s in zip(wanted, steps, strict=True)):
        return 0
    return 2 + 2 * sum(w != "*" for w in wanted) + (not deep)


def _json_data(data: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The data as JSON values: dates become text; recursive data and other types are errors."""
    try:
        converted: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(data)))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as e:
        raise FileError(path, f"contains data that cannot be written as JSON ({e})") from e
    return converted


def _toml(path: str, text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        at = re.search(r"\(at line (\d+)", str(e))
        raise FileError(path, f"is not valid TOML: {e}", line=int(at[1]) if at else 0) from e


def _yaml(path: str, text: str, lines: dict[str, int]) -> Any:
    """The document. Adds the line of every field, by its dotted path, to `lines`."""
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        _collect_lines(path, node, "", lines, set())
        return loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        raise FileError(path, f"is not valid YAML: {e.problem}", line=mark.line + 1 if mark else 0) from e
    except (yaml.YAMLError, RecursionError, ValueError) as e:
        raise FileError(path, f"is not valid YAML: {' '.join(str(e).split())}") from e


def _collect_lines(path: str, node: Any, field: str, lines: dict[str, int], seen: set[int]) -> None:
    """Fill `lines`. Aliases are an error: with them a small file can expand without limit."""
    if node is None:
        return
    if id(node) in seen:
        raise FileError(path, "aliases (`*name`) are not supported", line=lines.get(field, 0), field=field)
    seen.add(id(node))
    if isinstance(node.value, str):
        return
    names: set[str] = set()
    for index, item in enumerate(node.value):
        key, value = item if isinstance(item, tuple) else (None, item)
        below = f"{field}[{index}]" if key is None else f"{field}.{key.value}".lstrip(".")
        lines[below] = (value if key is None else key).start_mark.line + 1
        if below in names:
            raise FileError(path, "duplicate key", line=lines[below], field=below)
        names.add(below)
        _collect_lines(path, value, below, lines, seen)


def _validate(data: dict[str, Any], path: str, lines: dict[str, int]) -> Scenario:
    """Convert each part by itself, so that an error can name the agent and the turn."""
    agents = data.pop("agents", None)
    if not isinstance(agents, dict):
        raise FileError(path, "is required: a table of agent paths with their turns", field="agents")
    scripts: dict[str, AgentScript] = {}
    for pattern, entry in agents.items():
        field = f"agents.{pattern}"
        bare = isinstance(entry, list)
        script = {"turns": entry} if bare else dict(entry) if isinstance(entry, dict) else None
        if script is None or not isinstance(script.get("turns", []), list):
            raise FileError(path, "must be a list of turns", line=lines.get(field, 0), field=field)
        at = field if bare else f"{field}.turns"
        turns = tuple(
            _convert(item, ScriptedTurn, f"{at}[{i}]", path, lines) for i, item in enumerate(script.pop("turns", []))
        )
        rest = _convert(script, AgentScript, field, path, lines)
        scripts[pattern] = msgspec.structs.replace(rest, turns=turns)
    head: Scenario = _convert({**data, "agents": {}}, Scenario, "", path, lines)
    return msgspec.structs.replace(head, agents=scripts)


def _convert(data: object, kind: Any, field: str, path: str, lines: dict[str, int]) -> Any:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as e:
        problem, _, where = str(e).partition(" - at `$")
        below = where.rstrip("`")
        if unknown := re.search(r"unknown field `(.*)`", problem):
            below, problem = f"{below}.{unknown[1]}", "no such key"
        elif missing := re.search(r"missing required field `(.*)`", problem):
            problem = f"`{missing[1]}` is missing"
        full = (field + below).lstrip(".")
        line = lines.get(full) or lines.get(field, 0)
        raise FileError(path, problem, line=line, field=full) from e
