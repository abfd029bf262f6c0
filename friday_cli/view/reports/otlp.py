"""A session as OpenTelemetry traces in OTLP JSON."""

from __future__ import annotations

import os

from friday_cli.core.protocol.errors import FridayError
from friday_cli.telemetry import settings
from friday_cli.telemetry.session import folded

from .recorded_session import RecordedSession


def as_otlp(session: RecordedSession) -> str:
    """The spans of a session. Raises FridayError without the extra `otel`."""
    if not settings.installed():
        raise FridayError(f"OTLP is not available: {settings.MISSING}")
    from friday_cli.telemetry.sdk import as_otlp_json

    return as_otlp_json(folded(session.envelopes, content=settings.wants_content(os.environ)), session.id)
