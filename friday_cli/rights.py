"""The rules a session starts with: those of the settings and those of the command line."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from difflib import get_close_matches

from .config import Settings
from .core.errors import UsageError
from .core.permission import Mode, Rule, Rules, parse_rule
from .profiles import KNOWN


def session_rules(settings: Settings, *, allow: Sequence[str], deny: Sequence[str], mode: Mode) -> Rules:
    """The rights of the root: the settings' rules and the command line's. Raises UsageError for a bad rule."""
    permissions = settings.permissions
    rules: list[Rule] = []
    for decision, texts in (
        ("deny", (*permissions.deny, *deny)),
        ("ask", permissions.ask),
        ("allow", (*permissions.allow, *allow)),
    ):
        rules += [_known_rule(parse_rule(text, decision)) for text in texts]  # type: ignore[arg-type]
    return Rules(mode=mode, rules=rules)


def _known_rule(rule: Rule) -> Rule:
    """The rule itself. Raises UsageError when it speaks of no tool there is: a misspelt one would protect nothing."""
    if rule.tool.startswith("mcp__") or fnmatch.filter(KNOWN, rule.tool):
        return rule
    near = get_close_matches(rule.tool, KNOWN, 1)
    hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(sorted(KNOWN))}."
    raise UsageError(f"The rule {rule} names no tool.", hint=hint)
