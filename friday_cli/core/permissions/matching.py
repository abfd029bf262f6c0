"""Which rules meet a call. A deny or ask rule meets it by the name of its tool, or by any one of its effects: a rule that is
spelled as one for reading (`read_file(private/**)`) holds for every tool that reads. An allow rule is for the tool that it names."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from ..protocol.shell_script import UNREAD, CommandAnalysis, SimpleCommand
from ..protocol.tool_info import CallEffect, Effect
from ..text.sanitize import sanitize_line
from ..tool_catalog import TOOLS
from .patterns import DOMAIN, LOCAL_HOST, glob, names_host, plain, strict_glob
from .rule import Decision, Rule, RuleInput

_VERBS: dict[Effect, str] = {
    "read": "reads",
    "write": "changes",
    "run": "runs",
    "net": "contacts",
    "spawn": "starts the sub-agent",
}


class MetRule(NamedTuple):
    """A rule that meets a call, and the effect that it meets, such as "it reads private/key.txt"; "" if it names the tool."""

    rule: Rule
    effect: str


def matching_rule(rules: Iterable[Rule], call: RuleInput, decision: Decision) -> MetRule | None:
    """The first deny or ask rule that meets any effect of the call, or any part of it, such as one command of a compound one."""
    parts: tuple[str, ...] | None = None
    effects: list[CallEffect] | None = None
    for rule in rules:
        if rule.decision != decision:
            continue
        if _is_meant(call.tool, rule.tool):
            if not rule.pattern:
                return MetRule(rule, "")
            parts = _parts(call) if parts is None else parts
            if any(matches(rule, call.effect, part) for part in parts):
                return MetRule(rule, "")
        for kind in _meant_effects(rule.tool, bool(rule.pattern)):
            effects = list(effects_of(call)) if effects is None else effects
            for effect in effects:
                if effect.effect == kind and (met := _met(rule, effect)):
                    return MetRule(rule, met)
    return None


def effects_of(call: RuleInput) -> Iterator[CallEffect]:
    """What a call does, as far as it is declared or can be read. Nothing is known of a tool of a server or a program."""
    row = TOOLS.rows.get(call.tool)
    if row is not None and row.effects:
        first = row.effects[0].effect if call.effect == row.effect else call.effect  # a call that only shows reads
        yield CallEffect(first, _parts(call) if first == "run" else call.subjects)
    yield from call.also
    steps = call.script.steps if call.script else ()
    if reads := [label for step in steps for label in (*step.reads, *step.searches)]:
        yield CallEffect("read", tuple(reads))
    if writes := [label.rstrip("/") for step in steps for label in (*step.writes, *step.changes)]:
        yield CallEffect("write", tuple(writes))
    if call.script is not None and call.script.hosts:
        yield CallEffect("net", tuple(f"{DOMAIN}{host}" for host, _ in call.script.hosts))


def is_about(rule: Rule, effect: Effect) -> bool:
    """Whether a deny or ask rule is about an effect, whichever tool has it."""
    return effect in _meant_effects(rule.tool, bool(rule.pattern))


@lru_cache(maxsize=512)
def _meant_effects(name: str, pattern: bool) -> tuple[Effect, ...]:
    """The effects that a rule with this name of a tool, with a pattern or without one, is about."""
    found = (kind for kind in _VERBS if any(_is_named(tool, name) for tool in TOOLS.spellings(kind, pattern=pattern)))
    return () if name == "*" else tuple(found)


@lru_cache(maxsize=2048)
def _is_named(tool: str, name: str) -> bool:
    """Whether the name in a rule, perhaps with wildcards, is that of a tool."""
    return fnmatch.fnmatchcase(tool, name)


def _is_meant(tool: str, name: str) -> bool:
    """The same for a deny or ask rule: the case of letters does not matter, as in its pattern."""
    return _is_named(tool.lower(), name.lower())


def _met(rule: Rule, effect: CallEffect) -> str:
    """The part of an effect that a rule about it meets, in words; "" for none."""
    found: Iterable[str] = effect.subjects
    if rule.pattern:
        found = (subject for subject in effect.subjects if matches(rule, effect.effect, subject))
    elif effect.effect == "net":
        found = (one for one in effect.subjects if not LOCAL_HOST().fullmatch(one.removeprefix(DOMAIN)))
    subject = next(iter(found), None)
    return "" if subject is None else f"it {_VERBS[effect.effect]} {sanitize_line(subject.removeprefix(DOMAIN), 80)}"


def withheld(rules: Iterable[Rule], call: RuleInput, labels: Sequence[str]) -> set[str]:
    """Those of the files that a search found which a rule keeps from its result: one that denies reading them, or asks about
    it and was not asked for this call."""
    patterns: list[re.Pattern[str]] = []
    for rule in rules:
        if rule.decision == "allow" or not (_is_meant(call.tool, rule.tool) or is_about(rule, "read")):
            continue
        asked = rule.decision == "ask" and any(matches(rule, "read", subject) for subject in call.subjects)
        if rule.pattern and not asked:
            patterns.append(strict_glob(rule.pattern, *rule.readings))
    if not patterns:
        return set()
    return {label for label in labels for name in (plain(label),) if any(one.fullmatch(name) for one in patterns)}


def possible_rule(rules: Iterable[Rule], call: RuleInput) -> tuple[Rule, str] | None:
    """The first deny or ask rule with a pattern that may match a part of the call that cannot be read, and why."""
    script = call.script
    for rule in rules if script is not None else ():
        if rule.decision == "allow" or not rule.pattern or script is None:
            continue
        if _is_meant(call.tool, rule.tool) and (why := _unread_command(rule, script)):
            return rule, why
        if is_about(rule, "net") and (script.trouble or any(host == UNREAD for host, _ in script.hosts)):
            return rule, script.trouble or f"it contacts {UNREAD}"
        folders = [re.split(r"[*?\[{]", one.removeprefix("./"))[0] for one in (rule.pattern, *rule.readings)]
        for effect, words, tops in _folders(script):
            if not is_about(rule, effect):
                continue
            if script.trouble:
                return rule, script.trouble
            for top in tops:
                if top == "." or any(one.startswith(f"{top}/") or f"{top}/".startswith(one) for one in folders):
                    return rule, f"it {words} {'the workspace' if top == '.' else top}"
    return None


def _unread_command(rule: Rule, script: CommandAnalysis) -> str:
    """Why a rule for commands may match a command that cannot be read, "" if it cannot."""
    unread = next((step.unread_program for step in script.steps if step.unread_program), "")
    if script.dynamic_program or unread:
        return script.trouble or unread or "it runs a program that is not known beforehand"
    program = rule.pattern.split(" ", 1)[0]
    for step in script.steps:
        heads = {text.split(" ", 1)[0] for text in (step.text, *step.readings)} if step.unread_words else ()
        if any(fnmatch.fnmatchcase(head, program) or head.startswith(program.partition("*")[0]) for head in heads):
            return step.unread_words
    return ""


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


def allowing_rule(rules: Sequence[Rule], call: RuleInput) -> Rule | None:
    """The allow rule of the first subject, when each subject has one. Each command of a compound one needs a rule."""
    fitting = [r for r in rules if r.decision == "allow" and _is_named(call.tool, r.tool)]
    for rule in fitting:
        if not rule.pattern:
            return rule
    if call.effect == "run":
        if call.script is None or call.script.trouble or not call.script.steps:
            return None
        found = [allowing_rule_for_step(fitting, call, step) for step in call.script.steps]
    else:
        found = [next((r for r in fitting if matches(r, call.effect, s)), None) for s in call.subjects or ("",)]
    return found[0] if found and all(rule is not None for rule in found) else None


def allowing_rule_for_step(rules: Sequence[Rule], call: RuleInput, step: SimpleCommand) -> Rule | None:
    """The allow rule with a pattern that matches one simple command."""
    if step.dynamic_arguments or step.dynamic_program or step.writes:
        return None
    for rule in rules:
        if rule.decision != "allow" or not rule.pattern or not _is_named(call.tool, rule.tool):
            continue
        if re.search(r"[*?\[]", rule.pattern.split(" ", 1)[0]) and (step.runs_named or not step.suggest):
            continue  # a rule without a program name never covers a program that runs others
        named = {word.strip("*").partition("=")[0] for word in rule.pattern.split()} if step.risky else set()
        if not named.issuperset(step.risky) and not _any_address(rule):
            continue
        if any(matches(rule, call.effect, text) for text in (step.text, step.raw)):
            return rule
    return None


def _any_address(rule: Rule) -> bool:
    """Whether a rule for curl does not name an address: it lets all of them through, and only a rule for some holds options to its words."""
    program, *words = rule.pattern.split()
    return program == "curl" and words[-1:] == ["*"] and all(word.startswith("-") for word in words[:-1])


def matches(rule: Rule, effect: Effect, subject: str) -> bool:
    """Whether the pattern of a rule matches one subject of a call: for deny and ask rules without regard to case."""
    if effect == "net" and (hosts := [one for one in (rule.pattern, *rule.readings) if one.startswith(DOMAIN)]):
        host = subject.removeprefix(DOMAIN) if subject.startswith(DOMAIN) else ""
        return host != "" and any(names_host(one, host) for one in hosts)
    if effect == "run":
        words = _one_line(subject)
        if rule.pattern.endswith(" *") and fnmatch.fnmatchcase(words, rule.pattern[:-2]):
            return True
        return fnmatch.fnmatchcase(words, rule.pattern)
    if rule.decision == "allow":
        return glob(rule.pattern).fullmatch(subject) is not None
    return strict_glob(rule.pattern, *rule.readings).fullmatch(plain(subject)) is not None


@lru_cache(maxsize=64)
def _one_line(text: str) -> str:
    return " ".join(text.split())
