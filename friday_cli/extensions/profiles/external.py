"""The key `external` of a profile: another program, an agent of its own, does the work."""

from __future__ import annotations

from typing import Any, cast, get_args

from friday_cli.core.text.suggest import closest_match

from .profile import ExternalAgent, Wire
from .schema import ProfileFields

KNOWN = ("claude-code", "codex", "gemini", "opencode", "qwen-code")
"""The programs that Friday knows how to start. `friday_cli.external_agents.programs` has a row for each."""
TOKENS, TURNS, TIMEOUT_S = 200_000, 60, 1_800.0
"""Tokens, turns and active seconds of an external agent whose profile sets none: one small task took up to 125,000 tokens."""
_HINT = f"Known: {', '.join(KNOWN)}. In your own profiles also {{acp: [program, argument]}}."
_WITHOUT_EFFECT = (
    "effort",
    "service_tier",
    "temperature",
    "supervision",
    "sub_agents",
    "skills",
    "preload_skills",
    "mcp_servers",
    "memory",
)
"""Keys that only an agent with a model of Friday's own follows."""


def read(fields: ProfileFields, *, own: bool) -> ExternalAgent | None:
    """The program of a profile; None if the profile names none. `own`: it is a profile of the user, which may name any program. Raises
    FileError."""
    value = fields.values.get("external")
    if value is None:
        return None
    if isinstance(value, dict):
        found = _described(fields, value, own=own)
    else:
        name = fields.text("external")
        if name not in KNOWN:
            close = closest_match(name, KNOWN)
            hint = f"Did you mean {close}?" if close else _HINT
            raise fields.fail("external", f"{name!r} is not a program that Friday knows.", hint)
        found = ExternalAgent(name)
    if ignored := [fields.written[key] for key in _WITHOUT_EFFECT if key in fields.values]:
        fields.note(f"{', '.join(ignored)}: no effect for an external agent.")
    return found


def _described(fields: ProfileFields, value: dict[str, Any], *, own: bool) -> ExternalAgent:
    """A program that the user describes."""
    if not own:
        problem = "only your own profiles may say which program runs; this one may only name a known program."
        raise fields.fail("external", problem, _HINT)
    if unknown := [key for key in value if key not in ("acp", "env", "wire")]:
        raise fields.fail("external", f"unknown key {unknown[0]!r}.", "It has acp, env and wire.")
    argv, env, wire = value.get("acp"), value.get("env", {}), value.get("wire", "none")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) and word for word in argv):
        raise fields.fail("external", "acp must be a list of words.", "Example: {acp: [my-agent, --acp]}.")
    if not isinstance(env, dict) or not all(isinstance(one, str) for pair in env.items() for one in pair):
        raise fields.fail("external", "env must have names and texts.", "Put the values in quotes.")
    if wire not in get_args(Wire):
        raise fields.fail("external", f"wire: {wire!r} is not one of {', '.join(get_args(Wire))}.")
    return ExternalAgent("", tuple(argv), dict(env), cast(Wire, wire))
