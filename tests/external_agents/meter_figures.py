"""`python -m tests.external_agents.meter_figures`: what the meter costs, against the same service without it."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from functools import partial

from friday_cli.core.protocol.messages import Usage
from friday_cli.external_agents.meter import Meter
from friday_cli.external_agents.turns import Turns
from friday_cli.external_agents.upstream import Upstream
from friday_cli.llm.transport import http
from friday_cli.llm.transport.endpoint import Endpoint
from tests.engine_fixture import Bench, Model

REQUESTS, MEGABYTES = 200, 200
USAGE = json.dumps({"type": "message_delta", "usage": {"input_tokens": 10, "output_tokens": 1}}).encode()


async def _service(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, pieces: int) -> None:
    """Answers each request with so many events of 64 kB, and a usage."""
    event = b"data: " + b"x" * 65_530 + b"\n\n"
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except EOFError:
            return
        size = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line)
        await reader.readexactly(size)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for data in (*[event] * pieces, b"data: " + USAGE + b"\n\n"):
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await writer.drain()
        writer.write(b"0\r\n\r\n")


async def _ask(url: str, token: str, times: int) -> list[float]:
    """Seconds of each of so many requests on one connection; for one alone, its seconds of processor time follow."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
    body = json.dumps({"model": "m", "messages": [], "tools": []}).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ncontent-length: {len(body)}\r\n\r\n"
    took = []
    for _ in range(times):
        begun, busy = time.perf_counter(), time.process_time()
        writer.write(head.encode() + body)
        rest = b""
        while b"0\r\n\r\n" not in rest:
            rest = rest[-8:] + await reader.read(1 << 20)
        took.append(time.perf_counter() - begun)
    took += [time.process_time() - busy] if times == 1 else []
    writer.close()
    return took


async def main() -> None:
    """Print the figures."""
    for what, pieces, times in (("request", 0, REQUESTS), ("stream", MEGABYTES * 16, 1)):
        server = await asyncio.start_server(partial(_service, pieces=pieces), "127.0.0.1", 0, limit=1 << 20)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        bench = Bench(Model({}))
        endpoint = Endpoint(service="Test", base_url=url, headers={"x-api-key": "k"})
        upstream = Upstream("anthropic", "anthropic", endpoint, lambda model: lambda usage: usage.output * 1e-6)
        meter = Meter(bench.root, bench.services, Turns(bench.root, bench.services), upstream)
        await meter.open()
        plain, metered = await _ask(url, "", times), await _ask(meter.url, meter.token, times)
        assert bench.root.usage == Usage(input=10 * times, output=times, cost_usd=bench.root.usage.cost_usd)
        if what == "request":
            before, after = (statistics.median(found) * 1000 for found in (plain, metered))
            print(f"a request: {before:.2f} ms without, {after:.2f} ms with the meter: {after - before:.2f} ms more")
        else:
            print(
                f"a stream: {MEGABYTES / plain[0]:.0f} MB/s without, {MEGABYTES / metered[0]:.0f} MB/s with the meter"
            )
            print(
                f"by processor time: {MEGABYTES / plain[1]:.0f} MB/s without, {MEGABYTES / metered[1]:.0f} MB/s with the meter"
            )
        await meter.close()
        await http.aclose_all()
        server.close()


if __name__ == "__main__":
    asyncio.run(main())
