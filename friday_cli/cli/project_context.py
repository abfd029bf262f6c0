"""The trust, settings and profiles of the current folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from friday_cli import config
from friday_cli.extensions.profiles import Profiles, load
from friday_cli.extensions.trust import Trust, is_trusted
from friday_cli.llm.models.credentials import remember_keys
from friday_cli.session.mcp_settings import read_servers
from friday_cli.system.paths import working_folder

if TYPE_CHECKING:
    from friday_cli.mcp.entry import ServerEntry


class ProjectContext(msgspec.Struct, frozen=True):
    """The project of the current folder."""

    trust_status: Trust
    loaded: config.Loaded

    @property
    def settings(self) -> config.Settings:
        return self.loaded.settings

    @property
    def directory(self) -> str:
        """The configured folder for profiles of the user."""
        return self.settings.agents.delegation.profiles.directory

    @property
    def token_cap(self) -> int:
        """The maximum token budget of a profile."""
        return self.settings.agents.delegation.token_budget.max

    def profiles(self) -> Profiles:
        """The usable profiles."""
        return load(self.directory, self.trust_status, token_cap=self.token_cap)

    def mcp_servers(self) -> tuple[tuple[ServerEntry, ...], tuple[str, ...]]:
        """The MCP servers of a session in this folder, and one line for each problem."""
        found = self.profiles().found.values()
        return read_servers(working_folder(), os.environ, project=self.trust_status, profiles=found)


def load_context() -> ProjectContext:
    """Load the context of the current folder. Raises FileError for invalid settings, UsageError if the folder is gone."""
    trust_status = is_trusted(working_folder())
    loaded = config.load(project=trust_status.root if trust_status.ok else None)
    remember_keys(loaded.settings.providers, os.environ)
    return ProjectContext(trust_status, loaded)
