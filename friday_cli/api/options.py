"""The options of a session, as a program gives them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from friday_cli.agents.caller import Caller
from friday_cli.agents.program import CanUse, HookFunction, Program
from friday_cli.core.permissions.decision import MODES, Mode
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.provider import Effort, ServiceTier
from friday_cli.session.open_context import Options

from .own_tools import OwnTool

CALLER_NAME = "python"
"""How the log names the program that makes calls of the main agent."""


class OpenOptions(TypedDict, total=False):
    """The options of a session. An option that is left out is as the settings say, as for `friday ask`."""

    cwd: str | os.PathLike[str]
    """The folder to work in; default: the current one."""
    add_dirs: Sequence[str | os.PathLike[str]]
    """More folders to work in."""
    model: str | None
    """`provider/model[:effort]` or an alias."""
    effort: Effort | None
    subagent_model: str | None
    """The model of sub-agents whose profile does not name one."""
    fallback_model: str | None
    """The model to continue with if the first one stays overloaded."""
    service_tier: ServiceTier | None
    """The tier of the service that requests are sent to."""
    profile: str | None
    """The profile of the main agent."""
    sub_agents: Sequence[str] | None
    """The only profiles that the main agent may delegate to."""
    mode: Mode | None
    allow: Sequence[str]
    """Permission rules such as `bash(git *)`."""
    deny: Sequence[str]
    """Rules for calls that are always refused."""
    trusted: bool
    """Treat the folder as trusted in this session."""
    resume: str | None
    """A unique prefix of the id of a session."""
    max_tokens: int | None
    """For the whole session."""
    max_cost: float | None
    """US dollars for the whole session."""
    max_turns: int | None
    """Turns of the main agent, for one prompt."""
    timeout_s: float | None
    """Active seconds of the main agent, for one prompt."""
    attended: bool
    """Permissions and questions are events and wait for `OpenSession.answer`. Without it, what would be asked is denied."""
    can_use: CanUse | None
    """Is asked about every call of every agent, and can refuse it."""
    tools: Sequence[OwnTool]
    """Functions that `tool` has made into tools."""
    hooks: Mapping[str, Sequence[HookFunction]]
    """Functions by the event of docs/hooks.md."""
    mcp_config: Sequence[str]
    """Files or JSON with more MCP servers."""
    no_mcp: bool
    """Use only the servers of `mcp_config`."""
    config_file: str | os.PathLike[str] | None
    """A settings file to use instead of the user's."""
    env: Mapping[str, str] | None
    """Replaces the environment of the process."""


class DelegateOptions(TypedDict, total=False):
    """The options of a delegation. Its limits only lower those of the profile and of the session."""

    context: str
    """What the sub-agent reads beside its task."""
    max_tokens: int | None
    max_cost: float | None
    """US dollars."""
    max_turns: int | None
    timeout_s: float | None
    """Active seconds."""
    schema: dict[str, object] | None
    """A JSON Schema that the result must fit; it is in `data` then."""
    isolation: Literal["", "worktree"]
    resume: str
    """The path of an ended sub-agent that continues with the task; the profile does not count then."""


def require_known(given: Mapping[str, object], options: type[OpenOptions] | type[DelegateOptions]) -> None:
    """Raises UsageError for an option that is unknown."""
    if unknown := sorted(given.keys() - options.__annotations__.keys()):
        raise UsageError(
            f"There is no option {unknown[0]!r}.", hint=f"The options: {', '.join(options.__annotations__)}."
        )


def session_options(given: OpenOptions, *, resume: str | None) -> Options:
    """The options of a session. `resume`: its whole id. Raises UsageError for an option that is unknown or has a wrong value."""
    require_known(given, OpenOptions)
    own: Sequence[object] = given.get("tools", ())
    tools = tuple(one.tool for one in own if isinstance(one, OwnTool))
    if len(tools) < len(own):
        raise UsageError("tools: each must be made by `tool`.")
    if wrong := [event for event, functions in given.get("hooks", {}).items() if callable(functions)]:
        raise UsageError(f"hooks: {wrong[0]} needs a list of functions.")
    if len({tool.name for tool in tools}) < len(tools):
        raise UsageError("tools: two of them have the same name.")
    if (mode := given.get("mode")) not in (None, *MODES):
        raise UsageError(f"mode: {mode!r} is not one of {', '.join(MODES)}.")
    config_file = given.get("config_file")
    return Options(
        Path(given.get("cwd") or "."),
        add_dirs=tuple(map(Path, given.get("add_dirs", ()))),
        model=given.get("model"),
        effort=given.get("effort"),
        profile=given.get("profile"),
        mode=mode,
        allow=_texts("allow", given.get("allow", ())),
        deny=_texts("deny", given.get("deny", ())),
        attended=given.get("attended", False),
        trusted=given.get("trusted", False),
        resume=resume,
        config_file=None if config_file is None else Path(config_file),
        flags=_flags(given),
        sub_agents=None if (only := given.get("sub_agents")) is None else _texts("sub_agents", only),
        mcp_config=_texts("mcp_config", given.get("mcp_config", ())),
        no_mcp=given.get("no_mcp", False),
        caller=Caller(CALLER_NAME, None, alone=False),
        program=Program(tools, given.get("hooks", {}), given.get("can_use")),
    )


def _flags(given: OpenOptions) -> dict[str, Any]:
    limits = {"max_tokens": "max_tokens", "max_cost": "max_cost", "max_turns": "max_turns", "timeout_s": "timeout"}
    flags: dict[str, Any] = {f"limits.{setting}": given.get(name) for name, setting in limits.items()}
    return flags | {name: given.get(name) for name in ("fallback_model", "subagent_model", "service_tier")}


def _texts(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """`given` as a tuple. Raises UsageError for one text in place of several."""
    if isinstance(given, str):
        raise UsageError(f"{name}: expected a list of texts, not one text.")
    return tuple(given)
