"""Settings: flag > environment variable > user's file > default. A trusted project's file can only tighten them."""

from __future__ import annotations

from .loader import ENVIRONMENT, Loaded, load, lookup, rows
from .settings import (
    AgentSettings,
    ContextSettings,
    DelegationSettings,
    LimitSettings,
    Mode,
    Permissions,
    Prices,
    ProviderSettings,
    Retention,
    SandboxSettings,
    Settings,
    TokenBudget,
    ToolSettings,
)

__all__ = [
    "ENVIRONMENT",
    "AgentSettings",
    "ContextSettings",
    "DelegationSettings",
    "LimitSettings",
    "Loaded",
    "Mode",
    "Permissions",
    "Prices",
    "ProviderSettings",
    "Retention",
    "SandboxSettings",
    "Settings",
    "TokenBudget",
    "ToolSettings",
    "load",
    "lookup",
    "rows",
]
