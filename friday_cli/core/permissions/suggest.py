"""The rules that a question offers: the narrowest that would allow the same call next time."""

from __future__ import annotations

import re

from ..protocol.tool_info import EXTERNAL_PREFIXES, WEB_SEARCH
from .matching import allowing_rule, allowing_rule_for_step
from .rule import ESCALATED, RuleInput, parse_rule
from .steps import always_ask_reason


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


def lets_through(call: RuleInput, rule: str) -> str:
    """What `suggested_rule` would let pass, in words; "" where the rule says all of it."""
    patterns = [text.partition("(")[2].removesuffix(")") for text in rule.splitlines()]
    if call.effect != "run" or not any(pattern.endswith("*") for pattern in patterns):
        return ""
    commands = " and ".join(f"{pattern.removesuffix('*').rstrip()} ..." for pattern in patterns)
    where = "in the sandbox" if call.sandbox_access == "confined" else "without a sandbox, with all your rights"
    return f"{commands}: with any arguments, {where}. A program or script can do whatever its code says."


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
