"""Loads the settings from the user's file, a trusted project's files, environment variables and flags."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.system.paths import config_dir

from . import validate
from .settings import Settings

ENVIRONMENT: dict[str, str] = {
    "FRIDAY_MODEL": "model",
    "FRIDAY_SUBAGENT_MODEL": "subagent_model",
    "FRIDAY_FALLBACK_MODEL": "fallback_model",
    "FRIDAY_EFFORT": "effort",
    "FRIDAY_MODE": "mode",
    "FRIDAY_SANDBOX": "sandbox.kind",
}
"""Environment variables and the settings they set. An empty variable counts as not set."""

PROJECT_FILES = (".friday/config.toml", ".friday/config.local.toml")
LARGEST = 1_000_000
"""Maximum size of a settings file in bytes."""

_STRICTNESS = ("plan", "ask", "edits", "auto")
_ADD = frozenset(("permissions.ask", "permissions.deny", "permissions.rules", "sandbox.read_deny"))
_LOWER = frozenset(
    (
        *(f"limits.{key}" for key in ("max_turns", "max_tokens", "max_cost", "timeout")),
        *(f"agents.delegation.{key}" for key in ("max_depth", "default_timeout", "max_concurrent", "max_batch")),
        *(f"agents.delegation.{key}" for key in ("max_agents", "ask_above", "ask_above_cost", "context_chars")),
        *(f"agents.delegation.token_budget.{key}" for key in ("default", "max")),
        *("tools.bash_timeout", "tools.bash_max_timeout"),
    )
)
_OFF = frozenset(("agents.delegation.enabled", "tools.web_allow_private", "sandbox.network"))
PROJECT_KEYS = frozenset(("mode",)) | _ADD | _LOWER | _OFF
"""Settings that a trusted project's file can make stricter. All other settings in it are ignored with a notice."""


class Loaded(msgspec.Struct, frozen=True):
    """The settings, the source of each one that is set (by dotted name), and notices for the user."""

    settings: Settings
    sources: dict[str, str]
    notices: tuple[str, ...] = ()


def user_file(env: Mapping[str, str] | None = None) -> Path:
    """The user's settings file; it need not exist."""
    return config_dir(env) / "config.toml"


