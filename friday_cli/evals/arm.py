"""Arms: the settings that an eval compares, and what of them decides how a trial goes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from friday_cli import __version__
from friday_cli.agents.provider_pool import ProviderPool
from friday_cli.config import Settings
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Provider
from friday_cli.core.protocol.tool_info import WEB_FETCH, WEB_SEARCH
from friday_cli.map.job import digest, profile_digest
from friday_cli.session.open_context import Options, read_context
from friday_cli.system.paths import config_dir

from .suite import files_digest

NO_WEB = (WEB_FETCH, WEB_SEARCH)
"""Tools that no trial may use: a solution may be on the web."""

AGAIN = "-again"
"""The end of the name of an arm that is run a second time."""


class Arm(msgspec.Struct, frozen=True):
    """One side of a comparison. `flags` is what the person wrote; `options` are those of its sessions, whose folder each trial sets.
    `max_cost` in US dollars and `timeout` in active seconds limit a trial, None: as its task says."""

    name: str
    flags: str
    options: Options
    max_cost: float | None = None
    timeout: float | None = None
    again: bool = False
    """Whether it has the settings of another arm on purpose: what differs between the two is chance."""


class PreparedArm(msgspec.Struct, frozen=True):
    """An arm whose model and profile can be used. `identity` is a hash of all that decides what its agents do; `read_deny` what
    the settings hide from commands already."""

    arm: Arm
    provider: Provider
    identity: str
    settings: Settings

    @property
    def free(self) -> bool:
        """Whether its model costs nothing."""
        return self.provider.cost(Usage(input=1_000_000, output=1_000_000)) == 0.0


async def prepare_arm(arm: Arm, folder: Path, env: Mapping[str, str]) -> PreparedArm:
    """Read what an arm names. Raises FridayError for a model, profile or file that cannot be used."""
    options = msgspec.structs.replace(arm.options, cwd=folder, trusted=True)
    context = await read_context(options, env)
    if options.profile:
        context.profiles.get(options.profile)
    settings = context.settings
    provider = ProviderPool(settings, env).get(context.choice)
    config = config_dir(env)
    hooks = config / "hooks.json"
    folders: Sequence[Path] = (config / "skills", *((options.steering,) if options.steering else ()))
    identity = digest(
        (
            __version__,
            (context.choice.name, context.choice.effort),
            (arm.max_cost, arm.timeout, options.mode, options.allow, options.deny, options.profile, options.sub_agents),
            (options.mcp_config, {name: value for name, value in options.flags.items() if value is not None}),
            (settings.agents, settings.context, settings.tools, settings.permissions, settings.subagent_model),
            sorted(profile_digest(profile) for profile in context.profiles.found.values()),
            [instruction.text for instruction in context.instructions.files],
            [hooks.read_text(errors="replace") if hooks.is_file() else ""],
            await asyncio.to_thread(lambda: [files_digest(each) for each in folders if each.is_dir()]),
            *(("again",) if arm.again else ()),
        )
    )
    return PreparedArm(arm, provider, identity, settings)


def run_again(arms: Mapping[str, str], name: str) -> str:
    """The arm that the arm `name` runs a second time, "" if none. `arms` are the flags by name."""
    first = name.removesuffix(AGAIN)
    return first if first != name and arms.get(first) == arms[name] else ""
