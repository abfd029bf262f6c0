"""The rules of agents: those of the settings and the command line, and what a profile adds to them."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from friday_cli.config import Settings
from friday_cli.config.settings import RuleSetting
from friday_cli.core.permissions.rule import ESCALATED, Allowlist, Decision, Rule, parse_rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.protocol.server_calls import server_of
from friday_cli.core.protocol.tool_info import EXTERNAL_PREFIXES
from friday_cli.core.text.suggest import closest_match
from friday_cli.core.tool_catalog import BASH, TOOLS
from friday_cli.extensions.profiles import Profile

NOWHERE: Mapping[tuple[str, str], str] = {}


def session_rules(
    settings: Settings,
    *,
    allow: Sequence[str],
    deny: Sequence[str],
    places: Mapping[tuple[str, str], str] = NOWHERE,
    foreign: Collection[str] = (),
    folders: Sequence[str] = (),
) -> list[Rule]:
    """The rules of the settings, and `allow` and `deny` of the command line. `places` says where each rule of the settings is:
    (decision, rule) -> place. `foreign`: MCP servers of the project; settings that allow a server by its name mean another one.
    `folders` are those of the session and of the project: deny and ask rules hold for their files however a pattern names them.
    Raises UsageError for an invalid rule."""
    permissions = settings.permissions
    rules: list[Rule] = []
    listed: list[tuple[Decision, Sequence[str]]]
    listed = [("deny", permissions.deny), ("ask", permissions.ask), ("allow", permissions.allow)]
    for decision, texts in listed:
        rules += [_set(RuleSetting(text, decision), f"permissions.{decision}", places, folders) for text in texts]
    rules += [_set(named, "permissions.rules", places, folders) for named in permissions.rules]
    rules = [rule for rule in rules if rule.decision != "allow" or server_of(rule.tool) not in foreign]
    rules += [
        _known(parse_rule(text, "deny", TOOLS, source="command line", readings=partial(path_readings, folders=folders)))
        for text in deny
    ]
    return [*rules, *(_known(parse_rule(text, "allow", TOOLS, source="command line")) for text in allow)]


def _set(named: RuleSetting, field: str, places: Mapping[tuple[str, str], str], folders: Sequence[str]) -> Rule:
    """A rule of the settings. Raises UsageError with the place of an invalid one."""
    place = (named.decision, named.rule)
    try:
        rule = parse_rule(
            named.rule,
            named.decision,
            TOOLS,
            source=places.get(place, ""),
            readings=partial(path_readings, folders=folders),
        )
        return replace(_known(rule), profile=named.profile, reason=named.reason)
    except UsageError as error:
        from friday_cli.config.rule_locations import rule_places

        with suppress(FileError):
            places = places or rule_places()
        where = f"{places[place]}: {field}" if place in places else field
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from None


def profile_rights(parent: Rules, profile: Profile, tools: Iterable[str]) -> Rules:
    """The rules of an agent with `profile` and these tools: they never allow more than its parent's."""
    source, readings = f"profile {profile.name}", partial(path_readings, folders=parent.folders)
    only = tuple(parse_rule(text, "allow", TOOLS, source=source) for text in profile.only)
    return parent.child(
        Allowlist(frozenset(tools), only, profile.skills),
        mode=profile.mode or None,
        rules=[parse_rule(text, "deny", TOOLS, source=source, readings=readings) for text in profile.deny],
        profile=profile.name,
    )


def _known(rule: Rule) -> Rule:
    """The rule itself. Raises UsageError if it does not name an existing tool: a misspelt rule would protect nothing."""
    escalated = rule.decision == "allow" and rule.tool in {f"{BASH}_{access}" for access in ESCALATED}
    if escalated or rule.tool.startswith(EXTERNAL_PREFIXES) or fnmatch.filter(TOOLS.names, rule.tool):
        return rule
    near = closest_match(rule.tool, TOOLS.names)
    hint = f"Did you mean {near}?" if near else f"Known tools: {', '.join(sorted(TOOLS.names))}."
    raise UsageError(f"The rule {rule} does not name a known tool.", hint=hint)


def path_readings(pattern: str, *, folders: Sequence[str]) -> tuple[str, ...]:
    """Other patterns that name the same files as `pattern`, for rules that must not be missed: absolute or from the home
    folder, with `..`, through links, and as Claude Code reads them (`/x` is x in the project, `//x` is /x). `folders`: the folder
    of the session, to which the names in calls are relative, and that of the project; () if unknown."""
    found: list[str] = []
    written = os.path.expanduser(pattern) if pattern.startswith("~/") else pattern
    for one in (written, written[1:]) if written.startswith("/") else (written,):
        start = re.search(r"[*?\[{]", one)
        fixed = one if start is None else one[: start.start()].rpartition("/")[0]
        rest = one[len(fixed) :].lstrip("/")
        for folder in folders:
            top = os.path.join(folder, fixed or ("/" if one.startswith("/") else ""))
            names = [os.path.join(head, rest).rstrip("/") for head in (os.path.normpath(top), os.path.realpath(top))]
            inside = [os.path.relpath(name, folders[0]) for name in names if _is_below(name, folders[0])]
            found += [*names, *inside]
    return tuple(dict.fromkeys(one for one in found if one != pattern))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
