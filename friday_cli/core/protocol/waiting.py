"""What an agent waits for, as an event of its status."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from .errors import ErrorKind
from .live_events import Event
from .run_result import Status

WaitReason = Literal["cache", "batch", "tokens", "cost", ErrorKind]


class CapReached(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cap of the person over all sessions that has too little room for a request. `what` is what it counts; `used` of `most`
    are US dollars or tokens; of `used`, running requests hold `held`, which may come free. `payer` is the service or key that it is for, "" for
    all. It falls free at midnight, a `weekly` one on Monday."""

    period: Literal["daily", "weekly"]
    what: Literal["tokens", "cost"]
    used: float
    most: float
    payer: str = ""
    held: float = 0.0

    def __str__(self) -> str:
        """For people: `daily cap, $20.00 of $20.00`."""
        whose = f" of {self.payer}" if self.payer else ""
        if self.what == "cost":
            digits = 2 if self.most >= 1 else 4
            return f"{self.period} cap{whose}, ${self.used:,.{digits}f} of ${self.most:,.{digits}f}"
        return f"{self.period} cap{whose}, {self.used:,.0f} of {self.most:,.0f} tokens"


class StatusChanged(Event, frozen=True, tag="status_changed"):
    """An agent waits or resumes. With `waiting_rate`, `reason` is the failure after which it waits, `cache` for the reply of an
    agent whose request begins alike, `batch` for a batch of the service, or None for its turn; `wait_s` is seconds from this event. With `waiting_budget`,
    `reason` is the quantity that is short, and `cap` the cap over all sessions that it is short of (None: a limit of the session). With `waiting_child`, `agents` are the paths that it waits for. Older logs
    have one text for all of this, `detail`, which is read into the other fields."""

    status: Status
    reason: WaitReason | None = None
    wait_s: float | None = None
    agents: tuple[str, ...] = ()
    detail: str = ""
    cap: CapReached | None = None

    def __post_init__(self) -> None:
        if self.detail:
            for field, value in _read_detail(self.status, self.detail).items():
                msgspec.structs.force_setattr(self, field, value)


def _read_detail(status: Status, detail: str) -> dict[str, object]:
    """The fields of an event that has only a `detail`: `a.1 a.2`, `tokens`, `network: 3.0` or `2.5`, by its status."""
    found: dict[str, object] = {"detail": ""}
    if status == "waiting_child":
        found["agents"] = tuple(detail.split())
    elif status in ("waiting_rate", "waiting_budget"):
        reason, _, wait = detail.rpartition(": ") if status == "waiting_rate" else (detail, "", "")
        if reason in _REASONS:
            found["reason"] = reason
        try:
            found["wait_s"] = float(wait)
        except ValueError:
            pass
    return found


_REASONS: frozenset[str] = frozenset(get_args(WaitReason))
