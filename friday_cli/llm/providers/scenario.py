"""Scenarios for the scripted provider: what a file says, checked, with the line of each mistake."""

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
    """Part of a scenario; a key that is not in it is a mistake."""


class ScriptedFailure(_ScenarioEntry, frozen=True):
    """How a request fails; `retry_after` in seconds."""

    kind: ErrorKind
    message: str = "scripted failure"
    status: int = 0
    retry_after: _Seconds | None = None


class ScriptedCall(_ScenarioEntry, frozen=True):
    """A tool call. `raw` is argument text as a model would send it, malformed or not, in place of `arguments`."""

    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None
    id: str = ""


class ScriptedUsage(_ScenarioEntry, frozen=True):
    """Tokens of a turn; see `core.messages.Usage`."""

    input: _Count = 0
    output: _Count = 0
    cache_read: _Count = 0
    cache_write: _Count = 0
    reasoning: _Count = 0
    cached: bool = True


class Price(_ScenarioEntry, frozen=True):
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


class ScriptedTurn(_ScenarioEntry, frozen=True):
    """One reply, or one failure after `truncate_after` chunks. `delay_s` passes before the first chunk.

    `chunks` is how the text is cut: into so many pieces, or into exactly these, which then are the text. `when` makes
    the turn a rule. `stubborn` sends the calls even where the request forbids tools; else `wrap_up` is said there.
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
    """What the agents of one pattern say. `repeat` and `otherwise` tell what comes after the last turn.

    `count` tells what chooses a turn of the list: the requests made so far, or the replies already in the history
    (which goes on rightly in a resumed session, and repeats a failure for ever).
    """

    turns: tuple[ScriptedTurn, ...] = ()
    repeat: Literal["", "last"] = ""
    otherwise: ScriptedTurn | None = None
    wrap_up: str = "Stopping here."
    count: Literal["requests", "history"] = "requests"


class Scenario(_ScenarioEntry, frozen=True):
    """A whole play. `window` and `max_output` are tokens; without `price` no cost is known.

    `strict` makes a request that nothing was written for fail instead of being answered with "done".
    """

    agents: dict[str, AgentScript]
    name: str = "scenario"
    badge: str = "scripted"
    window: _Count = 200_000
    max_output: _Count = 32_000
    price: Price | None = None
    strict: bool = False

    @classmethod
    def of(cls, data: Mapping[str, Any], *, path: str = "scenario") -> Scenario:
        """The scenario in a dict of the file's form; an agent may be a bare list of turns. Raises `FileError`."""
        return _check(_plain(data, path), path, {})

    @classmethod
    def load(cls, path: str) -> Scenario:
        """Read a .yaml, .yml, .json or .toml file. Raises `FileError` with line and field where they are known."""
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
        return _check({"name": name} | _plain(data, path), path, lines)

    def script(self, agent: str) -> AgentScript | None:
        """The script with the most exact pattern for an agent's path, None where none fits."""
        fits = [(rank, script) for pattern, script in self.agents.items() if (rank := _rank(pattern, agent))]
        return max(fits, key=lambda fit: fit[0])[1] if fits else None


def _rank(pattern: str, agent: str) -> int:
    """How exact a pattern is for a path, 0 where it does not fit: whole names count most, then a fixed depth."""
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


def _plain(data: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The data as JSON knows it: dates become text, what has no end or no JSON is refused."""
    try:
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(data)))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as e:
        raise FileError(path, f"holds something that is no plain data ({e})") from e
    return plain


def _toml(path: str, text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        at = re.search(r"\(at line (\d+)", str(e))
        raise FileError(path, f"is no TOML: {e}", line=int(at[1]) if at else 0) from e


def _yaml(path: str, text: str, lines: dict[str, int]) -> Any:
    """The document; `lines` gets the line of every field by its dotted path."""
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        _note_lines(path, node, "", lines, set())
        return loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        raise FileError(path, f"is no YAML: {e.problem}", line=mark.line + 1 if mark else 0) from e
    except (yaml.YAMLError, RecursionError, ValueError) as e:
        raise FileError(path, f"is no YAML: {' '.join(str(e).split())}") from e


def _note_lines(path: str, node: Any, field: str, lines: dict[str, int], seen: set[int]) -> None:
    """Fill `lines`. Aliases are refused: with them a small file can be endless."""
    if node is None:
        return
    if id(node) in seen:
        raise FileError(path, "an alias (`*name`) is not read here", line=lines.get(field, 0), field=field)
    seen.add(id(node))
    if isinstance(node.value, str):
        return
    names: set[str] = set()
    for index, item in enumerate(node.value):
        key, value = item if isinstance(item, tuple) else (None, item)
        below = f"{field}[{index}]" if key is None else f"{field}.{key.value}".lstrip(".")
        lines[below] = (value if key is None else key).start_mark.line + 1
        if below in names:
            raise FileError(path, "is there twice", line=lines[below], field=below)
        names.add(below)
        _note_lines(path, value, below, lines, seen)


def _check(data: dict[str, Any], path: str, lines: dict[str, int]) -> Scenario:
    """Every part on its own, so that a mistake can be named with its agent and turn."""
    agents = data.pop("agents", None)
    if not isinstance(agents, dict):
        raise FileError(path, "a scenario needs it: agent paths with their turns", field="agents")
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
