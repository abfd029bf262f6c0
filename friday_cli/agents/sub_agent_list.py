"""The list of sub-agents in a system prompt: short enough for the model's window, however many profiles there are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from friday_cli.core.protocol.messages import CHARS_PER_TOKEN
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.extensions.profiles.profile import Profile

SHARE = 0.02
"""The part of the context window that the list may take."""
LENGTHS = (400, 200, 120, 80, 60)
"""Characters of each description, tried in this order."""


class SubAgentList(msgspec.Struct, frozen=True):
    """`text`: the profiles, one a line. `hidden`: how many are not in it."""

    text: str
    hidden: int = 0


def sub_agent_list(children: Sequence[Profile], window: int) -> SubAgentList:
    """The profiles that an agent can delegate to, in at most `SHARE` of `window` (tokens; 0: no limit). Descriptions are cut
    first; then profiles are left out: those of other tools before the user's and the project's, and the shipped ones last."""
    most = int(window * SHARE * CHARS_PER_TOKEN) if window else sys.maxsize
    for length in LENGTHS:
        lines = {profile.name: _line(profile, length) for profile in children}
        if sum(len(line) + 1 for line in lines.values()) <= most:
            return SubAgentList("\n".join(lines.values()))
    shown: set[str] = set()
    used = 0
    for profile in sorted(children, key=lambda profile: (profile.origin != "shipped", profile.imported)):
        used += len(lines[profile.name]) + 1
        if used > most:
            break
        shown.add(profile.name)
    return SubAgentList("\n".join(line for name, line in lines.items() if name in shown), len(lines) - len(shown))


def _line(profile: Profile, length: int) -> str:
    text = _one_line(profile.description)
    return f"- `{profile.name}`: {text if len(text) <= length else text[: length - 1].rstrip() + '…'}"


@lru_cache(maxsize=4_096)
def _one_line(description: str) -> str:
    """A description as one line of at most the greatest of `LENGTHS`; cached, as each agent that delegates has a list."""
    return sanitize_line(description, LENGTHS[0])
