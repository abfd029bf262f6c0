"""Resumes agents: what an agent is made of that goes on where the log ends, and never with more rights than it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from friday_cli.core.agent.agent import Conversation
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.events import AnyEvent, Notice
from friday_cli.core.protocol.format import is_demo
from friday_cli.core.protocol.tool_info import EXTERNAL_PREFIXES, WEB_SEARCH
from friday_cli.core.subagents.resume import EarlierRuns, is_new_prefix, prefix_of, resumed, with_earlier

from .agent_rules import own_rules, start_as_before
from .agent_tools import AgentTools
from .blueprint import AgentBlueprint, profile_of
from .shared_resources import SharedResources

if TYPE_CHECKING:
    from friday_cli.core.eventlog.replay import AgentRecord


def as_before(
    blueprint: AgentBlueprint, record: AgentRecord, earlier: EarlierRuns, shared: SharedResources, tools_of: AgentTools
) -> AgentBlueprint:
    """What a resumed agent is made of: its conversation with its earlier model, and no tool that it did not have, even if
    profiles and settings changed since; with what its log must say of that."""
    conversation, profile, events = blueprint.conversation, profile_of(blueprint.new), list[AnyEvent]()
    left = {name: t for name, t in conversation.tools.items() if name in record.newest_start.tools}
    tools = tools_of.server_helpers.with_helpers(left, profile)
    rules = own_rules(blueprint.new.rules_above, profile, tools)
    if WEB_SEARCH not in tools:  # the profile may select it only since
        rules.allow_only(tool for tool in rules.allowlist.tools or () if tool != WEB_SEARCH)
    provider, model = conversation.provider, record.prefix.model if record.prefix else conversation.model
    if model != conversation.model and not is_demo(provider.name):
        try:
            provider, _ = shared.providers.named(model, f"the model of {record.path}")
        except FridayError as error:
            text = f"{record.path} resumes with {conversation.model} instead of {model}: {error}"
            events.append(Notice(text, "warning"))
    conversation = msgspec.structs.replace(
        conversation,
        provider=provider,
        tools=tools,
        specs=tools_of.specs(tools, profile, blueprint.new.provider.window),
    )
    if is_new_prefix(conversation, record):
        events.append(prefix_of(conversation))
    conversation = resumed(conversation, record)
    shared.skills.allow_loaded(rules, conversation.history)
    shared.skills.restrict_again(rules, record.skills.values())
    start_as_before(rules, record.rights, shared.profiles.found)
    if any(one != blueprint.profile_rights for one in record.rights):
        text = f"{record.path} resumes with the rights that it had: its profile {record.profile} has changed."
        events.append(Notice(text, "warning"))
    return msgspec.structs.replace(
        blueprint,
        conversation=conversation,
        rules=rules,
        earlier=earlier,
        budget=with_earlier(blueprint.budget, earlier),
        start_events=(*blueprint.start_events, *events),
    )


def resumed_root(conversation: Conversation, record: AgentRecord) -> Conversation:
    """The conversation of the main agent continued where the log ends. With the same model its system prompt and its tools stay
    as they were."""
    then = resumed(conversation, record)
    if is_new_prefix(conversation, record):
        return then
    names = {spec.name for spec in then.specs}
    tools = {n: t for n, t in then.tools.items() if n in names or n.startswith(EXTERNAL_PREFIXES)}
    return msgspec.structs.replace(then, tools=tools, context=record.context)
