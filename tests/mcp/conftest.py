from __future__ import annotations

import ssl

import pytest


@pytest.fixture(autouse=True)
def _no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of these tests have no TLS, and to read all CA certificates takes 30 ms for each client."""
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda self, *given, **named: None)
