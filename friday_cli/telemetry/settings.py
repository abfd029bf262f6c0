"""What the `OTEL_*` variables ask for. The SDK itself reads the rest of them: headers, time limits, certificates, resource."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

import msgspec

PREFIX = "OTEL_EXPORTER_OTLP_"
MISSING = "OpenTelemetry is not installed. Install it with: pip install 'friday-cli[otel]'"


class TelemetrySettings(msgspec.Struct, frozen=True):
    """URLs that traces and metrics are sent to, "" for none, and whether spans have content."""

    traces: str = ""
    metrics: str = ""
    content: bool = False


def installed() -> bool:
    """Whether the packages of the extra `otel` are there."""
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ImportError:
        return False


def wants_content(env: Mapping[str, str]) -> bool:
    """Whether spans may have prompts, arguments and results."""
    wanted = env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower()
    return wanted in ("true", "span_only", "span_and_event")


def read_settings(env: Mapping[str, str]) -> tuple[TelemetrySettings | None, str]:
    """The settings, None if nothing is to be sent, and why not if that is worth a notice."""

    def url(signal: str) -> str:
        if env.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() == "none":
            return ""
        base = env.get(f"{PREFIX}ENDPOINT", "").strip()
        given = env.get(f"{PREFIX}{signal}_ENDPOINT", "").strip()
        return given or (f"{base.rstrip('/')}/v1/{signal.lower()}" if base else "")

    found = TelemetrySettings(url("TRACES"), url("METRICS"), wants_content(env))
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or not (found.traces or found.metrics):
        return None, ""
    if not installed():
        return None, f"{PREFIX}ENDPOINT is set, but {MISSING}"
    protocol = env.get(f"{PREFIX}PROTOCOL", "http/protobuf").strip()
    if protocol != "http/protobuf":
        return None, f"{PREFIX}PROTOCOL is {protocol!r}, but Friday sends http/protobuf only. No telemetry is sent."
    return found, ""
