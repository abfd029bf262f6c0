"""What is logged of an agent whose work another program does."""

from __future__ import annotations

from typing import Literal

from .live_events import Event

Metering = Literal["counted", "reported", "unknown"]
"""Who says what an external agent used: Friday, which counted its requests; the program; or nobody."""


class ExternalSession(Event, frozen=True, tag="external_session"):
    """Another program does the work of this agent: its name and version, the id of its own session, with which it can be continued, and who says
    what it used."""

    program: str
    version: str
    id: str
    metering: Metering = "reported"
