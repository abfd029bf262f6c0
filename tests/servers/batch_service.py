"""A loopback service with the batch interfaces of both vendors, which counts what it charges.

The answers have the fields of the vendors' SDKs; tests/llm/transport/test_batches.py reads them with these. What a request is answered with follows from its body,
so that a request that is sent twice is counted twice.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.parser import BytesParser
from typing import Any, Literal

from .loopback_server import Handler, serving

PRICE = (1.0, 5.0)
"""US dollars per million tokens of input and output, of which a batch takes half."""
ITEM = re.compile(r"<<(\w+)>>")
Fate = Literal["succeeded", "errored", "overloaded", "expired", "canceled"]
SETTINGS = """
model = "{vendor}/{model}"
[providers.{vendor}]
base_url = "{url}"
{more}prices = {{ input = 1.0, output = 5.0 }}
"""


class Batch:
    """A batch: its requests in order, and the fate of each once it has ended. `looks`: how often it is looked at before it ends."""

    def __init__(self, name: str, requests: dict[str, Any], looks: int, more: dict[str, Any]) -> None:
        self.id, self.requests, self.looks, self.more = name, requests, looks, more
        self.created = time.time()
        self.fates: dict[str, Fate] = {}
        self.cancelled = False
        self.reads = 0


class BatchService:
    """`asked` counts the requests of batches by item (`<<NAME>>`), `paid` is what they cost in US dollars; `live` counts requests that went to
    the usual interface, which are paid in full. `fate` decides what becomes of a request by its `custom_id` and body; `reply` is its text.
    `on_created` is called with each new batch before the service answers. The first `cut` results files are cut in the middle."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.live: Counter[str] = Counter()
        self.paid_micro = 0.0
        self.batches: dict[str, Batch] = {}
        self.files: dict[str, bytes] = {}
        self.deleted: list[str] = []
        self.looks = 2
        self.cut = 0
        self.fate: Callable[[str, Any], Fate] = lambda name, body: "succeeded"
        self.reply: Callable[[Any], str] = lambda body: f"found {item_of(body)}"
        self.blocks: Callable[[Any], list[Any] | None] = lambda body: None
        self.on_created: Callable[[Batch], None] = lambda batch: None
        self.refuse: tuple[int, str] | None = None
        self.url = ""
        self.lock = threading.RLock()

    @property
    def paid(self) -> float:
        """US dollars."""
        return self.paid_micro / 1e6

    def settings(self, vendor: str = "anthropic") -> str:
        """A settings file with this service."""
        if vendor == "anthropic":
            return SETTINGS.format(vendor=vendor, model="claude-test", url=self.url, more="")
        return SETTINGS.format(vendor=vendor, model="gpt-test", url=f"{self.url}/v1", more='api = "responses"\n')

    def usage(self, body: Any) -> tuple[int, int]:
        """Input and output tokens of a request, always the same for the same."""
        digest = hashlib.sha256(item_of(body).encode()).digest()
        most = int(body.get("max_tokens") or body.get("max_output_tokens") or 99)
        return 500 + digest[0], min(most, 50 + digest[1])

    def charge(self, body: Any, part: float) -> None:
        read, written = self.usage(body)
        self.paid_micro += (read * PRICE[0] + written * PRICE[1]) * part

    def document(self, body: Any) -> dict[str, Any]:
        """The whole reply to a request of either vendor."""
        read, written = self.usage(body)
        if "messages" in body:
            content = self.blocks(body) or [{"type": "text", "text": self.reply(body), "citations": None}]
            called = any(block["type"] == "tool_use" for block in content)
            return {
                "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": content,
                "container": None, "stop_reason": "tool_use" if called else "end_turn", "stop_sequence": None,
                "stop_details": None,
                "usage": {"input_tokens": read, "output_tokens": written, "cache_creation_input_tokens": 0,
                          "cache_read_input_tokens": 0, "service_tier": "batch"},
            }  # fmt: skip
        text = {"type": "output_text", "text": self.reply(body), "annotations": [], "logprobs": []}
        return {
            "id": "resp_1", "object": "response", "created_at": 1.0, "status": "completed", "model": body["model"], "error": None,
            "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True, "tools": [],
            "tool_choice": "auto", "temperature": 1.0, "top_p": 1.0,
            "output": [{"id": "m_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}],
            "usage": {"input_tokens": read, "output_tokens": written, "total_tokens": read + written,
                      "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                      "output_tokens_details": {"reasoning_tokens": 0}},
        }  # fmt: skip

    # ---- batches ----------------------------------------------------------------

    def create(self, requests: dict[str, Any], **more: Any) -> Batch:
        with self.lock:
            kind = "batch" if more else "msgbatch"
            batch = Batch(f"{kind}_{len(self.batches) + 1}", requests, self.looks, more)
            self.batches[batch.id] = batch
            for body in requests.values():
                self.asked[item_of(body)] += 1
        self.on_created(batch)
        return batch

    def look(self, batch: Batch) -> None:
        """Time passes for a batch."""
        with self.lock:
            batch.looks -= 1
            if batch.looks <= 0 and not batch.fates:
                self.end(batch)

    def end(self, batch: Batch, only: Fate | None = None) -> None:
        """End a batch: what succeeds is paid."""
        for name, body in batch.requests.items():
            fate = batch.fates[name] = only or self.fate(name, body)
            if fate == "succeeded":
                self.charge(body, 0.5)

    def results(self, batch: Batch, part: str = "all") -> bytes:
        """The lines of a results file, not in the order of the requests."""
        rows = []
        for name in sorted(batch.requests, key=lambda name: hashlib.md5(name.encode()).digest()):
            row = self._openai(batch, name) if batch.more else self._anthropic(batch, name)
            good = batch.fates[name] == "succeeded"
            rows += [json.dumps(row)] if part == "all" or good == (part == "output") else []
        data = ("\n".join(rows) + "\n").encode() if rows else b""
        batch.reads += 1
        if self.cut and len(data) > 200:
            self.cut -= 1
            return data[: len(data) // 2]
        return data

    def _anthropic(self, batch: Batch, name: str) -> dict[str, Any]:
        fate = batch.fates[name]
        result: dict[str, Any] = {"type": fate}
        if fate == "succeeded":
            result["message"] = self.document(batch.requests[name])
        elif fate in ("errored", "overloaded"):
            kind = "invalid_request_error" if fate == "errored" else "overloaded_error"
            error = {"type": kind, "message": "it was refused"}
            result = {"type": "errored", "error": {"type": "error", "error": error, "request_id": None}}
        return {"custom_id": name, "result": result}

    def _openai(self, batch: Batch, name: str) -> dict[str, Any]:
        fate, row = batch.fates[name], {"id": f"batch_req_{name}", "custom_id": name, "error": None}
        if fate == "succeeded":
            return {
                **row,
                "response": {"status_code": 200, "request_id": "r", "body": self.document(batch.requests[name])},
            }
        if fate in ("errored", "overloaded"):
            error = {
                "error": {"message": "it was refused", "type": "invalid_request_error", "code": None, "param": None}
            }
            status = 400 if fate == "errored" else 503
            return {**row, "response": {"status_code": status, "request_id": "r", "body": error}}
        code = "batch_expired" if fate == "expired" else "batch_cancelled"
        return {**row, "response": None, "error": {"code": code, "message": "This request could not be executed."}}

    def shown(self, batch: Batch) -> dict[str, Any]:
        """A batch as its vendor shows it."""
        counts = Counter(batch.fates.values())
        ended = bool(batch.fates)
        if not batch.more:
            times = [datetime.fromtimestamp(batch.created + s, UTC).isoformat() for s in (0, 86_400)]
            return {
                "id": batch.id, "type": "message_batch", "created_at": times[0], "expires_at": times[1], "archived_at": None,
                "cancel_initiated_at": None, "ended_at": times[0] if ended else None,
                "processing_status": "ended" if ended else "canceling" if batch.cancelled else "in_progress",
                "request_counts": {
                    "processing": 0 if ended else len(batch.requests), "succeeded": counts["succeeded"],
                    "errored": counts["errored"] + counts["overloaded"], "canceled": counts["canceled"],
                    "expired": counts["expired"],
                },
                "results_url": f"https://elsewhere.example/{batch.id}" if ended else None,
            }  # fmt: skip
        state = "cancelled" if batch.cancelled else "expired" if counts["expired"] else "completed"
        output = [f"file-{batch.id}-output"] if counts["succeeded"] else [None]
        failed = ended and len(batch.requests) > counts["succeeded"]
        return {
            "id": batch.id, "object": "batch", "endpoint": "/v1/responses", "completion_window": "24h",
            "created_at": int(batch.created), "expires_at": int(batch.created) + 86_400, "input_file_id": batch.more["file"],
            "status": state if ended else "in_progress", "metadata": batch.more["metadata"],
            "output_file_id": output[0] if ended else None, "error_file_id": f"file-{batch.id}-error" if failed else None,
            "request_counts": {"total": len(batch.requests), "completed": counts["succeeded"], "failed": 0},
        }  # fmt: skip

    # ---- HTTP -------------------------------------------------------------------

    def answer(self, method: str, path: str, headers: Any, content: bytes) -> tuple[int, bytes]:
        path = path.partition("?")[0].removeprefix("/v1")
        if self.refuse is not None and method == "POST":
            return self.refuse[0], json.dumps(
                {"type": "error", "error": {"type": "x", "message": self.refuse[1]}}
            ).encode()
        parts = path.strip("/").removeprefix("messages/").split("/")
        match [method, *parts]:
            case ["POST", "messages"] | ["POST", "responses"]:
                body = json.loads(content)
                self.live[item_of(body)] += 1
                self.charge(body, 1.0)
                return _json(self.document(body))
            case ["POST", "files"]:
                name = f"file-{len(self.files) + 1}"
                self.files[name] = _uploaded(headers, content)
                return _json({"id": name, "object": "file", "bytes": len(content), "created_at": 1, "filename": "x.jsonl",
                              "purpose": "batch", "status": "processed"})  # fmt: skip
            case ["POST", "batches"]:
                given = json.loads(content)
                if "requests" in given:
                    requests = {row["custom_id"]: row["params"] for row in given["requests"]}
                    return _json(self.shown(self.create(requests)))
                rows = [json.loads(line) for line in self.files[given["input_file_id"]].splitlines()]
                assert all(row["method"] == "POST" and row["url"] == given["endpoint"] for row in rows)
                made = {row["custom_id"]: row["body"] for row in rows}
                return _json(self.shown(self.create(made, file=given["input_file_id"], metadata=given["metadata"])))
            case ["GET", "batches"]:
                rows = [self.shown(batch) for batch in reversed(self.batches.values())]
                return _json({"object": "list", "data": rows, "has_more": False, "first_id": None, "last_id": None})
            case ["GET", "batches", name] if name in self.batches:
                self.look(self.batches[name])
                return _json(self.shown(self.batches[name]))
            case ["GET", "batches", name, "results"]:
                return 200, self.results(self.batches[name])
            case ["GET", "files", name, "content"]:
                _, batch, part = name.split("-")
                return 200, self.results(self.batches[batch], part)
            case ["DELETE", "files", name]:
                self.deleted.append(name)
                return _json({"id": name, "object": "file", "deleted": True})
            case ["POST", "batches", name, "cancel"]:
                batch = self.batches[name]
                with self.lock:
                    batch.cancelled = True
                    if not batch.fates:
                        self.end(batch, "canceled")
                return _json(self.shown(batch))
        return 404, json.dumps({"error": {"type": "not_found_error", "message": "no such thing"}}).encode()


def item_of(body: Any) -> str:
    """The item of a request."""
    found = ITEM.search(json.dumps(body.get("messages") or body.get("input")))
    return found[1] if found else "none"


def _json(value: object) -> tuple[int, bytes]:
    return 200, json.dumps(value).encode()


def _uploaded(headers: Any, content: bytes) -> bytes:
    """The file of a multipart upload."""
    head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
    form = BytesParser().parsebytes(head + content)
    parts = {part.get_param("name", header="content-disposition"): part for part in form.get_payload()}  # type: ignore[union-attr]
    assert parts["purpose"].get_payload() == "batch"  # type: ignore[union-attr]
    return parts["file"].get_payload(decode=True)  # type: ignore[union-attr, return-value]


@contextmanager
def batch_service() -> Iterator[BatchService]:
    """A service for the time of the block."""
    service = BatchService()

    class Requests(Handler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            status, data = service.answer(self.command, self.path, self.headers, self.body())
            try:
                self.answer(data, status)
            except OSError:  # the client was killed
                self.close_connection = True

        do_GET = do_POST = do_DELETE = _any

    with serving(Requests) as service.url:
        yield service
