"""The trust, settings and profiles of the current folder."""

from __future__ import annotations

import os

import msgspec

from friday_cli import config
from friday_cli.extensions.profiles import Profiles, load
from friday_cli.extensions.trust import Trust, is_trusted
from friday_cli.llm.models.credentials import remember_keys
from friday_cli.paths import working_folder


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


def load_context() -> ProjectContext:
    """Load the context of the current folder. Raises FileError for invalid settings, UsageError if the folder is gone."""
    trust_status = is_trusted(working_folder())
    loaded = config.load(project=trust_status.root if trust_status.ok else None)
    remember_keys(loaded.settings.providers, os.environ)
    return ProjectContext(trust_status, loaded)
