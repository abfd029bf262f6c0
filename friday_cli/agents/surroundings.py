"""What surrounds a session: the world as it is, or a recording of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from friday_cli.config import Settings
from friday_cli.core.agent.agent import Agent, Hooks
from friday_cli.core.protocol.events import Checked, Envelope
from friday_cli.core.protocol.format import EXTERNAL
from friday_cli.core.protocol.provider import AskedTier, Effort, Provider
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.extensions.profiles import Profile
from friday_cli.llm import models
from friday_cli.llm.models import ModelChoice
from friday_cli.llm.models.presets import PRESETS

if TYPE_CHECKING:
    from friday_cli.workspace.worktrees.worktrees import Worktrees

T = TypeVar("T")
Check = Callable[[Agent, Profile], Awaitable[Checked]]
"""Checks the work of an agent by the command of its profile. Raises ToolError if that cannot be started."""


class Surroundings:
    """What a session finds outside of itself: here the world as it is. `session/replay` has a recorded one."""

    saved = True
    """Whether the session is kept."""
    history: Sequence[Envelope] = ()
    """The events before the part that is replayed."""
    check: Check | None = None
    """What answers for the checks of ladders where nothing is run; None runs them."""

    def live(self, value: T) -> T | None:
        """`value`, which reaches or changes the world; None where nothing may."""
        return value

    def choice(
        self, name: str | None, settings: Settings, env: Mapping[str, str], *, effort: Effort | None, source: str
    ) -> ModelChoice:
        """The model of a name. Raises UsageError, NotConfigured."""
        return models.resolve(name, settings, env=env, effort=effort, source=source)

    async def with_server_limits(self, choice: ModelChoice, settings: Settings, env: Mapping[str, str]) -> ModelChoice:
        """The choice with the context window that its server reports, if it is a local one."""
        preset = PRESETS.get(choice.provider)
        if preset is None or not preset.local:
            return choice
        from friday_cli.llm.models.local_servers import with_server_limits

        return await with_server_limits(choice, settings, env=env)

    def provider(
        self, choice: ModelChoice, settings: Settings, env: Mapping[str, str], *, web_search: bool, tier: AskedTier
    ) -> Provider:
        """What answers for a model. Raises FridayError for one that cannot be used."""
        if choice.provider != EXTERNAL:
            return models.create_provider(choice, settings, env=env, web_search=web_search, tier=tier)
        from friday_cli.external_agents.provider import ExternalProvider  # few agents are external ones

        return ExternalProvider(choice.model)

    def tools(self, tools: dict[str, Tool]) -> dict[str, Tool]:
        """What answers for the tools of an agent."""
        return tools

    def hooks(self, make: Callable[[Hooks | None], Hooks | None]) -> Hooks | None:
        """What answers for the hooks of the session, which `make` makes; None if there are none. `make` takes what answers in
        place of those that run after calls."""
        return make(None)

    def worktrees(self, make: Callable[[], Worktrees], workspace: Workspace) -> Worktrees:
        """The worktrees of sub-agents of a session in `workspace`, which `make` makes."""
        return make()


LIVE = Surroundings()
