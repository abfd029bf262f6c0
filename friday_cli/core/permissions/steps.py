"""The steps in which a call is decided by the rights of one agent. Their order, in `STEPS`, is the policy."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ..protocol.shell_script import SimpleCommand
from ..protocol.tool_info import SKILL, CallEffect, Effect
from ..text.sanitize import sanitize_line
from ..tool_catalog import TOOLS
from .dangerous import is_secret
from .decision import Mode, PermissionDecision, decided_by, stricter, strictest
from .matching import allowing_rule, allowing_rule_for_step, matching_rule, possible_rule
from .rule import ESCALATED, Allowlist, Decision, Rule, RuleInput
from .runs_later import is_protected

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


class Rights(msgspec.Struct, frozen=True):
    """The rights of one agent for one decision, without those above it."""

    mode: Mode | None
    """None: as above."""
    rules: Sequence[Rule]
    """Those that apply to it."""
    allowlist: Allowlist
    may_load: Callable[[str], bool]
    """Whether it may load the skill of this name."""
    skill_folders: Mapping[str, str]
    """Folders outside of the workspace, and the skills that they are of."""

    def refused_skill(self, call: RuleInput) -> str:
        """The skill that a call loads, or whose files it reads, though this agent may not load it; "" for none."""
        if call.tool == SKILL:
            names = list(call.subjects)
        elif self.skill_folders:
            folders = self.skill_folders.items()
            read = [at for one in _all_effects(call) if one.effect == "read" for at in one.subjects]
            names = [name for at in read for top, name in folders if at == top or at.startswith(f"{top}/")]
        else:
            return ""
        return next((name for name in names if not self.may_load(name)), "")

    def ruled(self, call: RuleInput) -> PermissionDecision | None:
        """The decision of its deny and ask rules; None if none meets the call."""
        return _denied_by_rule(self, call) or _asked_about_by_rule(self, call)


def decide_by_own_rights(rights: Rights, call: RuleInput) -> PermissionDecision:
    """The decision on a call by the rights of one agent alone: that of the first of `STEPS` which makes one; the last one
    always does."""
    for _, step in STEPS:
        if (found := step(rights, call)) is not None:
            return found
    raise AssertionError("the last step decides")


def always_ask_reason(call: RuleInput, mode: Mode = "ask") -> str:
    """Why a call needs permission in every mode, "" when it does not."""
    for effect in _all_effects(call):
        if effect.effect == "write" and (bad := next(filter(is_protected, effect.subjects), "")):
            return f"{bad} is protected: needs approval in every mode"
        if effect.effect == "read" and (bad := next(filter(is_secret, effect.subjects), "")):
            return f"{bad} may hold secrets: needs approval in every mode"
    for step in call.script.steps if call.script else ():
        if step.danger:
            return f"{step.danger}: needs approval in every mode"
        if bad := next((label for label in (*step.writes, *step.changes) if is_protected(label)), ""):
            return f"{bad} is protected: needs approval in every mode"
        if mode != "yolo" and (bad := next((label for label in step.reads if is_secret(label)), "")):
            return f"{bad} may hold secrets: needs approval whatever the rules allow"
    return ""


def _all_effects(call: RuleInput) -> tuple[CallEffect, ...]:
    """The effects of a call as modes see them: that of its tool, and those beside it."""
    return (CallEffect(call.effect, call.subjects), *call.also)


def _refused_by_allowlist(rights: Rights, call: RuleInput) -> PermissionDecision | None:
    if rights.allowlist.has(call.tool):
        return None
    return PermissionDecision("deny", f"{call.tool} is not in this agent's list of allowed tools")


def _refused_by_skill_list(rights: Rights, call: RuleInput) -> PermissionDecision | None:
    if refused := rights.refused_skill(call):
        return PermissionDecision(
            "deny", f"the skill {sanitize_line(refused, 80)} is not in this agent's list of skills"
        )
    return None


def _refused_by_only(rights: Rights, call: RuleInput) -> PermissionDecision | None:
    mine = [rule for rule in rights.allowlist.only if fnmatch.fnmatchcase(call.tool, rule.tool)]
    if mine and allowing_rule(mine, call) is None:
        return PermissionDecision("deny", f"this agent may use {call.tool} only for {', '.join(map(str, mine))}")
    return None


def _denied_by_rule(rights: Rights, call: RuleInput) -> PermissionDecision | None:
    met = matching_rule(rights.rules, call, "deny")
    return None if met is None else decided_by(met.rule, "denied by", met.effect)


def _asked_about_by_rule(rights: Rights, call: RuleInput) -> PermissionDecision | None:
    met = matching_rule(rights.rules, call, "ask")
    return None if met is None else decided_by(met.rule, "approval required by", met.effect)


def _in_plan_mode(rights: Rights, call: RuleInput) -> PermissionDecision | None:
    """Mode plan only reads, whatever rules allow."""
    if rights.mode != "plan" or all(one.effect not in _CHANGES for one in _all_effects(call)):
        return None
    if call.sandbox_access in ESCALATED:
        return PermissionDecision("deny", "mode plan never leaves the sandbox")
    if call.script is not None and not call.script.trouble and call.script.steps:
        other = next((step for step in call.script.steps if not step.read_only), None)
        if other is None and not always_ask_reason(call, rights.mode):
            return PermissionDecision("allow", "mode plan: the command only reads", read_only=True)
        if other is not None:
            return PermissionDecision(
                "deny", f"mode plan is read-only, and {other.why} ({sanitize_line(other.raw, 60)})"
            )
    return _by_mode(rights, call)


def _always_asked_about(rights: Rights, call: RuleInput) -> PermissionDecision | None:
    reason = always_ask_reason(call, rights.mode or "yolo")
    return PermissionDecision("ask", reason) if reason else None


def _leaving_the_sandbox(rights: Rights, call: RuleInput) -> PermissionDecision | None:
    """A call that leaves the sandbox needs permission unless a rule for that (`bash_outside(...)`) allows it."""
    if call.sandbox_access not in ESCALATED or rights.mode in (None, "yolo"):
        return None
    name = f"{call.tool}_{call.sandbox_access}"
    mine = [rule for rule in rights.rules if rule.tool == name]
    if (rule := allowing_rule(mine, msgspec.structs.replace(call, tool=name))) is not None:
        return decided_by(rule, "allowed by")
    words = "with the network on" if call.sandbox_access == "network" else "outside the sandbox, with all your rights"
    why = f', because: "{sanitize_line(call.justification, 300)}"' if call.justification else ""
    return PermissionDecision("ask", f"it would run {words}{why}")


def _unreadable_for_rules(rights: Rights, call: RuleInput) -> PermissionDecision | None:
    if (unseen := possible_rule(rights.rules, call)) is None:
        return None
    rule, why = unseen
    return PermissionDecision("ask", f"{why}, so the rule {rule} may apply to it", str(rule), rule.source)


def _allowed_by_rule(rights: Rights, call: RuleInput) -> PermissionDecision | None:
    rule = allowing_rule(rights.rules, call)
    if rule is None or not all(_is_allowed(rights, call, one) for one in call.also):
        return None
    return decided_by(rule, "allowed by")


def _is_allowed(rights: Rights, call: RuleInput, effect: CallEffect) -> bool:
    """Whether the mode, or a rule for this effect, allows an effect beside that of the tool."""
    names = TOOLS.spellings(effect.effect, pattern=True)
    alone = [RuleInput(name, effect.effect, effect.subjects) for name in names]
    return _decision_of_mode(rights.mode, call, effect.effect) == "allow" or any(
        allowing_rule(rights.rules, one) is not None for one in alone
    )


def _by_commands(rights: Rights, call: RuleInput) -> PermissionDecision | None:
    if call.script is None or call.script.trouble or not call.script.steps:
        return None
    found = [_decide_command(rights, call, step) for step in call.script.steps]
    only = all(step.read_only for step in call.script.steps) and _by_mode(rights, call).decision != "allow"
    return msgspec.structs.replace(strictest(found), read_only=only)


def _by_mode(rights: Rights, call: RuleInput, why: str = "") -> PermissionDecision:
    if rights.mode is None:
        return PermissionDecision("allow", "decided by its parent's rights")
    decision = _decision_of_mode(rights.mode, call, call.effect)
    for one in call.also:
        decision = stricter(decision, _decision_of_mode(rights.mode, call, one.effect))
    why = why or (call.script.trouble if call.script else "")
    more = f" ({why})" if why and decision != "allow" else ""
    return PermissionDecision(decision, f"mode {rights.mode}: {call.tool} {_ANSWERS[decision]}{more}")


def _decision_of_mode(mode: Mode | None, call: RuleInput, effect: Effect) -> Decision:
    if mode is None:
        return "allow"
    confined = mode == "auto" and call.sandbox_access == "confined"
    return _DEFAULTS["confined" if confined else mode].get(effect, "allow")


def _decide_command(rights: Rights, call: RuleInput, step: SimpleCommand) -> PermissionDecision:
    """The decision on one simple command."""
    if step.read_only:
        return PermissionDecision("allow", step.why)
    if step.writes and not step.dynamic_arguments:
        found = [
            decide_by_own_rights(rights, RuleInput(tool, "write", step.writes))
            for tool in TOOLS.spellings("write", pattern=True)
            if rights.allowlist.has(tool)
        ]
        if found:
            return strictest(found)
    if (rule := allowing_rule_for_step(rights.rules, call, step)) is not None:
        return decided_by(rule, "allowed by")
    return _by_mode(rights, call, step.why or step.dynamic_arguments)


STEPS: tuple[tuple[str, Callable[[Rights, RuleInput], PermissionDecision | None]], ...] = (
    ("allowed tools", _refused_by_allowlist),
    ("allowed skills", _refused_by_skill_list),
    ("restricted tools", _refused_by_only),
    ("deny rules", _denied_by_rule),
    ("ask rules", _asked_about_by_rule),
    ("mode plan", _in_plan_mode),
    ("always needs approval", _always_asked_about),
    ("leaving the sandbox", _leaving_the_sandbox),
    ("rules for what cannot be read", _unreadable_for_rules),
    ("allow rules", _allowed_by_rule),
    ("each command by itself", _by_commands),
    ("mode", _by_mode),
)
"""The steps of a decision by the rights of one agent. Their order is the policy: the first that decides is the decision."""