def load(
    *,
    project: Path | None = None,
    flags: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Loaded:
    """The current settings. `project` is the root of a TRUSTED project; for None no project file is read. `flags` maps
    dotted names to values (None: not given). `file` replaces the user's file. Raises FileError for an invalid file,
    UsageError for an invalid flag or variable."""
    sources: dict[str, str] = {}
    path = file or user_file(environ)
    data = read(path, must_exist=file is not None)
    for name, _ in _leaves(data):
        sources[name] = str(path)
    notices: list[str] = []
    if project is not None:
        for part in PROJECT_FILES:
            _tighten(data, project / part, sources, notices)
    for variable, name in ENVIRONMENT.items():
        if value := (os.environ if environ is None else environ).get(variable):
            _override(data, name, value, variable)
            sources[name] = variable
    for name, given in (flags or {}).items():
        if given is not None:
            _override(data, name, given, "--" + name.rpartition(".")[2].replace("_", "-"))
            sources[name] = "command line"
    return Loaded(_settings(data), sources, tuple(notices))


def read(path: Path, *, must_exist: bool = False) -> dict[str, Any]:
    """The validated content of one settings file; empty if it does not exist. Raises FileError."""
    return parse(str(path), text(path, must_exist=must_exist))


def text(path: Path, *, must_exist: bool = False) -> str:
    """The text of a settings file without byte order mark, with its line endings. Raises FileError."""
    try:
        # a file that was named may be a pipe; one that is only looked for must not let a start wait
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if must_exist else os.O_NONBLOCK)), "rb") as file:
            if not must_exist and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise FileError(str(path), "is a pipe, not a settings file.", hint="Remove it.")
            raw = file.read(LARGEST + 1)
    except FileNotFoundError:
        if must_exist:
            raise FileError(str(path), "no such file") from None
        return ""
    except OSError as error:
        raise FileError(str(path), f"cannot be read: {error.strerror}") from None
    if len(raw) > LARGEST:
        raise FileError(str(path), f"is larger than {LARGEST:,} bytes; this is not a settings file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FileError(str(path), "is not UTF-8 text.", line=line, hint="Save it as UTF-8.") from None


def parse(path: str, content: str) -> dict[str, Any]:
    """The validated data of a settings text. `path` is for messages. Raises FileError with line and field."""
    data = parse_toml(path, content) if content else {}
    _require_valid(path, content, data)
    return data


def _require_valid(path: str, content: str, data: dict[str, Any]) -> None:
    for problem in validate.problems(data) if data else ():
        line = line_of(content, problem.path)
        raise FileError(path, problem.text, line=line, field=".".join(problem.path), hint=problem.hint)


def parse_toml(path: str, content: str) -> dict[str, Any]:
    """The data of a TOML text. Raises FileError with the line."""
    import re
    import tomllib  # takes 2 ms; most runs read no such file

    try:
        return tomllib.loads(content.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+)", str(error))
        line = int(found.group(1)) if found else content.count("\n") + 1
        problem = re.sub(r" \(at .*\)$", "", str(error))
    except RecursionError:
        line, problem = 0, "nested too deeply"
    written = content.split("\n")[line - 1 : line]
    bare = problem == "Invalid value" and any(re.match(r"[^=]*=\s*[A-Za-z~/]", row) for row in written)
    hint = 'Text needs quotes: model = "opus".' if bare else ""
    raise FileError(path, f"is not valid TOML: {problem}.", line=line, hint=hint)


def line_of(content: str, path: Sequence[str]) -> int:
    """The line (from 1) of the key `path`, or of the nearest table that contains it; 0 if not found."""
    import re

    table: tuple[str, ...] = ()
    best, depth = 0, 0
    for number, line in enumerate(content.splitlines(), 1):
        if header := re.match(r"\s*\[\[?([^\[\]]+)\]\]?\s*(#.*)?$", line):
            table = _dotted(header.group(1))
            found = table
        elif key := re.match(r"\s*([A-Za-z0-9_.\-\"' ]+?)\s*=", line):
            found = (*table, *_dotted(key.group(1)))
        else:
            continue
        common = min(len(found), len(path))
        if found[:common] == tuple(path[:common]) and common > depth:
            best, depth = number, common
    return best


def _dotted(name: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in name.split("."))


def lookup(settings: Settings, name: str) -> object:
    """The value of a dotted name such as `limits.max_cost`. Raises UsageError with the closest name."""
    value: object = settings
    parts = tuple(name.split("."))
    for part in parts:
        if isinstance(value, msgspec.Struct) and part in value.__struct_fields__:
            value = getattr(value, part)
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            raise UsageError(f"There is no setting {name}.", hint=validate.suggestion(parts))
    return value


def rows(loaded: Loaded) -> list[tuple[str, str, str]]:
    """All settings as (dotted name, value as in TOML, source). The values of HTTP headers are hidden."""
    found = []
    for name, value in _leaves(msgspec.to_builtins(loaded.settings)):
        shown = "(hidden)" if ".headers." in name and name.startswith("providers.") else _as_toml(value)
        found.append((name, shown, loaded.sources.get(name, "default")))
    return found


def _as_toml(value: object) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


def _leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _get(data: Mapping[str, Any], name: str) -> Any:
    """The value at a dotted name, or the default if it is not set."""
    value: Any = data
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return lookup(_DEFAULTS, name)
        value = value[part]
    return value


def _put(data: dict[str, Any], name: str, value: object) -> None:
    *parents, last = name.split(".")
    for part in parents:
        data = data.setdefault(part, {})
    data[last] = value


def kind_of(parts: tuple[str, ...]) -> Any:
    """The type of the setting `parts`. Raises UsageError with the closest name if it does not exist."""
    try:
        return validate.kind_of(parts)
    except KeyError:
        raise UsageError(f"There is no setting {'.'.join(parts)}.", hint=validate.suggestion(parts)) from None


def _override(data: dict[str, Any], name: str, value: object, source: str) -> None:
    """Set a value from a flag or variable. A list (rules) is added before the list in the file."""
    kind = kind_of(tuple(name.split(".")))
    if isinstance(value, (list, tuple)):
        value = [*value, *_get(data, name)]
    if (problem := validate.type_error(value, kind)) is not None:
        raise UsageError(f"{source}: {problem}.")
    _put(data, name, value)


def _tighten(data: dict[str, Any], path: Path, sources: dict[str, str], notices: list[str]) -> None:
    """Apply the stricter values of a project's file; add a notice for each value that is ignored."""
    content = text(path)
    if not content:
        return
    raw = parse_toml(str(path), content)
    allowed: dict[str, Any] = {}
    for name, value in _leaves(raw):
        if name not in PROJECT_KEYS and _reserved(name):
            notices.append(f"{path}: {name} is ignored: a project can only tighten settings.")
        else:
            _put(allowed, name, value)  # an unknown key must be reported: it may be a misspelled rule
    _require_valid(str(path), content, allowed)
    for name, value in _leaves(allowed):
        if name == "permissions.rules" and (looser := [r for r in value if r["decision"] == "allow"]):
            value = [rule for rule in value if rule not in looser]
            notices += [f"{path}: the rule {r['rule']} is ignored: a project cannot allow calls." for r in looser]
        stricter = _stricter(name, _get(data, name), value)
        if stricter is None:
            notices.append(f"{path}: {name} = {_as_toml(value)} is ignored: it is less strict than yours.")
            continue
        _put(data, name, stricter)
        sources[name] = str(path)


_NEVER = frozenset(("yolo", "env", "add_dir", "add_dirs", "extra_dirs", "trust", "hooks"))


def _reserved(name: str) -> bool:
    """Whether `name` is a setting that a project can never set."""
    if name.split(".")[0] in _NEVER or name.startswith("providers."):
        return True
    try:
        kind = validate.kind_of(tuple(name.split(".")))
    except KeyError:
        return False
    return validate.struct_in(kind) is None


def _stricter(name: str, mine: Any, theirs: Any) -> Any:
    """The stricter of two values; None if the project's value is less strict."""
    if name in _ADD:
        return [*mine, *(rule for rule in theirs if rule not in mine)]
    if name == "mode":
        return theirs if _STRICTNESS.index(theirs) <= _STRICTNESS.index(mine) else None
    if name in _OFF:
        return theirs if mine or not theirs else None
    return theirs if mine is None or theirs <= mine else None


def _settings(data: dict[str, Any]) -> Settings:
    delegation = data.get("agents", {}).get("delegation", {})
    if "token_budget" in delegation:
        budget = {"default": 50_000, "max": 200_000} | delegation["token_budget"]
        delegation["token_budget"] = budget | {"default": min(budget["default"], budget["max"])}
    tools = data.get("tools", {})
    if "bash_max_timeout" in tools or "bash_timeout" in tools:
        longest = tools.get("bash_max_timeout", _DEFAULTS.tools.bash_max_timeout)
        data["tools"] = tools | {"bash_timeout": min(tools.get("bash_timeout", _DEFAULTS.tools.bash_timeout), longest)}
    made = {name: _made(getattr(_DEFAULTS, name), value) for name, value in data.items()}
    others = {name: value for name, value in data.items() if made[name] is None}
    settings = msgspec.convert(others, Settings) if others else _DEFAULTS
    return msgspec.structs.replace(settings, **{name: value for name, value in made.items() if value is not None})


def _made(default: object, value: Any) -> object:
    """A text or a table of the settings; None for another value. A table alone is converted without the types of all others."""
    if isinstance(default, msgspec.Struct):
        return msgspec.convert(value, type(default))
    return value if isinstance(value, str) else None


_DEFAULTS = Settings()
