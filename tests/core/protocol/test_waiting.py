"""What an agent waits for is read from older logs too, which had one text for it."""

from __future__ import annotations

import msgspec
import pytest

from friday_cli.core.protocol.decode import decode_event
from friday_cli.core.protocol.events import AgentStarted, StatusChanged, encode


@pytest.mark.parametrize(("status", "detail", "event"), [
    ("waiting_child", "a.1 a.2", StatusChanged("waiting_child", agents=("a.1", "a.2"))),
    ("waiting_user", "call_7", StatusChanged("waiting_user")),
    ("waiting_budget", "tokens", StatusChanged("waiting_budget", "tokens")),
    ("waiting_budget", "cost", StatusChanged("waiting_budget", "cost")),
    ("waiting_rate", "12.0", StatusChanged("waiting_rate", wait_s=12.0)),
    ("waiting_rate", "network: 3.0", StatusChanged("waiting_rate", "network", 3.0)),
    ("waiting_rate", "cache: 0", StatusChanged("waiting_rate", "cache", 0.0)),
    ("waiting_rate", "garbled: 2.5", StatusChanged("waiting_rate", "garbled", 2.5)),
    ("waiting_rate", "\x1b[31m: odd", StatusChanged("waiting_rate")),
    ("running", "", StatusChanged("running")),
])  # fmt: skip
def test_the_detail_of_an_older_log_is_read_into_the_fields(status: str, detail: str, event: StatusChanged) -> None:
    old = msgspec.json.encode({"kind": "status_changed", "status": status, "detail": detail})
    assert decode_event(old) == event
    assert decode_event(encode(event)) == event
    assert b"detail" not in encode(event)


def test_the_batch_of_an_older_log_is_read_from_the_call() -> None:
    old = {"kind": "agent_started", "run": 1, "profile": "p", "task": "t", "model": "m", "call_id": "c/1/item/ab"}
    assert decode_event(msgspec.json.encode(old)) == AgentStarted(1, "p", "t", "m", call_id="c/1/item/ab", batch="c/1")
