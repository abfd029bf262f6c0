"""The batch interfaces of the two vendors: requests that are answered within a day, for half the price.

Anthropic: `/v1/messages/batches`. OpenAI: `/files` and `/batches`. Their fields are those of the vendors' SDKs (anthropic 2.12: `MessageBatch`,
`MessageBatchIndividualResponse`; openai 3.54: `Batch`, `FileObject`), which the tests read the same answers with.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.text.known_keys import mask_keys_in

from . import error_mapping, http
from .endpoint import Endpoint
from .text import dict_in, dicts_in, one_line, replace_surrogates_in

if TYPE_CHECKING:
    import httpx2

LIST_MOST = 100
"""Batches that are looked through for one whose id was not stored."""
SECONDS = 120.0
"""Maximum seconds for a request that is not a download."""
VERSION = "2026-10-21"
"""The `anthropic-version` of requests, the same as the SDK's."""
TAG = "friday"
"""The key in the metadata of OpenAI's batches with the local id."""
_AGAIN = frozenset(
    ("overloaded_error", "api_error", "rate_limit_error", "timeout_error", "server_error", "batch_expired")
)

BatchRequest = tuple[str, dict[str, Any]]
"""The `custom_id` of a request and its body."""
Outcome = Literal["done", "again", "invalid"]


class RemoteBatch(msgspec.Struct, frozen=True):
    """A batch at a service. `total` is the number of its requests, `created` and `expires` Unix seconds (0: not told). `results` are the
    files with its results, `files` all that belong to it. `failure` says why it was not begun at all."""

    id: str
    ended: bool
    state: str
    total: int = 0
    created: float = 0.0
    expires: float = 0.0
    results: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    tag: str = ""
    failure: str = ""


class BatchResult(msgspec.Struct, frozen=True):
    """The result of one request: the `document` of a reply that is `done`, else why there is none; `again`: it may be sent again."""

    custom_id: str
    outcome: Outcome
    document: dict[str, Any] = {}
    error: str = ""


class Batches(Protocol):
    """The batch interface of a service. All methods raise ProviderError."""

    most_requests: int
    most_bytes: int

    async def create(
        self, tag: str, requests: Sequence[BatchRequest], uploaded: Callable[[str], Awaitable[None]]
    ) -> RemoteBatch:
        """Send requests. `tag` is the local id; `uploaded` is awaited with the id of a file that was made for them before they begin."""

    async def get(self, remote: str) -> RemoteBatch:
        """The state of a batch."""

    async def recent(self) -> list[RemoteBatch]:
        """The newest batches of this key."""

    def results(self, batch: RemoteBatch) -> AsyncIterator[BatchResult]:
        """The results of an ended batch, in any order. A result that is cut off ends them."""

    async def cancel(self, remote: str) -> None:
        """Cancel a batch. What was answered before is still there, and charged."""

    async def remove_files(self, files: Sequence[str]) -> None:
        """Delete files of a collected batch."""


