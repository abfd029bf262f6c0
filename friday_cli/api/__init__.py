"""Friday for Python programs: `run` a prompt, or `open` a session. docs/api.md is the guide.

Importing this package loads nothing else; a name loads its module when it is used first.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from friday_cli.agents.program import CanUse, HookFunction, ToolRequest
    from friday_cli.core.permissions.approvals import ApprovalAnswer
    from friday_cli.core.protocol import events
    from friday_cli.core.protocol.errors import (
        BudgetSpent,
        FridayError,
        NotConfigured,
        StoreError,
        ToolError,
        UsageError,
    )
    from friday_cli.core.protocol.events import AnyEvent, Envelope
    from friday_cli.core.protocol.messages import Image, Usage
    from friday_cli.core.protocol.receipt import Receipt

    from . import sync
    from .open_session import OpenSession, PromptRun, open, run
    from .options import OpenOptions
    from .own_tools import OwnTool, tool
    from .results import AgentResult

_PROTOCOL = "friday_cli.core.protocol"
_MODULES = {
    "AgentResult": "friday_cli.api.results",
    "AnyEvent": f"{_PROTOCOL}.events",
    "ApprovalAnswer": "friday_cli.core.permissions.approvals",
    "BudgetSpent": f"{_PROTOCOL}.errors",
    "CanUse": "friday_cli.agents.program",
    "Envelope": f"{_PROTOCOL}.events",
    "FridayError": f"{_PROTOCOL}.errors",
    "HookFunction": "friday_cli.agents.program",
    "Image": f"{_PROTOCOL}.messages",
    "NotConfigured": f"{_PROTOCOL}.errors",
    "OpenOptions": "friday_cli.api.options",
    "OpenSession": "friday_cli.api.open_session",
    "OwnTool": "friday_cli.api.own_tools",
    "PromptRun": "friday_cli.api.open_session",
    "Receipt": f"{_PROTOCOL}.receipt",
    "StoreError": f"{_PROTOCOL}.errors",
    "ToolError": f"{_PROTOCOL}.errors",
    "ToolRequest": "friday_cli.agents.program",
    "Usage": f"{_PROTOCOL}.messages",
    "UsageError": f"{_PROTOCOL}.errors",
    "open": "friday_cli.api.open_session",
    "run": "friday_cli.api.open_session",
    "tool": "friday_cli.api.own_tools",
}
"""The module of each public name."""
_SUBMODULES = {"events": f"{_PROTOCOL}.events", "sync": "friday_cli.api.sync"}

__all__ = [
    "AgentResult", "AnyEvent", "ApprovalAnswer", "BudgetSpent", "CanUse", "Envelope", "FridayError", "HookFunction",
    "Image", "NotConfigured", "OpenOptions", "OpenSession", "OwnTool", "PromptRun", "Receipt", "StoreError", "ToolError",
    "ToolRequest", "Usage", "UsageError", "events", "open", "run", "sync", "tool",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """A public name, when it is used first."""
    if name in _SUBMODULES:
        value: Any = import_module(_SUBMODULES[name])
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
