"""A collector on 127.0.0.1 in a thread of its own: it takes OTLP over HTTP in protobuf, plain or compressed with gzip."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from .loopback_server import Handler, serving


class Receiver:
    """What arrived. `spans` are protobuf messages; `status` is answered to the requests, with `answer` bytes, of which `sent` were
    taken."""

    def __init__(self, status: int = 200, answer: int = 0) -> None:
        self.status, self.url = status, ""
        self.answer, self.sent = answer, 0
        self.spans: list[Any] = []
        self.metrics: set[str] = set()
        self.resource: dict[str, Any] = {}
        self.headers: list[dict[str, str]] = []

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.headers.append(headers)
        data = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        if path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(data).resource_spans:
                self.resource = attributes(group.resource)
                self.spans += [span for scope in group.scope_spans for span in scope.spans]
        else:
            for group in ExportMetricsServiceRequest.FromString(data).resource_metrics:
                self.metrics |= {metric.name for scope in group.scope_metrics for metric in scope.metrics}

    @property
    def ids(self) -> set[tuple[str, str, str]]:
        """Trace, span and parent of each span, in base 16."""
        return {(s.trace_id.hex(), s.span_id.hex(), s.parent_span_id.hex()) for s in self.spans}


def attributes(of: Any) -> dict[str, Any]:
    """The attributes of a span, an event or a resource."""
    found = {}
    for pair in MessageToDict(of).get("attributes", ()):
        ((kind, value),) = pair["value"].items()
        found[pair["key"]] = int(value) if kind == "intValue" else value
    return found


@contextmanager
def receiver(status: int = 200, answer: int = 0) -> Iterator[Receiver]:
    """A running collector."""
    here = Receiver(status, answer)

    class Collector(Handler):
        def do_POST(self) -> None:
            body = self.body()
            if here.status == 200:
                here.take(self.path, {n.lower(): v for n, v in self.headers.items()}, body)
            self.send_response(here.status)
            self.send_header("content-length", str(here.answer))
            self.end_headers()
            with suppress(OSError):
                while here.sent < here.answer:
                    here.sent += self.wfile.write(bytes(65_536))

    with serving(Collector) as here.url:
        yield here
