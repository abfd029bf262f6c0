"""Asks a model for an answer in text, after which no tool runs: a summary, an intent, a wrap-up.

It is asked with the same request as any other, so that the service reads the conversation from its cache (Anthropic keeps
only tools and system text when `tool_choice` changes). Only after a reply with calls a second request forbids them.
"""

from __future__ import annotations

import msgspec

from ..protocol.messages import Message, ToolResult, handed_in
from ..protocol.provider import ReplyDone
from .agent import Agent, Services
from .model_call import ModelCall

CALLS_REFUSED = "Not run: tools are disabled. Answer in text."
"""The result of a call where an answer in text was asked for."""
ANSWER_CHARS = 500
"""A text of this many characters before calls is an answer; a shorter one announces the calls."""


def answers_in_text(done: ReplyDone) -> bool:
    """Whether a reply is the answer that was asked for, or a refusal, although it may have calls too."""
    message = done.message
    return not message.calls or bool(handed_in(message)) or len(message.text.strip()) >= ANSWER_CHARS


async def text_reply(agent: Agent, services: Services) -> ReplyDone:
    """The answer, without deltas, and the usage of both requests. The first reply, if it has calls, and their refusal are
    added to `agent.conversation.history`, not to the log. Raises ProviderError and LimitReached."""
    done = await ModelCall(agent, services, "compaction", quiet=True).send()
    if answers_in_text(done):
        return done
    results = tuple(ToolResult(call.id, CALLS_REFUSED, "cancelled") for call in done.message.calls)
    conversation = agent.conversation
    conversation.history = [*conversation.history, done.message, Message("tool", results, "harness")]
    again = await ModelCall(agent, services, "compaction", tools=False, quiet=True).send()
    return msgspec.structs.replace(again, usage=done.usage + again.usage)
