"""`python -m friday_cli.config` prints docs/config.md."""

from __future__ import annotations

from .docs import markdown

print(markdown(), end="")
