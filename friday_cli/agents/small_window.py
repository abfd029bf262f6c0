"""What agents of a model with a small context window get: fewer tools and a short prompt, so that there is room for work."""

from __future__ import annotations

from collections.abc import Mapping

from friday_cli.core.protocol.provider import Provider
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import DELEGATE_TASK, TASK_RESULT
from friday_cli.core.tool_catalog import BASH, EDIT_FILE, GREP, READ_FILE

SMALL = 16_000
"""Tokens of a context window below which an agent gets the compact tools and the short prompt."""
TINY = 6_000
"""Tokens of a context window below which a person is told that it is too small."""
COMPACT_TOOLS = frozenset((READ_FILE, EDIT_FILE, BASH, GREP, DELEGATE_TASK, TASK_RESULT))


def is_small(window: int) -> bool:
    """Whether a context window (tokens; 0: unknown) is small."""
    return 0 < window < SMALL


def listed_tools(tools: Mapping[str, Tool], window: int) -> dict[str, Tool]:
    """Those of `tools` that a model with a context window of `window` tokens is told about: all of them, unless it is small.
    Of a profile without any of the compact tools, all."""
    compact = {name: tool for name, tool in tools.items() if name in COMPACT_TOOLS}
    return compact if is_small(window) and compact.keys() - {TASK_RESULT} else dict(tools)


def warning(provider: Provider) -> str:
    """What a person should know about the window of the main model; "" for nothing."""
    if not 0 < provider.window < TINY:
        return ""
    return (
        f"The context window of {provider.name}/{provider.model} has {provider.window:,} tokens: too few for most tasks. Start "
        "its server with 16,384 or more (llama.cpp: -c 16384; Ollama: OLLAMA_CONTEXT_LENGTH=16384)."
    )
