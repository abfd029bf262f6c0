"""The skills of a session: the tool of each agent, loading, and what an agent may do while a skill runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.agent.loaded_skills import loaded_skills
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.displays import DelegationDisplay, TextDisplay
from friday_cli.core.protocol.errors import FridayError, ToolError
from friday_cli.core.protocol.events import AnyEvent, Notice, SkillLoaded
from friday_cli.core.protocol.messages import Message, user
from friday_cli.core.protocol.receipt_builder import ReceiptBuilder
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.tool_info import DELEGATE_TASK, SKILL
from friday_cli.core.subagents.node import SubagentTask
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.core.text.suggest import closest_match
from friday_cli.extensions.profiles import Profile, Profiles
from friday_cli.extensions.skills.lookup import Skills
from friday_cli.extensions.skills.skill import LoadedSkill, Skill
from friday_cli.extensions.tool_lists import Restriction
from friday_cli.tools.delegate import in_background
from friday_cli.tools.delegate.arguments import DEFAULT_PROFILE
from friday_cli.tools.delegate.report import report
from friday_cli.tools.skill import skill_tool
from friday_cli.workspace.local import LocalWorkspace

from .spawn_limits import SpawnLimiter

How = Literal["call", "person", "preload"]


class PreloadedSkills(msgspec.Struct, frozen=True):
    """The skills that a new agent begins with."""

    texts: list[str]
    """Their instructions."""
    events: list[AnyEvent]
    receipt_builder: ReceiptBuilder

    def before(self, first: Message) -> Message:
        """The first message of the agent, after the instructions."""
        return user("\n\n".join((*self.texts, first.text)), source="parent") if self.texts else first


class SessionSkills:
    """The skills of a session: which ones its agents see, load and run. What is loaded becomes readable in `workspace`."""

    def __init__(self, skills: Skills, services: Services, profiles: Profiles, workspace: LocalWorkspace) -> None:
        self._skills = skills.found
        self._services = services
        self._profiles = profiles
        self._workspace = workspace

    def with_tool(
        self, tree: SubagentTree, tools: dict[str, Tool], rules: Rules, window: int, limiter: SpawnLimiter
    ) -> dict[str, Tool]:
        """`tools` of an agent with `rules`, with the tool for its skills; without it if it has none."""
        visible = self.visible(rules)
        others = {name: tool for name, tool in tools.items() if name != SKILL}
        return {**others, SKILL: skill_tool(_AgentSkills(self, tree, limiter), visible, window)} if visible else others

    def visible(self, rules: Rules) -> list[Skill]:
        """The skills that an agent with `rules` may load itself, sorted by name."""
        return [skill for skill in self._skills.values() if skill.by_model and rules.may_load(skill.name)]

    def find(self, name: str, rules: Rules) -> Skill:
        """The skill `name`, for an agent with `rules`. Raises ToolError."""
        visible = {skill.name: skill for skill in self.visible(rules)}
        if (skill := visible.get(name)) is not None:
            return skill
        if name in self._skills and rules.may_load(name):
            raise ToolError(f"Only the user can start the skill {name}, with /{name}.")
        near = closest_match(name.lower(), visible)
        raise ToolError(
            f"There is no skill {name!r}.", hint=f"Did you mean {near}?" if near else "Search for one with `query`."
        )

    def named(self, name: str) -> Skill | None:
        """The skill `name`, whoever may load it; None if there is none."""
        return self._skills.get(name)

    def profile_for(self, skill: Skill) -> str:
        """The profile of the sub-agent that runs a skill."""
        return skill.agent if skill.agent in self._profiles.found else DEFAULT_PROFILE

    def preload(self, path: str, profile: Profile, rules: Rules, task: LoadedSkill | None) -> PreloadedSkills:
        """What a new agent with `rules` gets of the skills that `profile` preloads, and of the one that is its `task`. What it may not
        load, or what does not exist, becomes a notice."""
        made = PreloadedSkills([], [], ReceiptBuilder())

        def add(loaded: LoadedSkill) -> None:
            self.prepare(rules, made.receipt_builder, loaded)
            made.events.append(event_of(loaded, "preload"))
            made.texts.append(loaded.text)

        for name in profile.preload_skills:
            skill = self._skills.get(name)
            try:
                if skill is None or not skill.by_model or not rules.may_load(name):
                    raise ToolError("no skill of this name exists that it may load.")
                add(skill.load())
            except FridayError as error:
                made.events.append(Notice(f"{path} ({profile.name}) does not get the skill {name}: {error}", "warning"))
        if task is not None:
            add(task)
        return made

    def prepare(self, rules: Rules, receipt: ReceiptBuilder, loaded: LoadedSkill) -> None:
        """Add a skill to the receipt of an agent, restrict its tools as the skill says, and let it read the skill's files."""
        skill = loaded.skill
        receipt.add_skill(skill.name, loaded.sha256)
        if (bounds := skill.restrictions()) is not None:
            rules.narrowed[skill.name] = bounds.rules()
        self._allow_reading(rules, skill)

    async def note(self, agent: Agent, loaded: LoadedSkill) -> None:
        """Log that an agent got a skill by a call."""
        self.prepare(agent.rules, agent.receipt_builder, loaded)
        await self._services.log.emit(agent.path, event_of(loaded, "call"))

    def allow_loaded(self, rules: Rules, history: Sequence[Message]) -> None:
        """Let a resumed agent read the files of the skills in its conversation again."""
        for name in loaded_skills(history):
            if (skill := self._skills.get(name)) is not None and rules.may_load(name):
                self._allow_reading(rules, skill)

    def restrict_again(self, rules: Rules, loaded: Iterable[SkillLoaded]) -> None:
        """Restrict the tools of a resumed agent as its skills did."""
        for one in loaded:
            rules.narrowed[one.name] = Restriction(one.tools or (), one.only, one.folder).rules()

    def _allow_reading(self, rules: Rules, skill: Skill) -> None:
        """Let the agents that may load a skill read its folder, if that is outside of the workspace."""
        real = Path(os.path.realpath(skill.folder))
        if not any(real.is_relative_to(root) for root in self._workspace.roots):
            rules.skill_folders[str(real)] = skill.name
            if real not in self._workspace.readable:
                self._workspace.readable.append(real)