class _Client:
    """Requests to one endpoint. Failures are ProviderError, as those of a stream."""

    def __init__(self, endpoint: Endpoint) -> None:
        http.check_headers(endpoint)
        self._endpoint = endpoint
        self._headers = {name.lower(): value for name, value in endpoint.headers.items()}
        if endpoint.sdk == "anthropic":
            self._headers.setdefault("anthropic-version", VERSION)

    async def json(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """The JSON object that a request returns."""
        try:
            response = await http.client(self._endpoint).request(
                method, self._endpoint.url(path), headers=self._headers, timeout=SECONDS, **more
            )
            if response.status_code >= 300:
                raise error_mapping.from_status(
                    self._endpoint, response.status_code, response.headers, response.content
                )
            return dict_in(response.json())
        except Exception as error:
            raise error_mapping.from_exception(self._endpoint, error) from error

    async def lines(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """The objects of a file of JSON lines, up to its end or to a line that is cut off."""
        try:
            async with self._stream(path) as response:
                async for line in response.aiter_lines():
                    if line.strip():
                        try:
                            yield dict_in(json.loads(line))
                        except ValueError:
                            return
        except Exception as error:
            raise error_mapping.from_exception(self._endpoint, error) from error

    @asynccontextmanager
    async def _stream(self, path: str) -> AsyncIterator[httpx2.Response]:
        connection, url = http.client(self._endpoint), self._endpoint.url(path)
        async with connection.stream("GET", url, headers=self._headers, timeout=SECONDS) as response:
            if response.status_code >= 300:
                raise error_mapping.from_status(
                    self._endpoint, response.status_code, response.headers, await http.read_error_body(response)
                )
            yield response


class AnthropicBatches:
    """Implements `Batches` for Messages. Results are read by the id of the batch, not at the URL that an answer names."""

    most_requests, most_bytes = 100_000, 200_000_000  # the service takes 256 MB

    def __init__(self, endpoint: Endpoint) -> None:
        self._client = _Client(endpoint)

    async def create(
        self, tag: str, requests: Sequence[BatchRequest], uploaded: Callable[[str], Awaitable[None]]
    ) -> RemoteBatch:
        body = {"requests": [{"custom_id": name, "params": _clean(params)} for name, params in requests]}
        return self._batch(await self._client.json("POST", "/v1/messages/batches", json=body))

    async def get(self, remote: str) -> RemoteBatch:
        return self._batch(await self._client.json("GET", f"/v1/messages/batches/{remote}"))

    async def recent(self) -> list[RemoteBatch]:
        found = await self._client.json("GET", "/v1/messages/batches", params={"limit": LIST_MOST})
        return [self._batch(row) for row in dicts_in(found.get("data"))]

    async def results(self, batch: RemoteBatch) -> AsyncIterator[BatchResult]:
        async for line in self._client.lines(f"/v1/messages/batches/{batch.id}/results"):
            result, name = dict_in(line.get("result")), str(line.get("custom_id"))
            match result.get("type"):
                case "succeeded":
                    yield BatchResult(name, "done", dict_in(result.get("message")))
                case "errored":
                    error = dict_in(dict_in(result.get("error")).get("error"))
                    kind = str(error.get("type"))
                    outcome: Outcome = "again" if kind in _AGAIN else "invalid"
                    yield BatchResult(name, outcome, error=one_line(f"{kind}: {error.get('message')}", 300))
                case kind:
                    yield BatchResult(name, "again", error=one_line(str(kind), 60))

    async def cancel(self, remote: str) -> None:
        await self._client.json("POST", f"/v1/messages/batches/{remote}/cancel")

    async def remove_files(self, files: Sequence[str]) -> None:
        """Nothing: the service keeps results for 29 days, and no file was made."""

    @staticmethod
    def _batch(row: dict[str, Any]) -> RemoteBatch:
        counts, state = dict_in(row.get("request_counts")), str(row.get("processing_status"))
        total = sum(n for n in counts.values() if isinstance(n, int))
        times = _seconds(row.get("created_at")), _seconds(row.get("expires_at"))
        return RemoteBatch(_id(row), state == "ended", state, total, *times)


class OpenAIBatches:
    """Implements `Batches` for Responses."""

    most_requests, most_bytes = 50_000, 150_000_000  # the service takes 200 MB

    def __init__(self, endpoint: Endpoint) -> None:
        self._client = _Client(endpoint)

    async def create(
        self, tag: str, requests: Sequence[BatchRequest], uploaded: Callable[[str], Awaitable[None]]
    ) -> RemoteBatch:
        lines = (
            json.dumps({"custom_id": name, "method": "POST", "url": "/v1/responses", "body": _clean(body)})
            for name, body in requests
        )
        content = "\n".join(lines).encode()
        file = await self._client.json(
            "POST", "/files", data={"purpose": "batch"}, files={"file": (f"{tag}.jsonl", content, "application/jsonl")}
        )
        await uploaded(_id(file))
        wanted = {"input_file_id": _id(file), "endpoint": "/v1/responses", "completion_window": "24h"}
        return self._batch(await self._client.json("POST", "/batches", json={**wanted, "metadata": {TAG: tag}}))

    async def get(self, remote: str) -> RemoteBatch:
        return self._batch(await self._client.json("GET", f"/batches/{remote}"))

    async def recent(self) -> list[RemoteBatch]:
        found = await self._client.json("GET", "/batches", params={"limit": LIST_MOST})
        return [self._batch(row) for row in dicts_in(found.get("data"))]

    async def results(self, batch: RemoteBatch) -> AsyncIterator[BatchResult]:
        for file in batch.results:
            async for line in self._client.lines(f"/files/{file}/content"):
                yield self._result(line)

    @staticmethod
    def _result(line: dict[str, Any]) -> BatchResult:
        name, response = str(line.get("custom_id")), dict_in(line.get("response"))
        status, body = response.get("status_code"), dict_in(response.get("body"))
        if status == 200:
            return BatchResult(name, "done", body)
        error = dict_in(line.get("error")) or dict_in(body.get("error"))
        kind = str(error.get("code") or error.get("type"))
        again = (
            kind in _AGAIN
            or kind == "batch_cancelled"
            or (isinstance(status, int) and (status == 429 or status >= 500))
        )
        return BatchResult(
            name, "again" if again else "invalid", error=one_line(f"{kind}: {error.get('message')}", 300)
        )

    async def cancel(self, remote: str) -> None:
        await self._client.json("POST", f"/batches/{remote}/cancel")

    async def remove_files(self, files: Sequence[str]) -> None:
        for file in files:
            with suppress(ProviderError):  # they end by themselves
                await self._client.json("DELETE", f"/files/{file}")

    @staticmethod
    def _batch(row: dict[str, Any]) -> RemoteBatch:
        state = str(row.get("status"))
        results = tuple(str(row[key]) for key in ("output_file_id", "error_file_id") if row.get(key))
        problems = [str(error.get("message")) for error in dicts_in(dict_in(row.get("errors")).get("data"))]
        return RemoteBatch(
            _id(row),
            state in ("failed", "completed", "expired", "cancelled"),
            state,
            total=int(dict_in(row.get("request_counts")).get("total") or 0),
            created=_seconds(row.get("created_at")),
            expires=_seconds(row.get("expires_at")),
            results=results,
            files=(*results, *([str(row["input_file_id"])] if row.get("input_file_id") else [])),
            tag=str(dict_in(row.get("metadata")).get(TAG) or ""),
            failure=one_line("; ".join(problems), 300) if state == "failed" else "",
        )


def batches_of(endpoint: Endpoint) -> Batches:
    """The batch interface of an endpoint."""
    return AnthropicBatches(endpoint) if endpoint.sdk == "anthropic" else OpenAIBatches(endpoint)


def _clean(body: dict[str, Any]) -> Any:
    return mask_keys_in(replace_surrogates_in(body))


def _id(row: dict[str, Any]) -> str:
    """The id of a batch or a file, which goes into URLs. Raises ProviderError if it is none."""
    found = row.get("id")
    if isinstance(found, str) and 0 < len(found) < 200 and found.replace("_", "").replace("-", "").isalnum():
        return found
    raise ProviderError("garbled", "The service's answer does not contain the id of a batch.")


def _seconds(value: object) -> float:
    if isinstance(value, str):
        with suppress(ValueError):
            return datetime.fromisoformat(value).timestamp()
    return float(value) if isinstance(value, int | float) else 0.0
