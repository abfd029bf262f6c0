"""MCP servers: what configured servers cost a run that does not call them, and the first call of a server's tool."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Bench, Case, Line, cpu_ratio, middle
from tests.benchmarks.oneshot import MESSAGES, first, milliseconds, settings
from tests.servers import mcp_stdio

COUNT = 10
FIRST_MS, MEMORY_MB = 5.0, 1.0
CALL = 'agents: {a: [{calls: [{name: mcp__s0__echo, arguments: {text: hi}}]}, {text: "done"}]}'
LIBRARY = """
import asyncio, sys
from mcp import Client, StdioServerParameters
async def main():
    async with Client(StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])) as client:
        await client.call_tool("echo", {"text": "hi"})
asyncio.run(main())
"""


def servers(bench: Bench) -> Iterator[Line]:
    """`ask` with ten servers whose tools are known, then with a call, beside the bare library with the same server."""
    log, play = bench.folder / "mcp.log", bench.folder / "call.yaml"
    words = ["-S", "-E", str(Path(mcp_stdio.__file__)), "era=modern", f"log={log}"]
    entries = {f"s{i}": {"command": sys.executable, "args": [*words, f"n={i}"]} for i in range(COUNT)}
    settings(bench, "friday")
    settings(bench, "servers")
    (bench.folder / "servers" / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    play.write_text(CALL)
    without, with_servers = bench.environment(), bench.environment(home="servers")
    argv = bench.friday("ask", "-q", "-m", MESSAGES, "hi")
    bench.run(Case("seed", argv, with_servers))
    assert log.read_text().count("start") == COUNT
    log.write_text("")
    found = bench.compare(Case("none", argv, without), Case("ten", argv, with_servers))
    assert not log.read_text(), "a server was started"
    cpu = min(s.cpu_s for s in found["ten"]) - min(s.cpu_s for s in found["none"])
    rss = middle(found["ten"], lambda s: s.rss_mb) - middle(found["none"], lambda s: s.rss_mb)
    yield Line(
        f"{COUNT} known servers: to first request",
        first(found["ten"]),
        "ms",
        None,
        first(found["none"]),
        "no server",
        cpu=cpu_ratio(found["ten"], found["none"]),
    )
    yield Line(f"{COUNT} known servers: added processor time", 1000 * cpu, "ms", FIRST_MS, fixed=True)
    yield Line(f"{COUNT} known servers: added memory", rss, "MB", MEMORY_MB)
    called = bench.compare(
        Case("library", bench.script(LIBRARY, sys.executable, *words), without),
        Case("ask", bench.friday("ask", "-q", "-m", f"scripted:{play}", "--allow", "mcp__s0", "go"), with_servers),
    )
    floor = milliseconds(called["library"])
    yield Line(
        "a run with the first call of a server",
        milliseconds(called["ask"]),
        "ms",
        None,
        floor,
        "the library alone",
        cpu=cpu_ratio(called["ask"], called["library"]),
    )
