"""The providers of a session: each model's is made once and shared by the agents that use it."""

from __future__ import annotations

from collections.abc import Mapping

from friday_cli.config import Settings
from friday_cli.core.agent.agent import Agent
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.protocol.format import is_demo
from friday_cli.core.protocol.provider import Effort, Provider
from friday_cli.core.protocol.tool_info import WEB_SEARCH
from friday_cli.extensions.profiles import Profile
from friday_cli.llm import models
from friday_cli.tools import web


class ProviderPool:
    """Finds the provider that the settings, a profile or the log name. `search_tool`: the tool for web searches, if a
    search service is configured; without it a model's own search is used. Methods raise FridayError for a model that cannot
    be used."""

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        self.search_tool = web.search_tool(env)
        self._settings = settings
        self._env = env
        self._providers: dict[tuple[str, bool], Provider] = {}
        self._choices: dict[Provider, models.ModelChoice] = {}

    def get(self, choice: models.ModelChoice, *, web_search: bool = False) -> Provider:
        """The provider of a model; with `web_search` its service can search the web."""
        key = choice.name, web_search
        if key not in self._providers:
            made = models.create_provider(choice, self._settings, env=self._env, web_search=web_search)
            self._providers[key] = made
            self._choices[made] = choice
        return self._providers[key]

    def named(self, name: str, source: str, effort: Effort | None = None) -> tuple[Provider, Effort | None]:
        """The provider and effort of a model by its name; `source` says where the name comes from."""
        choice = models.resolve(name, self._settings, env=self._env, effort=effort, source=source)
        return self.get(choice), choice.effort

    def for_child(
        self, parent: Provider, profile: Profile, inherited: Effort | None = None
    ) -> tuple[Provider, Effort | None]:
        """The provider and effort of a child with `profile` whose parent uses `parent` with the effort `inherited`."""
        name = profile.model or self._settings.subagent_model
        effort = profile.effort or None
        if not name or is_demo(parent.name):  # the demo must cost nothing, whatever model the settings name
            return parent, effort or inherited
        source = f"profile {profile.name}" if profile.model else "subagent_model"
        return self.named(name, source, effort)

    def supervisor(self, root: Provider) -> Provider | None:
        """The provider that judges supervised results; None: the model of the judged agent."""
        name = self._settings.agents.delegation.supervisor_model
        return self.named(name, "supervisor_model")[0] if name and not is_demo(root.name) else None

    def with_web_search(self, agent: Agent, profile: Profile | None) -> Provider:
        """The agent's provider, with the web search of its service if there is no search tool and the agent may search."""
        choice = self._choices.get(agent.provider)
        if choice is None:  # not from this pool
            return agent.provider
        allowed = self.search_tool is None and (profile is None or WEB_SEARCH in profile.select((WEB_SEARCH,)))
        allowed = allowed and models.can_search(choice, self._settings, env=self._env)
        allowed = allowed and agent.rules.decide(RuleInput(WEB_SEARCH, "net")).decision == "allow"
        return self.get(choice, web_search=allowed)
