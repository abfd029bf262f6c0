"""Spans and metrics with the OpenTelemetry SDK: sent over OTLP/HTTP, or as OTLP JSON. Imported only for that (0.1 s)."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext as SdkContext
from opentelemetry.trace import SpanKind, Status, StatusCode, TraceFlags
from requests import ConnectionError, PreparedRequest, RequestException, Response
from requests import Session as RequestsSession

from friday_cli import __version__

from . import attributes as names
from .settings import TelemetrySettings
from .span import Span, SpanContext

_SCOPE = InstrumentationScope("friday", __version__)
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_TOKENS = [4.0**power for power in range(14)]
_SECONDS = [0.01 * 2**power for power in range(14)]
"""Boundaries of the histograms, as the conventions advise."""

ANSWER_BYTES = 65_536
"""Bytes of a collector's answer that are read."""
LATER = (408, 429, 502, 503, 504)
"""Answers after which the same request may succeed later."""


class _NoRetries(RequestsSession):
    """Fails at once where nothing answers. The exporter would retry for seconds, also at the end of the process; the next
    interval is the retry. An answer is not needed, so of a long one only the beginning is read. `again`: the last request may
    succeed later."""

    again = False

    def send(self, request: PreparedRequest, **more: Any) -> Response:
        self.again = True
        try:
            response = super().send(request, **{**more, "stream": True})
            response.raw.read(ANSWER_BYTES)
            response.close()
            self.again = response.status_code in LATER
            return response
        except ConnectionError as error:
            raise RequestException(str(error)) from error


class Sender:
    """Sends spans and metrics of one session."""

    def __init__(self, settings: TelemetrySettings, session: str) -> None:
        self._resource = _resource(session)
        self._http = _NoRetries()
        self._spans = OTLPSpanExporter(endpoint=settings.traces, session=self._http) if settings.traces else None
        self._metrics = _Metrics(settings.metrics, self._resource) if settings.metrics else None

    def send(self, spans: Sequence[Span]) -> bool:
        """Send spans. False if they should be sent again later; what a collector refuses is dropped. Blocks."""
        arrived, self._http.again = True, False
        if self._spans is not None and (sampled := [span for span in spans if span.context.sampled]):
            arrived = self._spans.export([_sdk_span(s, self._resource) for s in sampled]) is SpanExportResult.SUCCESS
        if self._metrics is not None and arrived:
            self._metrics.send(spans)
        return arrived or not self._http.again

    def shutdown(self) -> None:
        """Interrupt a `send` that waits for a retry."""
        if self._spans is not None:
            self._spans.shutdown()  # type: ignore[no-untyped-call]
        if self._metrics is not None:
            self._metrics.exporter.shutdown()


class _Metrics:
    """The two histograms of the conventions for clients of models."""

    def __init__(self, endpoint: str, resource: Resource) -> None:
        self.exporter = OTLPMetricExporter(endpoint=endpoint, session=_NoRetries())
        reader = PeriodicExportingMetricReader(self.exporter, export_interval_millis=math.inf)
        self._provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("friday", __version__)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens of a request", explicit_bucket_boundaries_advisory=_TOKENS
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "Duration of an operation",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )

    def send(self, spans: Iterable[Span]) -> None:
        kept = (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.RESPONSE_MODEL, names.ERROR_TYPE)
        for span in spans:
            about = {name: span.attributes[name] for name in kept if name in span.attributes}
            if span.attributes[names.OPERATION] != "chat":
                continue
            self._seconds.record(span.end - span.start, about)
            for kind, name in (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS)):
                if name in span.attributes:
                    self._tokens.record(span.attributes[name], {**about, "gen_ai.token.type": kind})
        self._provider.force_flush()


def _resource(session: str) -> Resource:
    """The resource: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` come first."""
    own = {"service.name": "friday", "service.version": __version__, "service.instance.id": session}
    detected = OTELResourceDetector().detect()
    return Resource.create({**own, **detected.attributes})


def _sdk_context(context: SpanContext) -> SdkContext:
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SdkContext(context.trace, context.span, False, flags)


def _sdk_span(span: Span, resource: Resource) -> ReadableSpan:
    return ReadableSpan(
        span.name,
        _sdk_context(span.context),
        None if span.parent is None else _sdk_context(span.parent),
        resource,
        span.attributes,
        [Event(event.name, event.attributes, _nanoseconds(event.at)) for event in span.events],
        kind=_KINDS[span.kind],
        status=Status(StatusCode.ERROR) if span.error else Status(StatusCode.UNSET),
        start_time=_nanoseconds(span.start),
        end_time=_nanoseconds(span.end),
        instrumentation_scope=_SCOPE,
    )


def _nanoseconds(at: float) -> int:
    return int(at * 1_000_000) * 1000


def as_otlp_json(spans: Iterable[Span], session: str) -> str:
    """Spans as the JSON of an OTLP request, which a collector accepts at `/v1/traces`."""
    resource = _resource(session)
    document = MessageToDict(encode_spans([_sdk_span(span, resource) for span in spans]), use_integers_for_enums=True)
    for group in document.get("resourceSpans", ()):
        for scope in group["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:  # OTLP has them in base 16, unlike other bytes
                        span[name] = base64.b64decode(span[name]).hex()
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
