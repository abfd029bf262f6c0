from __future__ import annotations

from tests.delegation.harness import stage

__all__ = ["stage"]
