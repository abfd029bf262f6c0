"""The prompts of the agents of a session."""

from __future__ import annotations

import msgspec

from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.extensions.instructions import Instructions
from friday_cli.extensions.profiles import Profile

from .agent_tools import AgentTools
from .blueprint import NewAgent
from .small_window import listed_tools
from .start_notices import search_missing
from .system_prompt import Environment, PromptFacts, child_prompt, root_prompt


class AgentPrompts(msgspec.Struct, eq=False):
    """Writes prompts from what all agents of a session are told, and from what each is and may do."""

    tools: AgentTools
    environment: Environment
    instructions: Instructions
    _newest: tuple[PromptFacts, Profile, str] | None = None
    """The newest prompt of a sub-agent: one that is made from the same has the same."""

    def of_root(self, new: NewAgent, rules: Rules, tools: dict[str, Tool]) -> str:
        """The prompt of the main agent."""
        system = root_prompt(self._facts(new, rules, tools, self.environment), new.profile)
        return self.tools.with_instructions(system, new, tools)

    def of_child(self, new: NewAgent, rules: Rules, tools: dict[str, Tool], workspace: Workspace) -> str:
        """The prompt of a sub-agent that works in `workspace`."""
        assert new.profile is not None, "a sub-agent has one"
        here = self.tools.shared.isolation.environment_for(workspace, self.environment)
        facts = self._facts(new, rules, tools, here)
        if self._newest is None or self._newest[0] != facts or self._newest[1] is not new.profile:
            self._newest = facts, new.profile, child_prompt(facts, new.profile)
        return self.tools.with_instructions(self._newest[2], new, tools)

    def _facts(self, new: NewAgent, rules: Rules, tools: dict[str, Tool], here: Environment) -> PromptFacts:
        window, searches = new.provider.window, not search_missing(new.profile, tools, rules)
        listed = tuple(listed_tools(tools, window))
        return PromptFacts(here, listed, new.targets, window, self.instructions, searches)
