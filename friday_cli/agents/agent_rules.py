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
from friday_cli.core.permissions.patterns import profile_pattern
from friday_cli.core.permissions.rule import ESCALATED, Allowlist, Decision, Rule, parse_rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.protocol.limits import Limits
from friday_cli.core.protocol.profile_rights import ProfileRights
from friday_cli.core.protocol.server_calls import server_of
from friday_cli.core.protocol.tool_info import EXTERNAL_PREFIXES, SERVER_HELPERS, WEB_SEARCH
from friday_cli.core.text.suggest import closest_match
from friday_cli.core.tool_catalog import BASH, EXTERNAL, TOOLS
from friday_cli.extensions.profiles import Profile

UNLIMITED = Limits()
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
        return replace(_known(rule), profile=profile_pattern(named.profile), reason=named.reason)
    except UsageError as error:
        from friday_cli.config.rule_locations import rule_places

        with suppress(FileError):
            places = places or rule_places()
        where = f"{places[place]}: {field}" if place in places else field
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from None


def rights_of(profile: Profile, limits: Limits = UNLIMITED) -> ProfileRights:
    """What a profile lets its agents do, with `limits` for each run."""
    return ProfileRights(
        mode=profile.mode,
        only=profile.only,
        deny=profile.deny,
        skills=profile.skills,
        sub_agents=profile.sub_agents,
        supervision=profile.supervision,
        turns=limits.turns or 0,
        time_s=limits.time_s or 0.0,
    )


def profile_rights(parent: Rules, profile: Profile, tools: Iterable[str]) -> Rules:
    """The rules of an agent with `profile` and these tools: they never allow more than its parent's."""
    return _rules_of(parent, rights_of(profile), profile.name, frozenset(tools))


def own_rules(parent: Rules, profile: Profile, tools: Iterable[str]) -> Rules:
    """The rules of an agent with `profile` and `tools`. It keeps the right to search the web where it cannot: the models of
    its sub-agents may be able to."""
    more = (EXTERNAL,) if profile.external else ()
    return profile_rights(parent, profile, (*tools, *SERVER_HELPERS, *more, *profile.select((WEB_SEARCH,))))


def earlier_rights(parent: Rules, earlier: Iterable[ProfileRights], now: ProfileRights, profile: str) -> Rules:
    """What an agent with `profile` may do at most that had the rights `earlier`, and has others `now`: to be used in place of its
    parent's rules."""
    for rights in earlier:
        parent = parent if rights == now else _rules_of(parent, rights, profile, None)
    return parent


def start_as_before(rules: Rules, earlier: Collection[ProfileRights], names: Collection[str]) -> None:
    """Let an agent start only sub-agents of those profiles, of all `names`, that all its earlier rights allow."""
    if earlier:
        may = (set(names if had.sub_agents == "*" else had.sub_agents) for had in earlier)
        rules.start_only(set.intersection(*may))


def _rules_of(parent: Rules, rights: ProfileRights, profile: str, tools: frozenset[str] | None) -> Rules:
    source, readings = f"profile {profile}", partial(path_readings, folders=parent.folders)
    only = tuple(parse_rule(text, "allow", TOOLS, source=source) for text in rights.only)
    return parent.child(
        Allowlist(tools, only, rights.skills),
        mode=rights.mode or None,
        rules=[parse_rule(text, "deny", TOOLS, source=source, readings=readings) for text in rights.deny],
        profile=profile,
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
