"""What a profile lets its agents do, as the log keeps it."""

from __future__ import annotations

from typing import Literal

import msgspec

from .limits import Limits


class ProfileRights(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the profile of an agent let it do when a run of it began, its tools aside. A resumed agent gets no more, whatever the
    profile says then."""

    mode: Literal["", "ask", "edits", "plan", "auto"] = ""
    """"": as its parent."""
    only: tuple[str, ...] = ()
    """Rules such as `bash(git *)`; a tool in them is limited to these calls."""
    deny: tuple[str, ...] = ()
    """Rules for calls that are refused."""
    skills: tuple[str, ...] | None = None
    """Patterns for the names of its skills; None: those of its parent."""
    sub_agents: tuple[str, ...] | Literal["*"] = ()
    """Profiles that it may delegate to."""
    supervision: Literal["", "unsupervised", "supervised", "supervised-human"] = ""
    turns: int = 0
    """The most of a run; 0: no limit."""
    time_s: float = 0.0
    """Active seconds of a run; 0: no limit."""

    @property
    def limits(self) -> Limits:
        """The limits of each run."""
        return Limits(turns=self.turns or None, time_s=self.time_s or None)
