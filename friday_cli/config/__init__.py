"""Settings: flag > environment variable > user's file > default. A trusted project's file can only tighten them."""

from __future__ import annotations

from .loader import Loaded, load, lookup, rows
from .settings import SandboxSettings, Settings

__all__ = ["Loaded", "SandboxSettings", "Settings", "load", "lookup", "rows"]
