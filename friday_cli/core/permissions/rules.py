"""Permission decisions by rules and modes. Deny overrides ask, and ask overrides allow. A sub-agent has the stricter of
its parent's rights and its own profile's, evaluated for each call."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from ..protocol.shell_script import SimpleCommand
from ..protocol.tool_info import EXTERNAL_PREFIXES, SKILL, WEB_SEARCH, Effect, ToolCatalog
from ..text.sanitize import sanitize_line
from .dangerous import is_protected, is_secret
from .rule import (
    ESCALATED,
    Decision,
    Rule,
    RuleInput,
    allowing_rule,
    allowing_rule_for_step,
    exceeded_by,
    matching_rule,
    names_host,
    parse_rule,
    possible_rule,
)

Mode = Literal["ask", "edits", "plan", "auto", "yolo"]
MODES: tuple[Mode, ...] = ("ask", "edits", "plan", "auto", "yolo")
_STRICTNESS: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}

_DEFAULTS: dict[str, dict[Effect, Decision]] = {
    "ask": {"write": "ask", "run": "ask", "net": "ask"},
    "edits": {"write": "allow", "run": "ask", "net": "ask"},
    "plan": {"write": "deny", "run": "deny", "net": "ask", "save": "deny"},
    "auto": {"write": "allow", "run": "ask", "net": "ask"},
    "confined": {"write": "allow", "net": "ask"},
    "yolo": {},
}
"""The decision of a mode about an effect without a matching rule; "allow" for missing effects."""
_CHANGES: frozenset[Effect] = frozenset(("write", "run", "save"))
"""Effects that mode plan denies whatever rules allow, except for read-only commands."""
_ANSWERS = {"allow": "is allowed", "ask": "needs permission", "deny": "is refused"}


class PermissionDecision(msgspec.Struct, frozen=True):
    """A decision with its reason as text. `rule` is the rule that decided, "" when it was a mode or `always_ask_reason`, and
    `source` where the rule is defined. `read_only`: a command is allowed only because it reads, so it may do nothing else."""

    decision: Decision
    reason: str = ""
    rule: str = ""
    source: str = ""
    read_only: bool = False


class Taint(Protocol):
    """A check besides the rules, such as of untrusted text that the session has read."""

    def approval_reason(self, call: RuleInput, arguments: object, rules: Rules) -> str:
        """Why a call that `rules` allow still needs permission, "" when it does not."""


class Rules:
    """The rights of one agent. `allowed` is its allowlist of tool names (None: those of the parent); `tools` is the
    catalogue of its session. `skills` are patterns for the names of the skills that it may see and load (None: those of the
    parent). `skill_folders`, shared by all agents, are the folders outside the workspace of the skills that were loaded: an
    agent reads there only if it may load that skill. `narrowed` restricts it further while a skill runs, by name.

    A tool that a rule in `only` names may run only for calls that these rules match. Rules with a `profile` apply to
    agents with that profile; deny and ask rules of an agent apply to such agents below it too. `outermost`: these are the
    rights of the session, and not an agent's below it.
    """

    def __init__(
        self,
        *,
        mode: Mode,
        tools: ToolCatalog,
        rules: Iterable[Rule] = (),
        allowed: frozenset[str] | None = None,
        only: Iterable[Rule] = (),
        parent: Rules | None = None,
        profile: str = "",
        skills: tuple[str, ...] | None = None,
    ) -> None:
        self.mode: Mode = mode
        self.tools = tools
        self.rules = list(rules)
        self.only = tuple(only)
        self.allowed = allowed
        self.parent = parent
        self.profile = profile
        self.skills = skills
        self.skill_folders: dict[str, str] = {} if parent is None else parent.skill_folders
        self.narrowed: dict[str, Rules] = {}
        self.outermost = parent is None

    def child(
        self,
        *,
        allowed: frozenset[str] | None,
        mode: Mode | None = None,
        rules: Iterable[Rule] = (),
        only: Iterable[Rule] = (),
        profile: str = "",
        skills: tuple[str, ...] | None = None,
    ) -> Rules:
        """The rights of a sub-agent: never more than these. Without a `mode` it has its parent's."""
        return Rules(
            mode=mode or "yolo", tools=self.tools, rules=rules, allowed=allowed, only=only, parent=self, profile=profile,
            skills=skills,
        )  # fmt: skip

    @property
    def effective_mode(self) -> Mode:
        """The strictest mode of this agent and its ancestors, as people see it."""
        modes = [self.mode] if self.parent is None else [self.mode, self.parent.effective_mode]
        return min(modes, key=("plan", "ask", "edits", "auto", "yolo").index)

    def decide(self, call: RuleInput) -> PermissionDecision:
        """The strictest decision of this agent's rights, its ancestors', and those of the skills that run."""
        above = [] if self.parent is None else [self.parent.decide(call)]
        found = [*above, self._decide(call), *(bound.decide(call) for bound in self.narrowed.values())]
        stricter = max(found, key=lambda permission: _STRICTNESS[permission.decision])  # the first of the strictest
        read_only = stricter.decision == "allow" and any(permission.read_only for permission in found)
        return msgspec.structs.replace(stricter, read_only=read_only)

    def decide_cost(self, dollars: float | None) -> PermissionDecision:
        """The strictest decision by rules of this agent and its ancestors on a delegation that nine times of ten costs at most
        `dollars` (None if that is unknown)."""
        found = [PermissionDecision("allow")] if self.parent is None else [self.parent.decide_cost(dollars)]
        found += [_decided_by(rule, "the usual cost exceeds") for rule in self._binding() if exceeded_by(rule, dollars)]
        return max(found, key=lambda permission: _STRICTNESS[permission.decision])

    def may(self, tool: str) -> bool:
        """Whether the allowlists of this agent and its ancestors contain `tool`."""
        return (self.allowed is None or tool in self.allowed) and (self.parent is None or self.parent.may(tool))

    def may_load(self, skill: str) -> bool:
        """Whether this agent and its ancestors may see and load the skill with this name."""
        own = self.skills is None or any(fnmatch.fnmatchcase(skill, wanted) for wanted in self.skills)
        return own and (self.parent is None or self.parent.may_load(skill))

    def _refused_skill(self, call: RuleInput) -> str:
        """The skill that a call loads, or whose files it reads, though this agent may not load it; "" for none."""
        if call.tool == SKILL:
            names = list(call.subjects)
        elif call.effect == "read" and self.skill_folders:
            folders = self.skill_folders.items()
            names = [name for at in call.subjects for top, name in folders if at == top or at.startswith(f"{top}/")]
        else:
            return ""
        return next((name for name in names if not self.may_load(name)), "")

    def file_calls(self, effect: Effect, labels: Sequence[str]) -> list[RuleInput]:
        """The calls of file tools with the same effect on these paths as a command."""
        return [RuleInput(tool, effect, tuple(labels)) for tool in self.tools.for_files(effect)]

    def names_host(self, host: str) -> bool:
        """Whether an allow rule names this host or a parent domain."""
        mine = any(rule.decision == "allow" and names_host(rule, host) for rule in self.rules)
        return mine or (self.parent is not None and self.parent.names_host(host))

    def _binding(self) -> list[Rule]:
        """The rules that apply to this agent: its own, and its ancestors' deny and ask rules for its profile."""
        mine = [rule for rule in self.rules if not rule.profile or fnmatch.fnmatchcase(self.profile, rule.profile)]
        above = self.parent
        while above is not None:
            mine += [
                rule
                for rule in above.rules
                if rule.profile and rule.decision != "allow" and fnmatch.fnmatchcase(self.profile, rule.profile)
            ]
            above = above.parent
        return mine

    def _decide(self, call: RuleInput) -> PermissionDecision:
        if self.allowed is not None and call.tool not in self.allowed:
            return PermissionDecision("deny", f"{call.tool} is not in this agent's list of allowed tools")
        if refused := self._refused_skill(call):
            return PermissionDecision(
                "deny", f"the skill {sanitize_line(refused, 80)} is not in this agent's list of skills"
            )
        mine = [rule for rule in self.only if fnmatch.fnmatchcase(call.tool, rule.tool)]
        if mine and allowing_rule(mine, call) is None:
            return PermissionDecision("deny", f"this agent may use {call.tool} only for {', '.join(map(str, mine))}")
        rules = self._binding()
        for decision in ("deny", "ask"):
            if (rule := matching_rule(rules, call, decision, self.tools)) is not None:
                return _decided_by(rule, "denied by" if decision == "deny" else "asked about by")
        escalated = call.sandbox_access in ESCALATED and self.mode != "yolo"
        if call.effect in _CHANGES and self.mode == "plan":
            return (
                PermissionDecision("deny", "mode plan stays in the sandbox")
                if escalated
                else self._decide_in_plan_mode(call)
            )
        if reason := always_ask_reason(call, self.mode):
            return PermissionDecision("ask", reason)
        if escalated:
            return self._decide_escalated(call, rules)
        if (unseen := possible_rule(rules, call, self.tools)) is not None:
            rule, why = unseen
            return PermissionDecision("ask", f"{why}, so the rule {rule} may apply to it", str(rule), rule.source)
        if (rule := allowing_rule(rules, call)) is not None:
            return _decided_by(rule, "allowed by")
        if call.script is not None and not call.script.trouble and call.script.steps:
            found = [self._decide_step(call, step, rules) for step in call.script.steps]
            strictest = max(found, key=lambda permission: _STRICTNESS[permission.decision])
            only = all(step.read_only for step in call.script.steps) and self._by_mode(call).decision != "allow"
            return msgspec.structs.replace(strictest, read_only=only)
        return self._by_mode(call, call.script.trouble if call.script else "")

    def _decide_escalated(self, call: RuleInput, rules: Sequence[Rule]) -> PermissionDecision:
        """A call that leaves the sandbox needs permission unless a rule for that (`bash_outside(...)`) allows it."""
        name = f"{call.tool}_{call.sandbox_access}"
        mine = [rule for rule in rules if rule.tool == name]
        if (rule := allowing_rule(mine, msgspec.structs.replace(call, tool=name))) is not None:
            return _decided_by(rule, "allowed by")
        words = (
            "with the network on" if call.sandbox_access == "network" else "outside the sandbox, with all your rights"
        )
        why = f', because: "{sanitize_line(call.justification, 300)}"' if call.justification else ""
        return PermissionDecision("ask", f"it wants to run {words}{why}")

    def _decide_in_plan_mode(self, call: RuleInput) -> PermissionDecision:
        """Mode plan only reads, whatever rules allow."""
        if call.script is not None and not call.script.trouble and call.script.steps:
            other = next((step for step in call.script.steps if not step.read_only), None)
            if other is None and not always_ask_reason(call, self.mode):
                return PermissionDecision("allow", "mode plan: it only reads", read_only=True)
            if other is not None:
                return PermissionDecision(
                    "deny", f"mode plan changes nothing, and {other.why} ({sanitize_line(other.raw, 60)})"
                )
        return self._by_mode(call, call.script.trouble if call.script else "")

    def _decide_step(self, call: RuleInput, step: SimpleCommand, rules: Sequence[Rule]) -> PermissionDecision:
        """The decision on one simple command."""
        if step.read_only:
            return PermissionDecision("allow", step.why)
        if step.writes and not step.dynamic_arguments:
            found = [self._decide(wanted) for wanted in self.file_calls("write", step.writes) if self._has(wanted.tool)]
            if found:
                return max(found, key=lambda permission: _STRICTNESS[permission.decision])
        if (rule := allowing_rule_for_step(rules, call, step)) is not None:
            return _decided_by(rule, "allowed by")
        return self._by_mode(call, step.why or step.dynamic_arguments)

    def _has(self, tool: str) -> bool:
        return self.allowed is None or tool in self.allowed

    def _by_mode(self, call: RuleInput, why: str = "") -> PermissionDecision:
        mode = "confined" if self.mode == "auto" and call.sandbox_access == "confined" else self.mode
        decision = _DEFAULTS[mode].get(call.effect, "allow")
        more = f" ({why})" if why and decision != "allow" else ""
        return PermissionDecision(decision, f"mode {self.mode}: {call.tool} {_ANSWERS[decision]}{more}")


