"""The marks around the instructions of a skill, by which they are found again in a conversation."""

from __future__ import annotations

import re

from .lazy_regex import pattern

BEGIN = "<skill_content name="
BLOCK = pattern(r'<skill_content name="([^"\n]+)"[^>\n]*>\n.*?\n</skill_content>', re.S)
_TAG = pattern(r"<(?=\s{0,9}/?\s{0,9}skill_content\b)", re.I)


def mark_skill(name: str, sha256: str, text: str) -> str:
    """The instructions of a skill between marks that `text` cannot close or imitate."""
    return f'{BEGIN}"{name}" sha256="{sha256[:12]}">\n{_TAG().sub("‹", text)}\n</skill_content>'


def without_skills(text: str) -> str:
    """A message without the instructions of skills."""
    return BLOCK().sub("", text) if BEGIN in text else text


def folded_skills(text: str) -> str:
    """A message for people, with the names of skills instead of their instructions."""
    return BLOCK().sub(r"[instructions of the skill \1]", text) if BEGIN in text else text
