"""A loopback model that counts what it is asked and what it charges, for batches."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.servers.fake_model_server import FakeModelServer, Say, Turn, thinking
from tests.servers.script_player import Reply, document

PRICE = (1.0, 5.0)
"""US dollars per million tokens of input and output."""
SETTINGS = """
model = "anthropic/claude-test"
[providers.anthropic]
base_url = "{url}"
prices = {{ input = 1.0, output = 5.0 }}
"""
ITEM = re.compile(r"<<(\w+)>>")


class Service:
    """`asked` counts the requests by item (`<<NAME>>` in the task), `paid` is what they cost in US dollars. `say` makes a reply;
    From request `quota_at` on the credit is used up; request `refuse_at` is refused for `retry_after` seconds. `times`: when requests arrived."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.paid = 0.0
        self.model_server: FakeModelServer
        self.say: Callable[[Turn], Say | Reply] = lambda turn: Say(f"found {item_of(turn)}", usage=(100, 10, 0))
        self.quota_at = 0
        self.refuse_at, self.retry_after = 0, 0
        self.times: list[float] = []
        self._lock = threading.Lock()

    @property
    def requests(self) -> int:
        """All requests so far."""
        return self.asked.total()

    def settings(self) -> str:
        """A settings file with this service as the model."""
        return SETTINGS.format(url=self.model_server.base)

    def reply(self, turn: Turn) -> Say | Reply:
        """The reply to a request, which is counted when it arrives."""
        with self._lock:
            self.asked[item_of(turn)] += 1
            self.times.append(time.monotonic())
            if self.refuse_at and self.requests == self.refuse_at:
                busy = {"type": "error", "error": {"type": "rate_limit_error", "message": "Too many requests."}}
                return document(busy, 429, retry_after=str(self.retry_after))
            if self.quota_at and self.requests >= self.quota_at:
                error = {
                    "type": "error",
                    "error": {"type": "billing_error", "message": "Your credit balance is too low."},
                }
                return document(error, 402)
            said = self.say(turn)
            if isinstance(said, Reply):
                return said
            read, written, _ = said.usage or (0, 0, 0)
            self.paid += (read * PRICE[0] + written * PRICE[1]) / 1e6
            return said


def item_of(turn: Turn) -> str:
    """The item of a request."""
    found = ITEM.search(turn.asked_for)
    return found[1] if found else "none"


@contextmanager
def serving() -> Iterator[Service]:
    """A service for the time of the block."""
    service = Service()
    with thinking(service.reply, "messages") as server:
        service.model_server = server
        yield service


def lines(count: int) -> str:
    """So many different items as JSON lines."""
    return "".join(json.dumps({"id": f"i{number}"}) + "\n" for number in range(count))


TASK = "Look at <<{id}>>."