def event_of(loaded: LoadedSkill, how: How) -> SkillLoaded:
    """The event of a skill that an agent got."""
    skill = loaded.skill
    return SkillLoaded(
        skill.name, loaded.sha256, skill.folder, skill.origin != "user", how, tools=skill.tools, only=skill.only
    )


class PersonSkills:
    """The skills that a person starts in the main agent."""

    def __init__(self, skills: SessionSkills, root: Agent) -> None:
        self._skills = skills
        self._root = root

    async def load(self, skill: Skill, arguments: str) -> tuple[str, str, str]:
        """What the main agent reads when the person starts a skill: its instructions, a message, and a remark for the person. A
        skill that runs as a sub-agent is started by the agent. Raises FridayError if its file cannot be used."""
        more = f" with these arguments: {arguments}" if arguments else ""
        if skill.fork and skill.by_model and SKILL in self._root.conversation.tools:
            return "", f"Run the skill {skill.name} with the tool `{SKILL}`{more}", ""
        loaded = await asyncio.to_thread(skill.load, arguments)

        def given() -> SkillLoaded:
            self._skills.prepare(self._root.rules, self._root.receipt_builder, loaded)
            return event_of(loaded, "person")

        self._root.when_read(loaded.text, given)
        return loaded.text, f"I start the skill {skill.name}{more or '.'}", loaded.note


class _AgentSkills:
    """Implements `SkillHost` for the agents of a tree."""

    def __init__(self, skills: SessionSkills, tree: SubagentTree, limiter: SpawnLimiter) -> None:
        self._skills = skills
        self._tree = tree
        self._limiter = limiter

    def visible(self, path: str) -> Sequence[Skill]:
        return self._skills.visible(self._tree.node(path).agent.rules)

    def starts(self, name: str) -> str:
        skill = self._skills.named(name)
        return self._skills.profile_for(skill) if skill is not None and skill.fork else ""

    async def load(self, ctx: ToolContext, name: str, args: str) -> Output:
        agent = self._tree.node(ctx.agent).agent
        skill = self._skills.find(name, agent.rules)
        try:
            loaded = await asyncio.to_thread(skill.load, args)
        except FridayError as error:
            raise ToolError(str(error)) from None
        if skill.fork and DELEGATE_TASK in agent.conversation.tools:
            return await self._run_as_sub_agent(ctx, agent, loaded, args)
        before = loaded_skills(agent.conversation.history).get(name, "")
        if before.partition("\n")[0] == loaded.text.partition("\n")[0]:
            more = f" Its arguments are now: {args}" if args else ""
            return Output(f"The skill {name} is already loaded: follow its instructions above.{more}")
        await self._skills.note(agent, loaded)
        warnings = (loaded.note,) if loaded.note else ()
        lines = f"{name}: {loaded.text.count(chr(10)):,} lines from {skill.folder}"
        return Output(loaded.text, TextDisplay(lines), warnings=warnings)

    async def _run_as_sub_agent(self, ctx: ToolContext, agent: Agent, loaded: LoadedSkill, args: str) -> Output:
        profile = self._skills.profile_for(loaded.skill)
        task = f"Carry out the skill {loaded.skill.name}." + (f" Arguments: {args}" if args else "")
        spec = SubagentTask(profile, task, call_id=ctx.call_id, skill=loaded)
        async with self._limiter.allow(self._tree, ctx.agent, ctx.call_id, [spec]):
            node = self._tree.spawn(ctx.agent, spec)
        with suppress(asyncio.CancelledError):  # it also ends when the call is stopped: its result is what it has
            await self._tree.wait(ctx.agent, [node])
        display = DelegationDisplay((node.path,))
        if not node.ended:
            return Output(in_background(node), display)
        text = report(node.summary, self._tree.below(node.path))
        return Output(text, display, error=node.outcome.status != "completed")
