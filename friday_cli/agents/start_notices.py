"""What a person is told when an agent is made: tools that it lacks, too few tokens, a small context window."""

from __future__ import annotations

from collections.abc import Collection

from friday_cli.core.limits.budget import Budget
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.events import Notice
from friday_cli.core.protocol.format import is_demo
from friday_cli.core.protocol.provider import Provider
from friday_cli.core.protocol.tool_info import ASK_USER, WEB_SEARCH
from friday_cli.extensions.profiles import TOKENS_USEFUL, Profile
from friday_cli.llm.models import ModelChoice
from friday_cli.tools.web.search import VARIABLES

from .blueprint import NewAgent
from .small_window import warning

NO_SEARCH = f"no search service is configured ({', '.join(VARIABLES)}), and the model's service has none"
"""Why there is no tool to search the web."""


def few_tokens_notices(budget: Budget, path: str, profile: str) -> list[Notice]:
    """For a sub-agent with too few tokens for a result."""
    granted = budget.tokens.limit
    if granted is None or granted >= TOKENS_USEFUL:
        return []
    tokens = f"{granted:,.0f} token{'s' * (granted != 1)}"
    few = f"With fewer than {TOKENS_USEFUL:,} a sub-agent seldom returns a result."
    return [Notice(f"{path} ({profile}) has {tokens}. {few}", "warning")]


def small_window_notices(provider: Provider, choice: ModelChoice) -> list[Notice]:
    """For a main model with a small context window, if its local server did not report that."""
    told = any("context window" in note for note in choice.notes)
    text = warning(provider)
    return [Notice(text, "warning")] if text and not told and not is_demo(provider.name) else []


def missing_tool_notices(
    new: NewAgent, rules: Rules, tools: Collection[str], *, answerable: bool, told: set[str]
) -> list[Notice]:
    """For tools that the profile of an agent lists and that it cannot use here; once in a session for each tool, which `told`
    holds from then on. `answerable`: a person can answer questions."""
    if new.profile is None or is_demo(new.model):
        return []
    missing: dict[str, str] = {}
    if search_missing(new.profile, tools, rules):
        missing[WEB_SEARCH] = f"{NO_SEARCH}. `friday doctor` says more."
    if lists(new.profile, ASK_USER) and not answerable:
        missing[ASK_USER] = "nobody can answer questions in this run."
    missing = {tool: why for tool, why in missing.items() if tool not in told}
    told.update(missing)
    who = f"{new.path} ({new.profile.name})"
    return [Notice(f"{who} cannot use {tool}: {why}", "warning") for tool, why in missing.items()]


def lists(profile: Profile | None, tool: str) -> bool:
    """Whether `profile` names `tool`."""
    return profile is not None and isinstance(profile.allowed_tools, tuple) and bool(profile.select((tool,)))


def search_missing(profile: Profile | None, tools: Collection[str], rules: Rules) -> bool:
    """Whether `profile` lists the web search, which the `rules` of its agent allow, but it is not among its `tools`."""
    return lists(profile, WEB_SEARCH) and WEB_SEARCH not in tools and rules.may(WEB_SEARCH)
