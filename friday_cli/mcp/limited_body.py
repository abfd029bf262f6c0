"""The body of an answer of a server, up to a size."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from friday_cli.jsonrpc.framing import MOST_PARTS, parts

from .stdio import LONGEST, TOO_LONG


class LimitedBody(httpx2.AsyncByteStream):
    """The body of an answer, up to `most` bytes and MOST_PARTS; `problem` says what is wrong with one that has more."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int = LONGEST, problem: str = TOO_LONG) -> None:
        self._stream, self._most, self._problem = stream, most, problem

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = found = 0
        async for data in self._stream:
            size, found = size + len(data), found + parts(data)
            if size > self._most or found > MOST_PARTS:
                raise httpx2.StreamError(self._problem)
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()
