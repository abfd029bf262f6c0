"""Which models there are, what they cost, where their keys are, and how a name becomes a provider."""

from __future__ import annotations

from .factory import can_search, make
from .local_servers import measured
from .resolve import ModelChoice, Row, resolve, usable

__all__ = ["ModelChoice", "Row", "can_search", "make", "measured", "resolve", "usable"]
