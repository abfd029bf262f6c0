"""Which models there are, what they cost, where their keys are, and how a name becomes a provider."""

from __future__ import annotations

from .make import can_search, make
from .probe import measured
from .resolve import Choice, Row, resolve, usable

__all__ = ["Choice", "Row", "can_search", "make", "measured", "resolve", "usable"]
