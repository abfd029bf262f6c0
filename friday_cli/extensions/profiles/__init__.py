"""Profiles: Markdown files that define the prompt, tools and limits of a sub-agent."""

from __future__ import annotations

from .lookup import Profiles, check, is_shipped_copy, load, shipped_folder, user_folder
from .profile import TOKENS_USEFUL, TURNS, TURNS_HARD, Origin, Profile

__all__ = [
    "TOKENS_USEFUL",
    "TURNS",
    "TURNS_HARD",
    "Origin",
    "Profile",
    "Profiles",
    "check",
    "is_shipped_copy",
    "load",
    "shipped_folder",
    "user_folder",
]