def decide(
    call: RuleInput, arguments: object, rules: Rules, taint: Taint, *, granted: Rule | None = None
) -> PermissionDecision:
    """The final decision on a call: that of the rules, made stricter by `taint`. `granted` is an allow rule that counts for
    this call as one of the session does."""
    if granted is None:
        permission = rules.decide(call)
    else:
        session = rules
        while session.parent is not None and not session.outermost:
            session = session.parent
        session.rules.append(granted)
        try:
            permission = rules.decide(call)
        finally:
            session.rules.remove(granted)
    if permission.decision != "deny" and (reason := taint.approval_reason(call, arguments, rules)):
        return PermissionDecision("ask", reason if permission.decision == "allow" else f"{permission.reason}; {reason}")
    return permission


def _decided_by(rule: Rule, words: str) -> PermissionDecision:
    more = f": {rule.reason}" if rule.reason else ""
    return PermissionDecision(rule.decision, f"{words} the rule {rule}{more}", str(rule), rule.source)


def always_ask_reason(call: RuleInput, mode: Mode = "ask") -> str:
    """Why a call needs permission in every mode, "" when it does not."""
    for subject in call.subjects:
        if call.effect == "write" and is_protected(subject):
            return f"{subject} is protected: asked in every mode"
        if call.effect == "read" and is_secret(subject):
            return f"{subject} may hold secrets: asked in every mode"
    for step in call.script.steps if call.script else ():
        if step.danger:
            return f"{step.danger}: asked in every mode"
        if bad := next((label for label in (*step.writes, *step.changes) if is_protected(label)), ""):
            return f"{bad} is protected: asked in every mode"
        if mode != "yolo" and (bad := next((label for label in step.reads if is_secret(label)), "")):
            return f"{bad} may hold secrets: asked whatever a rule allows"
    return ""


