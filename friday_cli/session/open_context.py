"""The options of a frontend, and what is read for them before a session is built: settings, trust, skills, MCP servers."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from friday_cli import config
from friday_cli.agents.caller import Caller
from friday_cli.agents.surroundings import LIVE, Surroundings
from friday_cli.core.agent.agent import Policy
from friday_cli.core.limits import retry
from friday_cli.core.limits.budget import Budget
from friday_cli.core.limits.rate_limit import RateLimiter
from friday_cli.core.permissions.decision import Mode
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import EXTERNAL, is_demo
from friday_cli.core.protocol.limits import BudgetOwner
from friday_cli.core.protocol.provider import Effort
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.text.known_keys import without_keys
from friday_cli.extensions import instructions, profiles, trust, trust_review
from friday_cli.extensions.skills.lookup import Skills
from friday_cli.extensions.skills.lookup import load as find_skills
from friday_cli.llm import models
from friday_cli.system.paths import cache_dir, config_dir
from friday_cli.system.project_search import left_out
from friday_cli.workspace.process.environment import nesting_depth
from friday_cli.workspace.sandbox.detect import SandboxChoice, detect_sandbox

from .mcp_settings import read_servers

if TYPE_CHECKING:
    from friday_cli.agents.program import Program
    from friday_cli.mcp.entry import ServerEntry


MapToolMaker = Callable[..., Tool]
"""Makes the tool for batches, whose package is above this one: `BatchTool` of `friday_cli.map.tool`."""


class Options(msgspec.Struct, frozen=True):
    """The options of a session, as a frontend was given them; None or empty: as the settings say."""

    cwd: Path
    add_dirs: tuple[Path, ...] = ()
    model: str | None = None
    effort: Effort | None = None
    profile: str | None = None
    keeps_rights: bool = False
    """Whether `profile` is that of the resumed session, whose main agent gets no more rights than it had."""
    mode: Mode | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    attended: bool = False
    """Whether a person can answer questions."""
    trusted: bool = False
    """Treat the folder as trusted in this session."""
    resume: str | None = None
    """The whole id of a session."""
    config_file: Path | None = None
    flags: dict[str, object] = {}
    """Settings of the command line by dotted name."""
    sub_agents: tuple[str, ...] | None = None
    """The only profiles that the main agent may delegate to."""
    mcp_config: tuple[str, ...] = ()
    """Files or JSON with MCP servers."""
    no_mcp: bool = False
    """Use only the servers of `mcp_config`."""
    caller: Caller | None = None
    """The program that makes the main agent's calls."""
    program: Program | None = None
    """What a Python program adds that opens the session in its own process."""
    steering: Path | None = None
    """The folder used instead of `cwd` to read files of the project that steer agents; they are trusted."""
    needs_sandbox: bool = False
    """Refuse to open where commands would not be confined, unless the settings say so."""
    map_tool: MapToolMaker | None = None
    """Makes the tool for batches."""
    below: str = ""
    """The profile of the agents that are to be started below the main agent; if another program does their work, no model
    of Friday's own is needed. If it equals `profile`, such an agent becomes the only sub-agent of a main agent that
    sends nothing."""
    surroundings: Surroundings = LIVE
    """What the session finds outside of itself: the world, or a recording of it, of which nothing is saved."""
    now: Callable[[], float] = time.time
    """The time, in Unix seconds."""
    rng: random.Random = msgspec.field(default_factory=random.Random)
    """The chance in waits and back-offs."""
    make_rate_limiter: Callable[[str], RateLimiter] | None = None
    """Makes the rate limiter of a `rate_limit_key`; None: one that all sessions of the person share."""


class OpenContext(msgspec.Struct, frozen=True, eq=False):
    """Everything that is read before anything is written. `root`: the project of `cwd`. The root of `trust` is another folder
    where the files that steer agents are read somewhere else."""

    cwd: Path
    root: Path
    env: Mapping[str, str]
    trust: trust.Trust
    settings: config.Settings
    profiles: profiles.Profiles
    instructions: instructions.Instructions
    skills: Skills
    choice: models.ModelChoice
    sandbox: SandboxChoice
    notices: tuple[str, ...]
    servers: tuple[ServerEntry, ...]

    @property
    def project_servers(self) -> tuple[str, ...]:
        """The names of the MCP servers that the project brings."""
        return tuple(server.name for server in self.servers if server.of_project)

    @property
    def has_hook_files(self) -> bool:
        """Whether the person or a trusted project has a file with hooks. Blocks."""
        names = trust.HOOK_FILES if self.settings.hooks.claude else trust.HOOK_FILES[:1]
        own = (config_dir(self.env) / "hooks.json").is_file()
        return own or (self.trust.ok and any(name in self.trust.files for name in names))


def _external_choice(options: Options, found: profiles.Profiles) -> models.ModelChoice | None:
    """What stands for the model of a main agent that sends nothing, because only agents of other programs are started below it;
    None if the main agent needs a model. Raises UsageError for such a program as the main agent."""
    named = {name: found.named(name) for name in (options.profile, options.below) if name}
    main, below = named.get(options.profile or ""), named.get(options.below)
    if main is not None and main.external is not None and main is not below:
        raise UsageError(
            f"The profile {main.name} runs {main.program}, which can be a sub-agent, not the main agent of a chat.",
            hint=f'Use `friday ask --profile {main.name} "..."`, or let the main agent delegate to it.',
        )
    if below is None or below.external is None or options.model:
        return None
    return models.ModelChoice(EXTERNAL, below.program, source=f"profile {below.name}")


