"""Which models there are, what they cost, where their keys are, and how a name becomes a provider."""

from __future__ import annotations

from .make import make
from .resolve import Choice, Row, default_subagent, resolve, usable

__all__ = ["Choice", "Row", "default_subagent", "make", "resolve", "usable"]
