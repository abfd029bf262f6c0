from __future__ import annotations

from tests.delegation.stage import stage

__all__ = ["stage"]
