"""The event loop under load: how long its callbacks are while 20 children write 50 pieces a second each."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Iterator

from tests.benchmarks.measure import Bench, Line
from tests.benchmarks.oneshot import MESSAGES

SECONDS = 4


def pulse(bench: Bench) -> Iterator[Line]:
    """The longest callback and the processor's share, at 20 children and at ten times the pieces."""
    bench.configure("pulse", "[agents.delegation]\nmax_concurrent = 50\nmax_batch = 60\nask_above = 1000\n")
    for rate in (50, 500):
        env = bench.environment(f"drip-20-{rate}-{SECONDS}", home="pulse")
        found = bench.module("pulse", env=env)
        name = f"20 children x {rate}/s"
        yield Line(f"longest callback, {name}", 1000 * found["longest"], "ms", 20.0, note=found["where"])
        yield Line(f"99.9 % of callbacks, {name}", 1000 * found["p999"], "ms", 20.0)
        yield Line(f"processor's share, {name}", 100 * found["share"], "%")


def main() -> None:
    """Run `friday ask` in this process with a clock around every callback once the agents are at work."""
    from friday_cli.frontends.oneshot.options import parse
    from friday_cli.frontends.oneshot.run import ask

    gc.disable()
    spans: list[tuple[float, str]] = []
    begun = time.monotonic()
    plain = asyncio.Handle._run

    def timed(self: asyncio.Handle) -> None:
        start = time.thread_time()
        plain(self)
        took = time.thread_time() - start
        if time.monotonic() - begun > 1.0:  # what is imported on first use belongs to the start
            spans.append((took, repr(self)[:300] if took > 0.01 else ""))

    asyncio.Handle._run = timed  # type: ignore[method-assign]
    values = parse(["-q", "--output-format", "stream-json", "-m", MESSAGES, "delegate"])
    assert values is not None
    used = time.process_time()
    code = ask(values)
    wall, used = time.monotonic() - begun, time.process_time() - used
    spans.sort()
    sys.stdout.flush()
    longest, where = spans[-1]
    about = {"longest": longest, "where": where, "p999": spans[int(len(spans) * 0.999)][0], "share": used / wall}
    print(json.dumps(about), flush=True)
    os._exit(code)


if __name__ == "__main__":
    main()
