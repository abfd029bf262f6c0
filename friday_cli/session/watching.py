"""What sees every event of a session before it is written: taint tracking, and telemetry where the environment asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from friday_cli.core.permissions.taint import TaintTracker
from friday_cli.core.protocol.events import Envelope

from .resume import EventHistory

if TYPE_CHECKING:
    from friday_cli.telemetry.session import SessionTelemetry


def _network_targets(command: str) -> Sequence[tuple[str, str]]:
    from friday_cli.command_safety import network_targets  # loads its parser only after a command was run

    return network_targets(command)


def taint_of(history: EventHistory) -> TaintTracker:
    """What the agents have read so far."""
    taint = TaintTracker(_network_targets)
    for envelope in history.envelopes:
        taint.apply(envelope)
    return taint


def telemetry_of(
    env: Mapping[str, str], session: str, history: EventHistory
) -> tuple[SessionTelemetry | None, Sequence[str]]:
    """What sends the spans of the session, if the environment asks for it, and what is wrong there. Otherwise nothing is loaded."""
    if not any(name.startswith("OTEL_EXPORTER_OTLP_") for name in env):
        return None, ()
    from friday_cli.telemetry.settings import read_settings

    settings, problem = read_settings(env)
    problems = (problem,) if problem else ()
    if settings is None:
        return None, problems
    from friday_cli.telemetry.session import SessionTelemetry

    return SessionTelemetry(settings, session, history.envelopes), problems


def watcher(taint: TaintTracker, telemetry: SessionTelemetry | None) -> Callable[[Envelope], None]:
    """What sees every event before it is written."""
    if telemetry is None:
        return taint.apply

    def apply(envelope: Envelope) -> None:
        taint.apply(envelope)
        telemetry.apply(envelope)

    return apply