def suggested_rule(call: RuleInput) -> str:
    """The narrowest useful rules that would allow this call next time, one per line; "" when none should be offered."""
    if always_ask_reason(call) or call.sandbox_access in ESCALATED:
        return ""
    if call.effect == "spawn" and any(" " in subject for subject in call.subjects):  # a limit on agents, no profile
        return ""
    if call.tool == WEB_SEARCH or call.tool.startswith(EXTERNAL_PREFIXES):  # hardly ever are the arguments the same
        return call.tool
    texts = _of_command(call) if call.effect == "run" else _of_subject(call)
    rules = [parse_rule(text, "allow") for text in texts]
    if any(str(rule) != text or not rule.pattern for rule, text in zip(rules, texts, strict=True)):
        return ""
    if call.effect != "run":
        return texts[0] if rules and allowing_rule(rules, call) else ""
    steps = call.script.steps if call.script else ()
    fine = all(step.read_only or allowing_rule_for_step(rules, call, step) for step in steps)
    return "\n".join(texts) if texts and fine else ""


_OFFERED = 3
"""Rules that one question offers, at most."""


def _of_command(call: RuleInput) -> list[str]:
    """A rule for each command that is not allowed anyway; none when one of them must always be asked about."""
    if call.script is None or call.script.trouble or call.script.dynamic_program:
        return []
    steps = [step for step in call.script.steps if not step.read_only]
    if any(step.dynamic_arguments or step.writes or not step.suggest for step in steps):
        return []
    texts = list(dict.fromkeys(f"{call.tool}({step.suggest})" for step in steps))
    return texts if len(texts) <= _OFFERED else []


def _of_subject(call: RuleInput) -> list[str]:
    if len(call.subjects) != 1 or re.search(r"[*?\n]", call.subjects[0]):  # the rule would match more than this call
        return []
    return [f"{call.tool}({call.subjects[0]})"]
