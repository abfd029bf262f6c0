"""The sub-agents of the main agent: the profiles that it may delegate to, as a person reads and chooses them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from friday_cli.config.settings import DelegationSettings
from friday_cli.core.agent.agent import Agent
from friday_cli.core.eventlog.log import Log
from friday_cli.core.eventlog.notices import NOTE, PromptNotes
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.events import Envelope, SubAgentsChosen
from friday_cli.core.subagents.node import SubagentTask
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.extensions.profiles import Origin, Profile, Profiles

from .child_limits import child_limits


class SubAgentRow(msgspec.Struct, frozen=True):
    """A profile as text for a person. `refusal`: why the main agent can never delegate to it, "" if it can. `chosen`: it
    may now. `depth`: how many levels of sub-agents may be below an agent of this profile that the main agent starts."""

    name: str
    description: str
    origin: Origin
    path: Path
    tools: str
    limits: str
    model: str
    delegates_to: str
    depth: str
    chosen: bool
    refusal: str


def chosen_before(envelopes: Sequence[Envelope]) -> tuple[str, ...] | None:
    """The newest choice in a log; None if nothing was chosen."""
    return next((e.event.profiles for e in reversed(envelopes) if type(e.event) is SubAgentsChosen), None)


class SubAgentChoice:
    """Changes hold from the next delegation on. `main` is the profile of the main agent, `chosen` an earlier choice. `notes` are
    for the main agent with its next message: its prompt and its tools stay as they are."""

    def __init__(
        self,
        profiles: Profiles,
        main: Profile | None,
        settings: DelegationSettings,
        notes: PromptNotes,
        chosen: Sequence[str] | None,
        log: Log,
    ) -> None:
        self._profiles, self._main = profiles, main
        self._settings, self._notes, self._log = settings, notes, log
        self._only = None if chosen is None else tuple(chosen)
        if chosen is not None:
            self._announce()

    @property
    def chosen(self) -> tuple[str, ...]:
        """The names of the profiles that the main agent may delegate to."""
        possible = [profile.name for profile in self._profiles.found.values() if not self._refusal(profile)]
        return tuple(sorted(name for name in possible if self._only is None or name in self._only))

    async def choose(self, names: Sequence[str]) -> None:
        """Let the main agent delegate to these profiles only. Raises UsageError for one that it can never delegate to."""
        for name in names:
            if why := self._refusal(self._profiles.get(name)):
                raise UsageError(f"{name} cannot be a sub-agent of the main agent: {why}.")
        self._only = tuple(names)
        self._announce()
        await self._log.emit("a", SubAgentsChosen(self._only))

    async def keep(self, envelopes: Sequence[Envelope]) -> None:
        """Write an earlier choice to the log, unless its `envelopes` have it."""
        if self._only is not None and self._only != chosen_before(envelopes):
            await self._log.emit("a", SubAgentsChosen(self._only))

    def _announce(self) -> None:
        listed = ", ".join(self.chosen) or "none"
        self._notes.add(f"{NOTE} The user chose the sub-agents that you may delegate to now: {listed}.")

    def profile_to_start(self, parent: Agent, spec: SubagentTask) -> Profile:
        """The profile of a new child. Raises UsageError if its parent may not delegate to it."""
        profile = self._profiles.get(spec.profile)
        if spec.fork and profile.external is not None:
            raise UsageError(
                f"{profile.name} runs another program, which cannot continue this conversation. Leave out `fork`."
            )
        sender = self._main if parent.path == "a" else self._profiles.get(parent.profile)
        kept = parent.rules.allowlist.sub_agents
        if profile not in self._profiles.children(sender) or (kept is not None and profile.name not in kept):
            raise UsageError(f"The profile {parent.profile} may not delegate to {profile.name!r}.")
        by_model = parent.path == "a" and spec.call_id  # a person may still write to any agent
        if by_model and (self._refusal(profile) or not (self._only is None or profile.name in self._only)):
            names = ", ".join(self.chosen) or "none"
            raise UsageError(
                f"The user does not allow the sub-agent {profile.name!r} in this session.", hint=f"Allowed: {names}."
            )
        return profile

    def rows(self) -> list[SubAgentRow]:
        """All profiles by name."""
        return [self._row(self._profiles.found[name]) for name in self._profiles.names()]

    def _row(self, profile: Profile) -> SubAgentRow:
        from friday_cli.extensions.profiles import render as profile_text  # a start shows none

        tools = ", ".join(sorted(profile.select(TOOLS.granted_by("profile")))) or "none"
        return SubAgentRow(
            profile.name,
            profile.description,
            profile.origin,
            Path(profile.path),
            tools="those of its parent" if profile.allowed_tools == "*" else tools,
            limits=profile_text.limits(child_limits(profile, self._settings)),
            model=profile_text.model(profile) or "that of its parent",
            delegates_to=profile_text.delegates_to(profile),
            depth=self._depth(profile),
            chosen=profile.name in self.chosen,
            refusal=self._refusal(profile),
        )

    def _depth(self, profile: Profile) -> str:
        most = self._settings.max_depth
        left = max(0, most - 1) if profile.sub_agents else 0
        if profile.sub_agents and not left:
            return f"it runs at depth 1, the last one (max_depth = {most}), so it cannot start any"
        return f"it runs at depth 1 of {most}; levels below it: {left}"

    def _refusal(self, profile: Profile) -> str:
        if not self._settings.enabled or self._settings.max_depth < 1:
            return "delegation is switched off in the settings"
        if self._main is None:
            return ""
        if profile.name == self._main.name:
            return "an agent cannot delegate to its own profile"
        return "" if profile in self._profiles.children(self._main) else f"not in subAgents of {self._main.name}"
