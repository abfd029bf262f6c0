"""Loopback HTTP servers for tests: a handler that answers whole documents, and a server for the time of a block."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Writes nothing to standard error."""

    def body(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def answer(self, document: Any, status: int = 200, *, kind: str = "application/json", **headers: str) -> None:
        """Send bytes, text, or a document as JSON. `headers`: more of them, with `_` in place of `-`."""
        text = document if isinstance(document, str | bytes) else json.dumps(document)
        data = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        named = {"content-type": kind, "content-length": str(len(data))}
        named |= {name.replace("_", "-").lower(): value for name, value in headers.items()}
        for name, value in named.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(server: ThreadingHTTPServer | type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server, or of one on a free port of 127.0.0.1 with this handler, without `/` at its end."""
    if isinstance(server, type):
        server = ThreadingHTTPServer(("127.0.0.1", 0), server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
