"""Compaction: replaces the history by a summary and keeps the newest request unchanged."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..eventlog.notices import NOTE
from ..protocol.errors import ProviderError
from ..protocol.events import Compacted, MessageAdded, Prefix
from ..protocol.messages import Message, user, without_thinking
from ..protocol.plan import APPROVED
from ..protocol.provider import NO_TOOLS, ReplyDone
from ..protocol.tool_info import ASK_USER
from .agent import Agent, Services, StopRun
from .loaded_skills import kept_skills
from .next_request import measured, prompt_tokens
from .text_reply import text_reply

KEEP = f""" {NO_TOOLS} Write a summary to continue from: everything above will be removed. Keep, in this order:
1. The task, and every request and limit that the user stated, in the user's own words.
2. Decisions, and why.
3. Files read or changed: path, and what matters about each. Commands that were run and their outcome.
4. Results: facts with their sources (file:line, URL, command).
5. Open todos, the next step, and what was tried and failed.
Leave out politeness and repetition. Answer with the summary only."""
PROMPT = f"{NOTE} The context is nearly full." + KEEP
REQUESTED = f"{NOTE} The user asked to compact the conversation." + KEEP

COMPACT_AT = 0.85
"""Used fraction of the window at which the history is replaced by a summary, where no person set another."""
BELOW_STEP = 0.95
"""The same for the input from which on a service charges more."""
HEADER = f"{NOTE} The conversation so far was replaced by this summary."
_PLAN = f"{NOTE} The plan that the user approved:\n"


async def needed(agent: Agent, services: Services) -> bool:
    """Whether the next request would fill more than `compact_at` of the window, or pass the input above which the service charges more for
    every token of a request (unless a person set `compact_at`)."""
    provider, set_at = agent.conversation.provider, services.policy.compact_at
    most = provider.window * (set_at or COMPACT_AT)
    step = 0 if set_at else getattr(provider, "price_step", 0)
    most = min(most, BELOW_STEP * step) if step else most
    return len(agent.conversation.history) > 2 and await measured(agent, most) > most


async def compact(agent: Agent, services: Services, *, requested: bool = False, instructions: str = "") -> None:
    """Replace the history by its summary, which starts a new prefix. Raises StopRun when the result does not fit.
    `requested`: a person asks for it between two runs, so no message is left to be answered. `instructions` are
    theirs."""
    conversation = agent.conversation
    if services.hooks is not None:
        hooked = await services.hooks.compaction(agent, requested=requested, instructions=instructions)
        if hooked.decision == "deny" and requested:
            raise StopRun("hook", hooked.reason)
        if hooked.decision == "deny":
            return
    before = prompt_tokens(agent)
    history = conversation.history
    request: list[Message] = []
    if not requested:
        # the newest message of a person or the parent stays a message, so that the next compaction finds it
        request = next(([m] for m in reversed(history) if m.role == "user" and m.source != "harness"), [])
    most = conversation.provider.window * 0.9
    if request and (size := await measured(agent, most, request)) > most:
        words = f"The message does not fit the window of {agent.model}: {size} tokens with instructions and tools."
        raise StopRun("context", words)
    about = f"\nThe user wrote about this summary: {instructions}" if instructions else ""
    done = await _summary(agent, services, REQUESTED + about if requested else PROMPT)
    texts = [HEADER, done.message.text.strip()]
    if agents := agent.subagent_notes():
        texts.append("Sub-agents of this session:\n" + agents)
    if request:
        texts.append("The last request follows unchanged. Continue with it where the summary ends.")
    skills = kept_skills(history, request, conversation.provider.window)
    conversation.begin_again([user("\n\n".join(texts), source="harness"), *_kept_plan(history), *skills, *request])
    conversation.task_left = int(agent.budget.left("tokens")) if agent.budget.tokens.limit else 0
    after = await measured(agent, most)
    await services.log.emit(
        agent.path,
        Compacted(tuple(conversation.history), before, after, done.usage),
        Prefix(agent.model, conversation.system, conversation.specs),
    )
    if services.hooks is not None:
        hooked = await services.hooks.compacted(agent, requested=requested, summary=done.message.text.strip())
        if hooked.context:
            conversation.history.append(user(hooked.context, source="harness"))
            await services.log.emit(agent.path, MessageAdded(conversation.history[-1]))
    if after > most:
        raise StopRun("context", f"The summary ({after} tokens) does not fit the window of {agent.model}.")


async def _summary(agent: Agent, services: Services, prompt: str) -> ReplyDone:
    """Ask for the summary after the whole history, or after a shortened one when that does not fit."""
    conversation = agent.conversation
    history, model = conversation.history, agent.model
    try:
        conversation.history = [*history, user(prompt, source="harness")]
        done = await text_reply(agent, services)
    except ProviderError as error:
        if error.kind != "context":
            raise
        shortened = f"{_without_middle(history, conversation.provider.window)}\n\n{prompt}"
        conversation.begin_again([user(shortened, source="harness")])
        try:
            done = await text_reply(agent, services)
        except ProviderError as again:
            if again.kind != "context":
                raise
            words = f"The context of {agent.model} is full and could not be compacted: {again.message}"
            raise StopRun("context", words) from None
    finally:
        conversation.history = history if agent.model == model else [without_thinking(m) for m in history]
    if not done.message.text.strip():
        raise StopRun("context", f"{agent.model} gave no summary when its context was full.")
    return done


def _without_middle(history: list[Message], window: int) -> str:
    """The conversation as text of half the window, without its middle."""
    text = "\n\n".join(f"## {m.role}\n{_words(without_thinking(m))}" for m in history)
    room = window * 2  # half the window at four characters a token
    if len(text) <= room:
        return text
    return f"{text[: room // 3]}\n\n[... left out ...]\n\n{text[-2 * room // 3 :]}"


def _words(message: Message) -> str:
    out = [message.text]
    out += [f"{c.name}({msgspec.json.encode(c.arguments).decode()})" for c in message.calls]
    out += [r.text for r in message.results]
    return "\n".join(t for t in out if t)


def _kept_plan(history: Sequence[Message]) -> list[Message]:
    """A message with the newest approved plan of a conversation; none if it has none. Text that other tools return never
    counts."""
    handed_in: dict[str, str] = {}
    plan = ""
    for message in history:
        for call in message.calls:
            if call.name == ASK_USER and isinstance(text := call.arguments.get("plan"), str):
                handed_in[call.id] = text
        for result in message.results:
            if result.call_id in handed_in and result.text.startswith(APPROVED):
                plan = handed_in[result.call_id]
        if message.role == "user" and message.source == "harness" and message.text.startswith(_PLAN):
            plan = message.text.removeprefix(_PLAN)
    return [user(f"{_PLAN}{plan}", source="harness")] if plan else []
