"""What holds in this folder: whether it is trusted, its settings, its profiles."""

from __future__ import annotations

import msgspec

from friday_cli import config
from friday_cli.extensions.profiles import Profiles, load
from friday_cli.extensions.trust import Trust, is_trusted
from friday_cli.paths import working_folder


class ProjectContext(msgspec.Struct, frozen=True):
    """The folder `friday` was called in."""

    standing: Trust
    loaded: config.Loaded

    @property
    def settings(self) -> config.Settings:
        return self.loaded.settings

    @property
    def directory(self) -> str:
        """The folder of the user's own profiles, as it is set."""
        return self.settings.agents.delegation.profiles.directory

    @property
    def token_cap(self) -> int:
        """The most tokens a profile can get."""
        return self.settings.agents.delegation.token_budget.max

    def profiles(self) -> Profiles:
        """The profiles that can be used here."""
        return load(self.directory, self.standing, token_cap=self.token_cap)


def look() -> ProjectContext:
    """What holds in the current folder. Raises FileError for settings that are wrong, UsageError without a folder."""
    standing = is_trusted(working_folder())
    return ProjectContext(standing, config.load(project=standing.root if standing.ok else None))
