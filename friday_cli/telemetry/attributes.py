"""Names and values of attributes, after the semantic conventions 0.66b2. Those of `gen_ai` are in development: a change of
them is a change of this file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.events import AgentStarted
from friday_cli.core.protocol.messages import Message, Text, Thinking, ToolCall, ToolResult, Usage
from friday_cli.core.text.sanitize import clean

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
ERROR_TYPE = "error.type"
PATH = "friday.agent.path"
COST = "friday.cost_usd"
AGENT_COST = "friday.agent.cost_usd"
SUBTREE_COST = "friday.agent.cost_subtree_usd"
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
INPUT, OUTPUT, SYSTEM = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"

_PROVIDERS = {
    "azure": "azure.ai.openai", "bedrock": "aws.bedrock", "gemini": "gcp.gemini", "google": "gcp.gemini",
    "mistral": "mistral_ai", "vertex": "gcp.vertex_ai", "xai": "x_ai",
}  # fmt: skip


def of_model(model: str) -> dict[str, Any]:
    """The service and the model of `provider/model`."""
    provider, _, name = model.partition("/")
    return {PROVIDER: _PROVIDERS.get(provider, provider), REQUEST_MODEL: name or provider}


def of_usage(usage: Usage) -> dict[str, Any]:
    """Tokens; the input contains those of the cache."""
    return {
        INPUT_TOKENS: usage.input + usage.cache_read + usage.cache_write,
        OUTPUT_TOKENS: usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
    }


def of_cost(usage: Usage) -> dict[str, Any]:
    """The cost of a request; nothing for an unknown price."""
    return {} if usage.cost_usd is None else {COST: usage.cost_usd}


def of_agent(session: str, path: str, started: AgentStarted) -> dict[str, Any]:
    """A run at its start."""
    found = {
        OPERATION: "invoke_agent",
        "gen_ai.agent.name": started.profile,
        "gen_ai.agent.id": f"{session}:{path}",
        "gen_ai.conversation.id": session,
        **of_model(started.model),
        PATH: path,
        "friday.agent.depth": depth_of(path),
        "friday.agent.run": started.run,
    }
    return found | ({"friday.agent.budget.tokens": started.tokens} if started.tokens else {})


def of_tool(name: str, call_id: str) -> dict[str, Any]:
    """A tool call. A tool of an MCP server is named `mcp__SERVER__TOOL`."""
    found = {
        OPERATION: "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.type": "function",
    }
    return found | ({"mcp.method.name": "tools/call"} if name.startswith("mcp__") else {})


def as_json(value: object) -> str:
    """Content as JSON: control characters are removed and what looks like a secret is masked, as in exports."""
    return json.dumps(clean(value), ensure_ascii=False)


def of_messages(messages: Sequence[Message], **more: str) -> str:
    """Messages as the conventions write them. Images and blocks that only a service can read are left out."""
    return as_json([{"role": m.role, "parts": [p for part in m.parts if (p := _part(part))], **more} for m in messages])


def _part(part: object) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "content": text}
        case Thinking(text=text):
            return {"type": "reasoning", "content": text}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
        case ToolResult(call_id=call_id, text=text):
            return {"type": "tool_call_response", "id": call_id, "response": text}
    return {}
