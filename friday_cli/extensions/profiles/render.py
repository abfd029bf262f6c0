"""Profiles as text: for `friday profiles list | show | new`."""

from __future__ import annotations

from friday_cli.core.protocol.errors import UsageError
from friday_cli.tool_catalog import TOOLS

from .lookup import Profiles
from .parse import NAME
from .profile import Profile

COLUMNS = ("name", "from", "tools", "limits", "description")

TEMPLATE = """\
---
name: {name}
description: What it does and when to send it, in one sentence. The agent that delegates reads this.
maxTokenBudget: 50000
maxIterations: 20
timeout: 300
# Without allowedTools it can only read. [] is no tool at all, "*" whatever its parent has.
allowedTools:
  - read_file
  - list_dir
  - glob
  - grep
  - task_result
# Others you can set: disallowedTools, maxCost (US dollars), model, effort, subAgents (whom it may delegate to),
# memory (none, read, tagged), mode (ask, edits, plan, auto), projectContext (true: it sees AGENTS.md).
---

# {title}

Who it is and for whom it works, in two sentences.

## How you work

1. What to look at first.
2. How to go on, and how to check it.

## Form of your result

What must be in it, in which order, with which evidence.

## When to stop

When it is done, and when to give up and say so.

## Two failures to avoid

- **The likely mistake.** Instead: what to do.
- **The tempting shortcut.** Instead: what to do.
"""


def template(name: str) -> str:
    """The text of a new profile file. Raises UsageError when `name` cannot be one."""
    if not NAME().fullmatch(name):
        raise UsageError(f"{name!r} is no profile name.", hint="Use small letters, digits, - and _, at most 64.")
    return TEMPLATE.format(name=name, title=name.replace("-", " ").replace("_", " ").capitalize())


def rows(profiles: Profiles) -> list[tuple[str, str, str, str, str]]:
    """One row of `COLUMNS` for each profile, by name."""
    return [
        (p.name, p.origin, tools(p), limits(p), p.description)
        for p in (profiles.found[name] for name in profiles.names())
    ]


def tools(profile: Profile) -> str:
    """How many tools it may use, in a word or two."""
    if profile.allowed_tools == "*":
        return "parent's" + (f" but {len(profile.disallowed_tools)}" if profile.disallowed_tools else "")
    return (
        str(len(profile.select(TOOLS.names - TOOLS.granted_by("harness")))) if profile.allowed_tools != () else "none"
    )


def limits(profile: Profile) -> str:
    """The limits it sets, in short; empty when it leaves all to the settings."""
    parts = [
        f"{profile.max_token_budget:,} tokens" if profile.max_token_budget else "",
        f"{profile.max_iterations} turns" if profile.max_iterations else "",
        f"{profile.timeout:g} s" if profile.timeout else "",
        f"${profile.max_cost:g}" if profile.max_cost else "",
    ]
    return ", ".join(part for part in parts if part)


def show(profile: Profile) -> str:
    """Everything about a profile, for a person."""
    listed = ", ".join(sorted(profile.select(TOOLS.names))) or "none"
    facts = [
        ("file", f"{profile.path} ({profile.origin})"),
        ("description", profile.description),
        ("tools", "its parent's" if profile.allowed_tools == "*" else listed),
        ("without", ", ".join(profile.disallowed_tools)),
        ("only", ", ".join(profile.only)),
        ("never", ", ".join(profile.deny)),
        ("limits", limits(profile) or "as set in the settings"),
        ("model", " ".join(part for part in (profile.model, profile.effort) if part) or "its parent's"),
        ("mode", profile.mode or "its parent's"),
        ("memory", profile.memory),
        ("delegates to", "anyone" if profile.sub_agents == "*" else ", ".join(profile.sub_agents) or "nobody"),
        ("AGENTS.md", "in its prompt" if profile.project_context else "not in its prompt"),
        ("remarks", "; ".join(profile.notices)),
    ]
    width = max(len(name) for name, _ in facts)
    head = "\n".join(f"{name:<{width}}  {value}" for name, value in facts if value)
    return f"{profile.name}\n\n{head}\n\n{profile.prompt}\n"
