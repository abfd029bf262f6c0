"""Permission rules of the form `tool(pattern)`, and calls as rules see them."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import Literal

import msgspec

from ..protocol.errors import UsageError
from ..protocol.shell_script import CommandAnalysis
from ..protocol.tool_info import DELEGATE_TASK, SERVER_PREFIX, CallEffect, Effect, ToolCatalog
from ..protocol.workspace import SandboxAccess
from .patterns import DOMAIN, any_depth, host_pattern, profile_pattern

Decision = Literal["allow", "ask", "deny"]


class Rule(msgspec.Struct, frozen=True):
    """`tool(pattern)`. Without a `pattern` the rule matches every call of the tool. `profile` limits it to agents of
    that profile ("" = all). The model and the person read `reason`; `source` is where the rule is defined, for
    people. `readings` are the other ways in which the pattern of a deny or ask rule names the same files."""

    tool: str
    pattern: str
    decision: Decision
    profile: str = ""
    reason: str = ""
    source: str = ""
    readings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool


class Allowlist(msgspec.Struct, frozen=True):
    """What an agent may use of all that its parent may."""

    tools: frozenset[str] | None = None
    """Names of the tools that it may call; None for those of its parent."""
    only: tuple[Rule, ...] = ()
    """A tool that one of them names may run only for calls that these match."""
    skills: tuple[str, ...] | None = None
    """Patterns for the names of the skills that it may see and load; None for those of its parent."""
    sub_agents: frozenset[str] | None = None
    """The only profiles that it may start itself; None for those of its profile."""

    def has(self, tool: str) -> bool:
        """Whether the tool may be called at all."""
        return self.tools is None or tool in self.tools

    def has_skill(self, name: str) -> bool:
        """Whether the skill may be seen and loaded."""
        return self.skills is None or any(fnmatch.fnmatchcase(name, wanted) for wanted in self.skills)


UNRESTRICTED = Allowlist()


def parse_rule(
    text: str,
    decision: Decision,
    tools: ToolCatalog | None = None,
    *,
    source: str = "",
    readings: Callable[[str], tuple[str, ...]] = lambda pattern: (),
) -> Rule:
    """A rule from `bash(git status *)`, `edit_file(src/**)`, `web_fetch(domain:x.org)`, `grep` or `mcp__SERVER`. With `tools` the
    syntax of other programs is read too: `Bash(git status:*)`. Rules that Friday wrote do not need it. `readings(pattern)` are
    further patterns of a deny or ask rule, which name the same files. Raises UsageError for invalid text."""
    match = re.fullmatch(r"\s*([A-Za-z_][\w*?-]*)\s*(?:\((.*)\))?\s*", text, re.S)
    if not match:
        raise UsageError(
            f"Invalid permission rule: {text!r}.", hint="Write a tool and a pattern, such as 'bash(git status *)'."
        )
    name, pattern = match[1], (match[2] or "").strip()
    tool = name
    if re.fullmatch(rf"{SERVER_PREFIX}(?:(?!__)[\w-])+", name):  # a whole server
        tool = f"{name}__*"
    if tools is not None:
        if name != name.lower():
            tool = next(iter(tools.named(name)), tool)
            if decision != "allow" and tools.effect(tool) in ("read", "write"):
                pattern = any_depth(pattern)
        if tools.effect(tool) == "run" and pattern.endswith(":*"):
            pattern = pattern[:-2] + " *"
    if pattern.startswith(_ESTIMATE) and (tool != DELEGATE_TASK or decision == "allow" or _limit(pattern) is None):
        raise UsageError(
            f"Invalid permission rule: {text!r}.",
            hint=f"Write {DELEGATE_TASK}(estimate>0.50), in US dollars, as an ask or deny rule.",
        )
    pattern = "" if pattern == "*" else pattern
    others: tuple[str, ...] = ()
    effect = None if tools is None else tools.effect(tool)
    if decision != "allow" and pattern and effect == "net" and not pattern.startswith(DOMAIN):
        others = (host_pattern(pattern),)
    elif decision != "allow" and effect == "spawn" and not pattern.startswith(_ESTIMATE):
        others = (profile_pattern(pattern),) if pattern else ()
    elif decision != "allow" and pattern and effect in ("read", "write", None):
        others = readings(pattern)
    return Rule(tool, pattern, decision, source=source, readings=others)


_ESTIMATE = "estimate>"


def _limit(pattern: str) -> float | None:
    """The US dollars of `estimate>0.50`, None for another pattern."""
    number = re.fullmatch(rf"{_ESTIMATE}\s*\$?(\d+(?:\.\d+)?)", pattern)
    return None if number is None else float(number[1])


def exceeded_by(rule: Rule, dollars: float | None) -> bool:
    """Whether a rule asks about or denies delegations that usually cost as much as `dollars`; None, an unknown cost,
    exceeds every limit."""
    limit = _limit(rule.pattern)
    return limit is not None and (dollars is None or dollars > limit)


class RuleInput(msgspec.Struct, frozen=True):
    """A call as rules see it: the tool, what it may change, one subject per thing that it uses, and the analysis of its command.
    `also` are its effects beside that of the subjects. Without a `script` no rule with a pattern allows a command, and commands inside it are not matched. `sandbox_access` is how
    far beyond a sandbox it goes, `justification` why the model says that it must."""

    tool: str
    effect: Effect
    subjects: tuple[str, ...] = ()
    script: CommandAnalysis | None = None
    sandbox_access: SandboxAccess = ""
    justification: str = ""
    also: tuple[CallEffect, ...] = ()


def rerun_after_read_only(call: RuleInput, denied: str) -> RuleInput:
    """The call of a command that ran read-only and failed there, for the decision whether it may run as
    usual. `denied` says what it was denied."""
    trouble = f"it ran read-only, and failed: {denied}"
    return msgspec.structs.replace(
        call, script=msgspec.structs.replace(call.script or CommandAnalysis(), trouble=trouble)
    )


ESCALATED = frozenset(("network", "outside"))
"""Access beyond a sandbox. Rules allow such calls by the names `bash_network` and `bash_outside`."""
