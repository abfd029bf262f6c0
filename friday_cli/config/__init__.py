"""Settings: flag > environment > your file > default; a trusted project's file may only tighten."""

from __future__ import annotations

from .layers import ENVIRONMENT, Loaded, load, lookup, rows
from .settings import (
    Agents,
    Context,
    Delegation,
    Limits,
    Mode,
    Permissions,
    Prices,
    ProviderSettings,
    Retention,
    Sandbox,
    Settings,
    TokenBudget,
    Tools,
)

__all__ = [
    "ENVIRONMENT",
    "Agents",
    "Context",
    "Delegation",
    "Limits",
    "Loaded",
    "Mode",
    "Permissions",
    "Prices",
    "ProviderSettings",
    "Retention",
    "Sandbox",
    "Settings",
    "TokenBudget",
    "Tools",
    "load",
    "lookup",
    "rows",
]
