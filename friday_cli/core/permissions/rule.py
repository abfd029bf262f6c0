"""Permission rules of the form `tool(pattern)`, and the calls that they match."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from ..protocol.errors import UsageError
from ..protocol.shell_script import CommandAnalysis, SimpleCommand
from ..protocol.tool_info import DELEGATE_TASK, SERVER_PREFIX, Effect, ToolCatalog
from ..protocol.workspace import SandboxAccess

Decision = Literal["allow", "ask", "deny"]


class Rule(msgspec.Struct, frozen=True):
    """`tool(pattern)`. Without a `pattern` the rule matches every call of the tool. `profile` limits it to agents of
    that profile ("" = all). The model and the person read `reason`; `source` is where the rule is defined, for
    people."""

    tool: str
    pattern: str
    decision: Decision
    profile: str = ""
    reason: str = ""
    source: str = ""

    def __str__(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool


def parse_rule(
    text: str,
    decision: Decision,
    tools: ToolCatalog | None = None,
    *,
    profile: str = "",
    reason: str = "",
    source: str = "",
) -> Rule:
    """A rule from `bash(git status *)`, `edit_file(src/**)`, `web_fetch(domain:x.org)`, `grep` or `mcp__SERVER`. With `tools` the
    syntax of other programs is read too: `Bash(git status:*)`. Rules that Friday wrote do not need it. Raises
    UsageError for invalid text."""
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
            tool = next(iter(tools.named(name)), name)
        if tools.effect(tool) == "run" and pattern.endswith(":*"):
            pattern = pattern[:-2] + " *"
    if pattern.startswith(_ESTIMATE) and (tool != DELEGATE_TASK or decision == "allow" or _limit(pattern) is None):
        raise UsageError(
            f"Invalid permission rule: {text!r}.",
            hint=f"Write {DELEGATE_TASK}(estimate>0.50), in US dollars, as an ask or deny rule.",
        )
    return Rule(tool, "" if pattern == "*" else pattern, decision, profile, reason, source)


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
    """A call as rules see it: the tool, its effect, one subject per thing that it uses, and the analysis of its command.
    Without a `script` no rule with a pattern allows a command, and commands inside it are not matched. `sandbox_access` is how
    far beyond a sandbox it goes, `justification` why the model says that it must."""

    tool: str
    effect: Effect
    subjects: tuple[str, ...] = ()
    script: CommandAnalysis | None = None
    sandbox_access: SandboxAccess = ""
    justification: str = ""


def rerun_after_read_only(call: RuleInput, denied: str) -> RuleInput:
    """The call of a command that ran read-only and failed there, for the decision whether it may run as
    usual. `denied` says what it was denied."""
    trouble = f"it ran read-only, and failed: {denied}"
    return msgspec.structs.replace(
        call, script=msgspec.structs.replace(call.script or CommandAnalysis(), trouble=trouble)
    )


ESCALATED = frozenset(("network", "outside"))
"""Access beyond a sandbox. Rules allow such calls by the names `bash_network` and `bash_outside`."""


def matching_rule(rules: Iterable[Rule], call: RuleInput, decision: Decision, tools: ToolCatalog) -> Rule | None:
    """The first rule with that decision that matches any part of the call, such as one command of a compound one."""
    parts: tuple[str, ...] | None = None
    for rule in rules:
        if rule.decision != decision:
            continue
        if fnmatch.fnmatchcase(call.tool, rule.tool):
            if not rule.pattern:
                return rule
            if parts is None:
                parts = _parts(call)
            if any(matches(rule, call, part) for part in parts):
                return rule
        if call.script is not None and _matches_files(rule, call.script, tools):
            return rule
    return None


def possible_rule(rules: Iterable[Rule], call: RuleInput, tools: ToolCatalog) -> tuple[Rule, str] | None:
    """The first deny or ask rule with a pattern that may match a part of the call that cannot be read, and why."""
    script = call.script
    for rule in rules if script is not None else ():
        if rule.decision == "allow" or not rule.pattern or script is None:
            continue
        if fnmatch.fnmatchcase(call.tool, rule.tool):
            unread = next((step.unread_program for step in script.steps if step.unread_program), "")
            if script.dynamic_program or unread:
                return rule, script.trouble or unread or "it runs a program that is not known beforehand"
            program = rule.pattern.split(" ", 1)[0]
            for step in script.steps:
                heads = {text.split(" ", 1)[0] for text in (step.text, *step.readings)} if step.unread_words else ()
                if any(
                    fnmatch.fnmatchcase(head, program) or head.startswith(program.partition("*")[0]) for head in heads
                ):
                    return rule, step.unread_words
        folder = re.split(r"[*?\[]", rule.pattern.removeprefix("./"))[0]
        for effect, words, tops in _folders(script):
            if rule.tool == "*" or not any(fnmatch.fnmatchcase(tool, rule.tool) for tool in tools.for_files(effect)):
                continue
            if script.trouble:
                return rule, script.trouble
            for top in tops:
                if top == "." or folder.startswith(f"{top}/") or f"{top}/".startswith(folder):
                    return rule, f"it {words} {'the workspace' if top == '.' else top}"
    return None


def _folders(script: CommandAnalysis) -> tuple[tuple[Effect, str, list[str]], ...]:
    """The folders with files that a command uses without naming them: effect, what it does, and the labels."""
    changed = [label.rstrip("/") for step in script.steps for label in step.changes if label.endswith("/")]
    return (
        ("read", "reads all files in", [top for step in script.steps for top in step.searches]),
        ("write", "may change files in", changed),
    )


def _parts(call: RuleInput) -> tuple[str, ...]:
    """All parts of a call that deny and ask rules are matched with."""
    if call.effect != "run":
        return call.subjects
    parts = list(call.subjects)
    for step in call.script.steps if call.script else ():
        parts += [step.text, step.raw, *step.readings]
    return tuple(dict.fromkeys(parts))


def _matches_files(rule: Rule, script: CommandAnalysis, tools: ToolCatalog) -> bool:
    """Whether a rule for files matches one that a command names, changes, or writes by a redirection."""
    named: tuple[tuple[Effect, list[str]], ...] = (
        ("read", [label for step in script.steps for label in step.reads]),
        ("write", [label.rstrip("/") for step in script.steps for label in (*step.writes, *step.changes)]),
    )
    for effect, labels in named:
        for tool in tools.for_files(effect):
            if labels and fnmatch.fnmatchcase(tool, rule.tool) and rule.tool != "*":
                call = RuleInput(tool, effect, tuple(labels))
                if rule.pattern and any(matches(rule, call, label) for label in labels):
                    return True
    return False


def allowing_rule(rules: Sequence[Rule], call: RuleInput) -> Rule | None:
    """The allow rule of the first subject, when each subject has one. Each command of a compound one needs a rule."""
    fitting = [r for r in rules if r.decision == "allow" and fnmatch.fnmatchcase(call.tool, r.tool)]
    for rule in fitting:
        if not rule.pattern:
            return rule
    if call.effect == "run":
        if call.script is None or call.script.trouble or not call.script.steps:
            return None
        found = [allowing_rule_for_step(fitting, call, step) for step in call.script.steps]
    else:
        found = [next((r for r in fitting if matches(r, call, s)), None) for s in call.subjects or ("",)]
    return found[0] if found and all(rule is not None for rule in found) else None


def allowing_rule_for_step(rules: Sequence[Rule], call: RuleInput, step: SimpleCommand) -> Rule | None:
    """The allow rule with a pattern that matches one simple command."""
    if step.dynamic_arguments or step.dynamic_program or step.writes:
        return None
    for rule in rules:
        if rule.decision != "allow" or not rule.pattern or not fnmatch.fnmatchcase(call.tool, rule.tool):
            continue
        if re.search(r"[*?\[]", rule.pattern.split(" ", 1)[0]) and not step.suggest:
            continue  # a rule without a program name never covers a program that runs others
        if any(option not in rule.pattern for option in step.risky):
            continue
        if any(matches(rule, call, text) for text in (step.text, step.raw)):
            return rule
    return None


def matches(rule: Rule, call: RuleInput, subject: str) -> bool:
    """Whether the pattern of a rule matches one subject of a call."""
    if rule.pattern.startswith("domain:"):
        return subject.startswith("domain:") and names_host(rule, subject.removeprefix("domain:"))
    if call.effect == "run":
        words = _one_line(subject)
        if rule.pattern.endswith(" *") and fnmatch.fnmatchcase(words, rule.pattern[:-2]):
            return True
        return fnmatch.fnmatchcase(words, rule.pattern)
    return _glob(rule.pattern).fullmatch(subject) is not None


def names_host(rule: Rule, host: str) -> bool:
    """Whether the pattern of a rule is a domain that is `host` or a parent domain of it."""
    if not rule.pattern.startswith("domain:"):
        return False
    host, wanted = host.lower().rstrip("."), rule.pattern[7:].lower().strip(".")
    return host == wanted or host.endswith("." + wanted.removeprefix("*."))


@lru_cache(maxsize=64)
def _one_line(text: str) -> str:
    return " ".join(text.split())


@lru_cache(maxsize=512)
def _glob(pattern: str) -> re.Pattern[str]:
    """A path pattern as a regular expression: `*` and `?` do not match `/`, `**` does."""
    out = ""
    for token in re.split(r"(\*\*/|/\*\*$|\*\*|\*|\?)", pattern.removeprefix("./")):
        out += {"**/": r"(?:.*/)?", "/**": r"(?:/.*)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}.get(
            token, re.escape(token)
        )
    return re.compile(out, re.S)
