"""The providers of a session: each model's is made once and shared by the agents that use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from friday_cli.config import Settings
from friday_cli.core.limits.budget import Budget
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.format import EXTERNAL, is_demo
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import AskedTier, Effort, Provider
from friday_cli.extensions.profiles import Profile
from friday_cli.llm import models
from friday_cli.tools import web

from .caller import model_below
from .surroundings import LIVE, Surroundings


class ProviderPool:
    """Finds the provider that the settings, a profile or the log name. `search_tool`: the tool for web searches, if a
    search service is configured. Methods raise FridayError for a model that cannot be used."""

    def __init__(self, settings: Settings, env: Mapping[str, str], surroundings: Surroundings = LIVE) -> None:
        self.search_tool = web.search_tool(env)
        self._around = surroundings
        self._settings = settings
        self.env = env
        self._providers: dict[tuple[str, bool, str], Provider] = {}
        self._substituted: set[str] = set()
        """Model names of agent files about which `substitution_note` told."""
        self._choices: dict[Provider, models.ModelChoice] = {}
        self._wrap: Callable[[Provider], Provider] | None = None
        self._wrapped: dict[Provider, Provider] = {}
        self._searching: dict[Provider, Provider | None] = {}

    def get(self, choice: models.ModelChoice, *, web_search: bool = False, tier: AskedTier | None = None) -> Provider:
        """The provider of a model; with `web_search` its service can search the web. `tier`: the service tier of its requests (None: that
        of the settings)."""
        tier = self._settings.service_tier if tier is None else tier
        key = choice.name, web_search, tier
        if key not in self._providers:
            made = self._around.provider(choice, self._settings, self.env, web_search=web_search, tier=tier)
            if choice.provider != EXTERNAL and self._around.live(made) is not None:
                self._choices[made] = choice
            self._providers[key] = made
        return self._providers[key]

    def named(self, name: str, source: str, effort: Effort | None = None) -> tuple[Provider, Effort | None]:
        """The provider and effort of a model by its name; `source` says where the name comes from."""
        choice = self._around.choice(name, self._settings, self.env, effort=effort, source=source)
        return self.in_tier(choice, self._settings.service_tier), choice.effort

    def of_root(self, choice: models.ModelChoice, profile: Profile | None) -> Provider:
        """The provider of the main agent, whose profile may name a service tier."""
        plain = self.get(choice)
        tier = profile.service_tier if profile else ""
        return self.in_tier(choice, tier) if tier and plain in self._choices else plain

    def in_tier(self, choice: models.ModelChoice, tier: AskedTier) -> Provider:
        """The provider of a model in a service tier, without one where its service has no such tier."""
        has = tier and self._around.live(tier) and models.has_tier(choice, self._settings, tier, env=self.env)
        return self.get(choice, tier=tier if has else "")

    def wrap_children(self, wrap: Callable[[Provider], Provider] | None) -> None:
        """From now on give children what `wrap` makes of a provider; None: the provider itself."""
        self._wrap = wrap

    def for_child(
        self, parent: Provider, profile: Profile, inherited: Effort | None = None
    ) -> tuple[Provider, Effort | None]:
        """The provider and effort of a child with `profile` whose parent uses `parent` with the effort `inherited`."""
        provider, effort = self._unwrapped(parent, profile, inherited)
        if profile.service_tier and self._wrap is None and (choice := self._choices.get(provider)):
            provider = self.in_tier(choice, profile.service_tier)  # what is wrapped has a price of its own
        if self._wrap is None or provider in self._wrapped.values():
            return provider, effort
        if provider not in self._wrapped:
            self._wrapped[provider] = self._wrap(provider)
        return self._wrapped[provider], effort

    def _unwrapped(
        self, parent: Provider, profile: Profile, inherited: Effort | None
    ) -> tuple[Provider, Effort | None]:
        if profile.external is not None:
            return self.external(profile.program), None
        parent = model_below(parent)
        effort = profile.effort or None
        if is_demo(parent.name):  # the demo must cost nothing, whatever model the settings name
            return parent, effort or inherited
        name = profile.model
        if wanted := models.class_of(name):
            name = models.class_model(wanted, parent.name, parent.model, self._settings, self.env)
        if name:
            try:
                return self.named(name, f"profile {profile.name}", effort)
            except FridayError:
                if not profile.imported:
                    raise
        if name := self._settings.subagent_model:
            return self.named(name, "subagent_model", effort)
        return parent, effort or inherited

    def external(self, program: str) -> Provider:
        """What stands for the model of an agent whose work another program does."""
        from friday_cli.external_agents.provider import ExternalProvider  # few agents are external ones

        key = f"{EXTERNAL}/{program}", False, ""
        if key not in self._providers:
            self._providers[key] = ExternalProvider(program)
        return self._providers[key]

    def substitution_note(self, parent: Provider, profile: Profile, used: Provider) -> str:
        """Tells, once for each name, that a child with `profile` uses another model than its agent file names; "" otherwise.
        `used`: what `for_child` returned."""
        parent, name = model_below(parent), profile.model
        wanted = models.class_of(name)
        if not name or is_demo(parent.name) or name in self._substituted or profile.external is not None:
            return ""
        model = f"{used.name}/{used.model}"
        if wanted and not models.class_model(wanted, parent.name, parent.model, self._settings, self.env):
            self._substituted.add(name)
            hint = f"set {name} in `classes` of [providers.{parent.name}] to choose another"
            return (
                f"The model class {name!r} of {profile.name} is not known for {parent.name}: {model} is used; {hint}."
            )
        if not wanted and profile.imported:
            try:
                self.named(name, f"profile {profile.name}")
            except FridayError as error:
                self._substituted.add(name)
                return f"The model {name!r} of {profile.name} cannot be used: {model} is used. {error}"
        return ""

    def supervisor(self, root: Provider) -> Provider | None:
        """The provider that judges supervised results; None: the model of the judged agent."""
        name = self._settings.agents.delegation.supervisor_model
        return self.named(name, "supervisor_model")[0] if name and not is_demo(root.name) else None

    def searching(self, provider: Provider) -> Provider | None:
        """The same model with the web search of its service; None if that has none."""
        if provider not in self._searching:
            choice = self._choices.get(provider)
            can = choice is not None and models.can_search(choice, self._settings, env=self.env)
            self._searching[provider] = self.get(choice, web_search=True) if choice is not None and can else None
        return self._searching[provider]


def require_price(provider: Provider, budget: Budget) -> None:
    """Raises UsageError if `budget` limits the cost and the model's price is unknown: the limit could not be kept."""
    if budget.left("cost") != float("inf") and provider.cost(Usage(input=1, output=1)) is None:
        raise UsageError(
            f"The price of {provider.name}/{provider.model} is unknown, so a cost limit cannot be kept.",
            hint="Limit tokens instead, run `friday models --prices`, or set prices under [providers] in the config.",
        )
