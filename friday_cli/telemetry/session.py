"""The telemetry of a running session: its log is folded as it is written, and a thread sends what has ended."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from friday_cli.core.protocol.events import Envelope

from .fold import SpanFold
from .settings import TelemetrySettings
from .span import Span

if TYPE_CHECKING:
    from .sdk import Sender

log = logging.getLogger(__name__)

INTERVAL_S = 5.0
"""Seconds between two requests to the collector."""
CLOSE_S = 2.0
"""Seconds that the end of a session waits for the collector."""
BATCH = 512
"""Spans in one request: collectors limit its size."""
PENDING = 10_000
"""Spans that wait for a collector that does not answer; older ones are dropped. The log has them."""


def folded(envelopes: Iterable[Envelope], *, content: bool) -> list[Span]:
    """The spans of a log that have ended."""
    spans: list[Span] = []
    fold = SpanFold(spans.append, content=content)
    for envelope in envelopes:
        fold.apply(envelope)
    return spans


class SessionTelemetry:
    """Folds the events of `session` and sends its spans. `history` was sent by earlier processes."""

    def __init__(self, settings: TelemetrySettings, session: str, history: Sequence[Envelope]) -> None:
        self._settings, self._session = settings, session
        self._pending: deque[Span] = deque(maxlen=PENDING)
        self._fold = SpanFold(self._pending.append, session=session, content=settings.content)
        self.traceparent = self._fold.traceparent
        for envelope in history:
            self._fold.apply(envelope)
        self._pending.clear()
        self._wake, self._closing, self._lost = threading.Event(), False, False
        self._sender: Sender | None = None
        self._thread = threading.Thread(target=self._work, name="friday-telemetry", daemon=True)

    def apply(self, envelope: Envelope) -> None:
        """Take the next event. Never fails: telemetry must not end a session."""
        try:
            self._fold.apply(envelope)
        except Exception:
            log.exception("event %s could not be folded into spans", envelope.seq)
        if not self._thread.ident:
            self._thread.start()

    async def close(self) -> None:
        """Send what is left. A collector that did not answer before is not waited for."""
        if not self._thread.ident:
            return
        self._closing = True
        self._wake.set()
        if not self._lost:
            await asyncio.to_thread(self._thread.join, CLOSE_S)
        if self._thread.is_alive() and self._sender is not None:
            self._sender.shutdown()

    def _work(self) -> None:
        while True:
            self._wake.wait(INTERVAL_S)
            closing = self._closing
            try:
                self._send()
            except Exception:
                log.exception("telemetry could not be sent")
                return
            if closing:
                return

    def _send(self) -> None:
        while self._pending:
            spans = [self._pending.popleft() for _ in range(min(BATCH, len(self._pending)))]
            if self._sender is None:
                from .sdk import Sender

                logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # each failed request would be a line
                self._sender = Sender(self._settings, self._session)
            self._lost = not self._sender.send(spans)
            if self._lost:
                log.debug("%d spans were not accepted by the collector", len(spans))
                room = PENDING - len(self._pending)
                self._pending.extendleft(reversed(spans[max(0, len(spans) - room) :]))
                return
