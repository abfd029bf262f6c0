"""Renders profiles as text for `friday profiles list`, `show` and `new`."""

from __future__ import annotations

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.limits import Limits
from friday_cli.core.tool_catalog import TOOLS

from .lookup import Profiles
from .profile import Profile

COLUMNS = ("name", "from", "tools", "limits", "delegates to", "description")

TEMPLATE = """\
---
name: {name}
description: What it does and when to use it, in one sentence. The delegating agent reads this.
maxTokenBudget: 50000
maxIterations: 20
timeout: 300
# Without allowedTools it can only read. []: no tools. "*": all tools of its parent.
allowedTools:
  - read_file
  - list_dir
  - glob
  - grep
  - task_result
# More keys: disallowedTools, maxCost (US dollars), model, effort, temperature, subAgents (profiles it may delegate to),
# memory (none, read, tagged), mode (ask, edits, plan, auto), projectContext (true: it gets AGENTS.md), resultChars,
# mcpServers (MCP servers whose tools it may use).
---

# {title}

Who it is and for whom it works, in two sentences.

## How you work

1. What to read first.
2. What to do next, and how to check it.

## Form of your result

What it must contain, in which order, with which evidence.

## When to stop

When the task is done, and when to give up and report it.

## Two failures to avoid

- **The likely mistake.** Instead: what to do.
- **The tempting shortcut.** Instead: what to do.
"""


def template(name: str) -> str:
    """The text of a new profile file. Raises UsageError when `name` cannot be one."""
    from .parse import NAME, NAME_HINT  # most sessions make no profile

    if not NAME().fullmatch(name):
        raise UsageError(f"{name!r} is not a valid profile name.", hint=NAME_HINT)
    return TEMPLATE.format(name=name, title=name.replace("-", " ").replace("_", " ").capitalize())


def rows(profiles: Profiles) -> list[tuple[str, str, str, str, str, str]]:
    """One row of `COLUMNS` for each profile, by name."""
    listed = (profiles.found[name] for name in profiles.names())
    return [(p.name, p.origin, tools(p), limits(p.limits), delegates_to(p), p.description) for p in listed]


def tools(profile: Profile) -> str:
    """The number of tools it may use, as text."""
    if profile.allowed_tools == "*":
        return "parent's" + (f" except {len(profile.disallowed_tools)}" if profile.disallowed_tools else "")
    if profile.allowed_tools == ():
        return "none"
    return str(len(profile.select(TOOLS.names - TOOLS.granted_by("harness") - TOOLS.granted_by("skills"))))


def limits(given: Limits) -> str:
    """The limits that are set, as text; "" if none is."""
    parts = [
        f"{given.tokens:,} tokens" if given.tokens else "",
        f"{given.turns} turns" if given.turns else "",
        f"{given.time_s:g} s" if given.time_s else "",
        f"${given.cost:g}" if given.cost else "",
    ]
    return ", ".join(part for part in parts if part)


def delegates_to(profile: Profile) -> str:
    """The profiles that it may delegate to, as text."""
    return "all profiles" if profile.sub_agents == "*" else ", ".join(profile.sub_agents) or "none"


def servers(profile: Profile) -> str:
    """The MCP servers that it names, as text."""
    return ", ".join(f"{n} (defined here)" if n in profile.mcp_inline else n for n in profile.mcp_servers)


def model(profile: Profile) -> str:
    """Its model, effort, service tier and temperature, as text; "" if all are those of its parent."""
    sampling = "" if profile.temperature is None else f"temperature {profile.temperature:g}"
    ladder = f"{', then '.join(profile.models)} until `{profile.check}` passes" if profile.models else ""
    ladder += ", each from the start" if profile.ladder else ""
    tier = profile.service_tier and f"tier {profile.service_tier}"
    return " ".join(part for part in (ladder or profile.model, profile.effort, tier, sampling) if part)


def facts(profile: Profile) -> list[tuple[str, str]]:
    """Everything about a profile except its prompt, as names and texts; a text is "" where it sets nothing."""
    listed = ", ".join(sorted(profile.select(TOOLS.names))) or "none"
    return [
        ("file", f"{profile.path} ({profile.origin})"),
        ("description", profile.description),
        ("tools", "those of its parent" if profile.allowed_tools == "*" else listed),
        ("disallowed", ", ".join(profile.disallowed_tools)),
        ("only", ", ".join(profile.only)),
        ("denied", ", ".join(profile.deny)),
        ("limits", limits(profile.limits) or "those of the settings"),
        ("model", model(profile) or "that of its parent"),
        ("mode", profile.mode or "that of its parent"),
        ("memory", profile.memory),
        ("delegates to", delegates_to(profile)),
        ("MCP servers", servers(profile)),
        ("result", f"at most {profile.result_chars:,} characters at once" if profile.result_chars else ""),
        ("skills", "those of its parent" if profile.skills is None else ", ".join(profile.skills) or "none"),
        ("preloads", ", ".join(profile.preload_skills)),
        ("AGENTS.md", "in its prompt" if profile.project_context else "not in its prompt"),
        ("notices", "; ".join(profile.notices)),
    ]


def show(profile: Profile) -> str:
    """Everything about a profile, for a person."""
    rows = facts(profile)
    width = max(len(name) for name, _ in rows)
    head = "\n".join(f"{name:<{width}}  {value}" for name, value in rows if value)
    return f"{profile.name}\n\n{head}\n\n{profile.prompt}\n"
