"""What does the work of the agents of a session: Friday's loop with a model, or the program of a profile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from friday_cli.core.agent.agent import Agent
from friday_cli.core.subagents.driver import Driver, ModelDriver

from .shared_resources import SharedResources
from .surroundings import Surroundings

if TYPE_CHECKING:
    from friday_cli.external_agents.host import ExternalAgents


class Drivers(msgspec.Struct, eq=False):
    """Makes the driver of each run. `folder` makes the folder of the session in which programs have their homes."""

    shared: SharedResources
    folder: Callable[[], Path]
    surroundings: Surroundings
    """Where nothing is run, they answer for the checks of ladders, and a model answers for a program."""
    programs: ExternalAgents | None = None
    """What starts the programs of external agents, made with the first one."""

    def of(self, agent: Agent) -> Driver:
        """What does the work of `agent` in its next run."""
        shared = self.shared
        profile = shared.profiles.found.get(agent.profile)
        if profile is not None and profile.models:
            from .ladder import LadderDriver, check_work  # few profiles have one

            return LadderDriver(agent, profile, shared, self.surroundings.check or check_work)
        if profile is None or agent.parent is None or self.surroundings.live(profile.external) is None:
            return ModelDriver(agent, shared.services)
        from friday_cli.external_agents.driver import ExternalDriver  # few sessions have external agents
        from friday_cli.external_agents.host import ExternalAgents

        if self.programs is None:
            self.programs = ExternalAgents(shared.services, shared.settings, shared.providers.env, self.folder)
        return ExternalDriver(agent, profile, self.programs)
