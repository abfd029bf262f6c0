"""The sandbox of a session's programs, from the settings."""

from __future__ import annotations

from collections.abc import Mapping

from friday_cli.config import Settings
from friday_cli.system.paths import cache_dir, config_dir, data_dir, state_dir
from friday_cli.workspace.sandbox.detect import SandboxChoice
from friday_cli.workspace.sandbox.policy import SandboxPolicy


def sandbox_policy(settings: Settings, choice: SandboxChoice, env: Mapping[str, str]) -> SandboxPolicy:
    """What programs can read, write and reach in the sandbox `choice`."""
    own = [folder(env) for folder in (config_dir, data_dir, state_dir, cache_dir)]
    return SandboxPolicy(choice, settings.sandbox, environ=env, own=own)
