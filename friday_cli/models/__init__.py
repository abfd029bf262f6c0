"""Which models there are, what they cost, where their keys are, and how a name becomes a provider."""

from __future__ import annotations

from .make import make
from .probe import measured
from .resolve import Choice, Row, resolve, usable

__all__ = ["Choice", "Row", "make", "measured", "resolve", "usable"]
