"""What an agent's context window holds, in tokens by part."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from friday_cli.agents.system_prompt import instructions_in
from friday_cli.core.agent.agent import Agent
from friday_cli.core.agent.next_request import prompt_tokens
from friday_cli.core.protocol.events import ToolSpec
from friday_cli.core.protocol.messages import Message, ToolCall, ToolResult, estimate_message, estimate_tokens
from friday_cli.core.protocol.tool_info import SKILL
from friday_cli.core.text.skill_marks import without_skills
from friday_cli.core.tool_catalog import MEMORY_LOAD


class ContextSize(msgspec.Struct, frozen=True):
    """Tokens of the next request of an agent, by part. Each part is an estimate; the sum is what the service reported for the
    last request, with an estimate of what came since."""

    window: int
    """The context window of the model, 0 if it is not known."""
    system: int
    """The system prompt without the files with instructions."""
    tools: int
    """The descriptions of the tools."""
    skills: int
    """The list of skills, and those that were loaded."""
    memory: int
    """Files with instructions (AGENTS.md), and notes that were read from memory."""
    messages: int
    """Everything else that was said, called and returned."""

    @property
    def used(self) -> int:
        """The sum of the parts."""
        return self.system + self.tools + self.skills + self.memory + self.messages

    @property
    def free(self) -> int:
        """What is left of the window."""
        return max(self.window - self.used, 0)


def context_size(agent: Agent) -> ContextSize:
    """What the next request of an agent would hold."""
    conversation = agent.conversation
    history = conversation.history
    files = estimate_tokens(instructions_in(conversation.system))
    system = estimate_tokens(conversation.system) - files
    tools = _specs(spec for spec in conversation.specs if spec.name != SKILL)
    skills = (
        _specs(spec for spec in conversation.specs if spec.name == SKILL) + _results(history, SKILL) + _marked(history)
    )
    memory = files + _results(history, MEMORY_LOAD)
    fixed = system + tools + skills + memory
    estimate = sum(map(estimate_message, history)) - _results(history, SKILL, MEMORY_LOAD) - _marked(history)
    measured = prompt_tokens(agent) - fixed if conversation.context else estimate
    return ContextSize(
        conversation.provider.window,
        system=system,
        tools=tools,
        skills=skills,
        memory=memory,
        messages=measured if measured > 0 else max(estimate, 0),
    )


def _specs(specs: Iterable[ToolSpec]) -> int:
    return estimate_tokens("".join(spec.name + spec.description + str(spec.schema) for spec in specs))


def _results(history: Iterable[Message], *tools: str) -> int:
    """Tokens of the results of these tools."""
    called: set[str] = set()
    total = 0
    for message in history:
        called.update(part.id for part in message.parts if isinstance(part, ToolCall) and part.name in tools)
        found = [part for part in message.parts if isinstance(part, ToolResult) and part.call_id in called]
        total += sum(estimate_tokens(part.text) for part in found)
    return total


def _marked(history: Iterable[Message]) -> int:
    """Tokens of the skills that the person loaded with a message."""
    texts = [message.text for message in history if message.role == "user"]
    return sum(estimate_tokens(text) - estimate_tokens(without_skills(text)) for text in texts)
