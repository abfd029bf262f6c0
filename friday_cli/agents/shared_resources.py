"""What all agents of a session are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from friday_cli.config import Settings
from friday_cli.core.agent.agent import Services
from friday_cli.extensions.profiles import Profiles

from .isolation import WorktreeIsolation
from .provider_pool import ProviderPool
from .skills import SessionSkills
from .spawn_estimates import SpawnEstimates

if TYPE_CHECKING:
    from friday_cli.mcp.pool import ServerPool

    from .code_checks import CodeChecks


class SharedResources(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The resources that all agents of a session share, and from which their tools are made."""

    services: Services
    isolation: WorktreeIsolation
    providers: ProviderPool
    settings: Settings
    profiles: Profiles
    skills: SessionSkills
    estimates: SpawnEstimates
    code: CodeChecks | None = None
    """What asks the language servers of the session; None where there are none."""
    servers: ServerPool | None = None
    """The MCP servers of the session; None if it has none."""