def with_only_sub_agent(options: Options, context: OpenContext) -> tuple[Options, OpenContext]:
    """Both for a session whose main agent sends nothing and has one sub-agent, an external agent, if the options ask for one."""
    name = options.profile
    if not name or name != options.below or context.profiles.get(name).external is None:
        return options, context
    limits = context.settings.limits
    budget = Budget(BudgetOwner.PROMPT, tokens=limits.max_tokens, cost=limits.max_cost)
    limits = msgspec.structs.replace(limits, max_turns=None, timeout=None)  # those of the sub-agent
    options = msgspec.structs.replace(options, profile=None, sub_agents=(name,), caller=Caller("friday ask", budget))
    return options, msgspec.structs.replace(context, settings=msgspec.structs.replace(context.settings, limits=limits))


async def _choice(
    options: Options, settings: config.Settings, env: Mapping[str, str], found: profiles.Profiles
) -> models.ModelChoice:
    """The model of the main agent. Raises UsageError, NotConfigured."""
    around = options.surroundings
    choice = _external_choice(options, found) or _ladder_choice(options, settings, env, found)
    choice = choice or around.choice(options.model, settings, env, effort=options.effort, source="--model")
    return await around.with_server_limits(choice, settings, env)


def _ladder_choice(
    options: Options, settings: config.Settings, env: Mapping[str, str], found: profiles.Profiles
) -> models.ModelChoice | None:
    """The first model of the ladder of the main agent; None if it has none, or another model was chosen. Raises UsageError,
    NotConfigured."""
    persona = found.get(options.profile) if options.profile and not options.model else None
    if persona is None or not persona.models or is_demo(settings.model):
        return None
    name = persona.models[0]
    if wanted := models.class_of(name):
        usual = models.resolve(None, settings, env=env)
        name = models.class_model(wanted, usual.provider, usual.model, settings, env) or name
    return models.resolve(name, settings, env=env, effort=options.effort, source=f"profile {persona.name}")


async def _sandbox(options: Options, settings: config.Settings, env: Mapping[str, str], cwd: Path) -> SandboxChoice:
    """What confines commands here. Raises UsageError if there is none and the options ask for one."""
    sandbox = await asyncio.to_thread(
        detect_sandbox, settings.sandbox.kind, env, cache=cache_dir(env), workspace=(cwd, *options.add_dirs)
    )
    if options.needs_sandbox and sandbox.kind == "none" and settings.sandbox.kind != "none":
        raise UsageError(
            f"--ci: no sandbox works here: {sandbox.why}.",
            hint="Install bubblewrap, or run without one on purpose: FRIDAY_SANDBOX=none.",
        )
    return sandbox


async def read_context(options: Options, env: Mapping[str, str]) -> OpenContext:
    """Read everything that decides how the session is built. Nothing is written, so a failure leaves nothing behind."""
    cwd = Path(os.path.realpath(options.cwd))  # noqa: ASYNC240 - before the session's loop has anything to do
    if not cwd.is_dir():  # noqa: ASYNC240
        raise UsageError(f"{options.cwd} is not a folder.")
    steering = options.steering or cwd
    folder_trust = trust.is_trusted(steering, env=env)
    if options.trusted or options.steering:
        folder_trust = folder_trust.as_trusted()
    project = folder_trust.root if folder_trust.ok else None
    loaded = config.load(project=project, flags=options.flags, environ=env, file=options.config_file)
    settings = loaded.settings
    models.remember_keys(settings.providers, env)
    delegation = settings.agents.delegation
    found = profiles.load(delegation.profiles.directory, folder_trust, token_cap=delegation.token_budget.max, env=env)
    choice = await _choice(options, settings, env, found)
    follows = folder_trust.ok and not folder_trust.revised
    notes = instructions.read(steering, root=folder_trust.root, config=config_dir(env), trusted=follows)
    skills = find_skills(steering, folder_trust, env)
    servers, problems = read_servers(
        cwd,
        env,
        project=folder_trust,
        profiles=found.found.values(),
        given=options.mcp_config,
        files=not options.no_mcp,
    )
    notices = (
        *filter(None, (left_out(cwd),)),
        *choice.notes,
        *loaded.notices,
        *notes.notices,
        *found.announcements,
        *found.problem_notices(),
        *skills.problem_notices(),
        *problems,
        *trust_review.notices(folder_trust, notes),
    )
    passed = without_keys(env)
    if withheld := [name for name in settings.tools.env_allow if name in env and name not in passed]:
        notices += (f"tools.env_allow: commands do not get {', '.join(withheld)}, which holds a key of Friday.",)
    sandbox = await _sandbox(options, settings, env, cwd)
    if sandbox.kind == "none" and (options.mode or settings.mode) == "auto":
        notices += (f"sandbox: none ({sandbox.why}). Commands are not confined, so mode auto asks about them.",)
    return OpenContext(
        cwd,
        trust.project_root(cwd),
        env,
        folder_trust,
        settings,
        profiles=found,
        instructions=notes,
        skills=skills,
        choice=choice,
        sandbox=sandbox,
        notices=notices,
        servers=servers,
    )


def policy_of(options: Options, settings: config.Settings, env: Mapping[str, str]) -> Policy:
    """The settings of the engine."""
    delegation = settings.agents.delegation
    return Policy(
        compact_at=settings.context.compact_at,
        max_depth=max(0, delegation.max_depth - nesting_depth(env)),
        max_concurrent=delegation.max_concurrent,
        max_agents=delegation.max_agents,
        offline_s=_offline_s(options, settings),
        keep_warm_s=settings.context.keep_warm,
        patient=settings.limits.on_limit == "wait",
    )


def _offline_s(options: Options, settings: config.Settings) -> float:
    """Seconds without a connection after which a request fails: the time limit of a prompt, in a chat not less than the
    default."""
    usual = retry.OFFLINE_S
    return max(usual if options.attended else 0.0, settings.limits.timeout or usual)
