"""What a server may do, from its command line and the settings of its folder: profiles, caps, and how sessions open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from friday_cli import config
from friday_cli.agents.agent_rules import session_rules
from friday_cli.agents.child_limits import child_limits
from friday_cli.agents.provider_pool import ProviderPool
from friday_cli.agents.spawn_estimates import SpawnEstimates
from friday_cli.core.limits.budget import Budget
from friday_cli.core.permissions.decision import Mode
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.limits import BudgetOwner
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Provider
from friday_cli.core.subagents.node import SpawnEstimate
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.extensions import profiles, trust
from friday_cli.extensions.profiles import Profile, Profiles, render
from friday_cli.llm import models
from friday_cli.session.open_context import Options
from friday_cli.system.paths import working_folder
from friday_cli.workspace.process.environment import DEPTH, nesting_depth


class ServeSettings(msgspec.Struct, frozen=True, eq=False):
    """How a server works. `options`: those of its sessions, without what concerns one of them. `budget`: the caps, which
    hold for all its sessions together. `cwd`: the folder, without links."""

    cwd: Path
    options: Options
    settings: config.Settings
    profiles: Profiles
    budget: Budget
    env: Mapping[str, str]

    @classmethod
    def read(cls, values: Mapping[str, Any], env: Mapping[str, str] | None = None) -> ServeSettings:
        """From the values of the command line. Raises FridayError for what cannot be used."""
        env = os.environ if env is None else env
        cwd = Path(os.path.realpath(working_folder(values["cwd"])))
        flags = {f"limits.{name}": values[name] for name in ("max_tokens", "max_cost")}
        flags["subagent_model"] = values["subagent_model"]
        file = Path(values["config"]) if values["config"] else None
        folder_trust = trust.is_trusted(cwd, env=env)
        project = folder_trust.root if folder_trust.ok else None
        settings = config.load(project=project, flags=flags, environ=env, file=file).settings
        models.remember_keys(settings.providers, env)
        delegation = settings.agents.delegation
        found = profiles.load(
            delegation.profiles.directory, folder_trust, token_cap=delegation.token_budget.max, env=env
        )
        only = tuple(found.get(name).name for name in values["profile"] or ()) or None
        mode: Mode = values["mode"] or "ask"
        allow = tuple(values["allow"] or ())
        session_rules(settings, allow=allow, deny=())  # a wrong rule is reported now
        folders = tuple(map(Path, values["add_dir"] or ()))
        if missing := [str(folder) for folder in folders if not folder.is_dir()]:
            raise UsageError(f"--add-dir: {missing[0]} is not a folder.")
        options = Options(
            cwd,
            add_dirs=folders,
            model=values["model"],
            mode=mode,
            allow=allow,
            config_file=file,
            flags=flags,
            sub_agents=only,
        )
        limits = settings.limits
        budget = Budget(BudgetOwner.SERVER, tokens=limits.max_tokens, cost=limits.max_cost)
        return cls(cwd, options, settings, found, budget, env)

    def require_depth(self) -> None:
        """Raises UsageError if delegation is switched off, or this process is nested too deep to start agents."""
        if not self.settings.agents.delegation.enabled:
            hint = "The user can run `friday config set agents.delegation.enabled true`."
            raise UsageError("No sub-agent was started: agents.delegation is switched off.", hint=hint)
        depth, most = nesting_depth(self.env), self.settings.agents.delegation.max_depth
        if depth >= most:
            raise UsageError(
                f"No sub-agent was started: this server runs {depth} deep below agents of Friday ({DEPTH}={depth}), and "
                f"agents.delegation.max_depth is {most}.",
                hint="Do the work yourself.",
            )

    @property
    def offered(self) -> tuple[Profile, ...]:
        """The profiles that a client may delegate to, sorted by name."""
        chosen = self.options.sub_agents
        return tuple(p for p in self.profiles.children(None) if chosen is None or p.name in chosen)

    async def described(self) -> list[dict[str, Any]]:
        """The offered profiles as data. A price is None where it is unknown, or no model is configured."""
        return await asyncio.to_thread(self._described)

    def _described(self) -> list[dict[str, Any]]:
        pool = ProviderPool(self.settings, self.env)
        main: Provider | None = None
        with suppress(FridayError):
            main = pool.get(models.resolve(self.options.model, self.settings, env=self.env))
        delegation = self.settings.agents.delegation
        estimates, rows = SpawnEstimates(delegation, self.profiles, pool), []
        for profile in self.offered:
            limits = child_limits(profile, delegation)
            model, price = render.model(profile), None
            if main is not None:
                with suppress(FridayError):
                    used, _ = pool.for_child(main, profile)
                    model = f"{used.name}/{used.model}"
                price = estimates.highest_cost(SpawnEstimate(main, profile.name, None))
            tools = sorted(profile.select(TOOLS.names - TOOLS.granted_by("harness")))
            rows.append(
                {
                    "name": profile.name,
                    "description": profile.description,
                    "tools": ["*"] if profile.allowed_tools == "*" else tools,
                    "model": model,
                    "max_tokens": limits.tokens,
                    "max_cost": limits.cost,
                    "timeout_s": limits.time_s,
                    "price_of_full_budget": None if price is None else round(price, 4),
                    "delegates_to": render.delegates_to(profile),
                }
            )
        return rows


def server_caps(budget: Budget) -> dict[str, Any]:
    """What the caps of a server have left, as data; None without a cap."""
    return {"tokens": _left(budget, "tokens"), "cost_usd": _left(budget, "cost")}


def _left(budget: Budget, what: Any) -> float | None:
    left = budget.left(what)
    return None if left == float("inf") else int(left) if what == "tokens" else round(left, 4)


def usage_data(usage: Usage) -> dict[str, Any]:
    """A usage as data."""
    return {
        "input": usage.input,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "output": usage.output,
        "billed": usage.billed,
    }
