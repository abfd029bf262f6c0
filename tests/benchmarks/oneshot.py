"""One-shots: what a short run costs, a tool round, a long answer, and children."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tests.benchmarks import floors
from tests.benchmarks.measure import Bench, Case, Line, Sample, cpu_ratio, middle

MESSAGES = "anthropic/claude-sonnet-5-5"
WIRES = {"messages": MESSAGES, "responses": "resp/m", "chat": "openai/m"}
CODEX_WALL, CODEX_FIRST = 229 / 136, 176 / 132
"""What the fastest peer took in the measurement of the goals, as parts of the HTTP client's floor beside it."""
FLOOR_MS = 136.0
"""The wall time of that floor in the measurement of the goals: goals in milliseconds move with the machine by it."""


def milliseconds(samples: list[Sample]) -> float:
    return 1000 * middle(samples, lambda s: s.wall_s)


def first(samples: list[Sample]) -> float:
    return 1000 * middle(samples, lambda s: s.first_s)


def settings(bench: Bench, home: str, more: str = "", *, style: str = "instant") -> None:
    """A home whose provider `resp` is the stand-in over the Responses API."""
    bench.configure(home, f'{more}\n[providers.resp]\nbase_url = "{bench.url(style)}/v1"\napi = "responses"\n')


def speed(bench: Bench) -> float:
    """How much slower than the machine of the goals this one is just now."""
    case = Case("floor", bench.script(floors.HTTPX2, bench.url("instant")), bench.environment())
    return milliseconds(bench.compare(case)["floor"]) / FLOOR_MS


def instant(bench: Bench) -> Iterator[Line]:
    """The whole of a run whose model answers at once, over each wire and through each SDK."""
    settings(bench, "friday")
    settings(bench, "sdk", '[providers.anthropic]\ntransport = "sdk"\n[providers.openai]\ntransport = "sdk"\n')
    env, sdk, url = bench.environment(), bench.environment(home="sdk"), bench.url("instant")
    cases = [
        Case("python", bench.script(floors.NOTHING), env),
        Case("socket", bench.script(floors.RAW_SOCKET, url), env),
        Case("httpx2", bench.script(floors.HTTPX2, url), env),
        *(Case(wire, bench.friday("ask", "-q", "-m", model, "hi"), env) for wire, model in WIRES.items()),
        Case("https", bench.friday("ask", "-q", "-m", MESSAGES, "hi"), bench.secure_environment()),
    ]
    found = bench.compare(*cases)
    wall, begun = milliseconds(found["httpx2"]), first(found["httpx2"])
    for wire in WIRES:
        yield Line(
            f"ask, {wire}: wall",
            milliseconds(found[wire]),
            "ms",
            wall * CODEX_WALL,
            wall,
            "httpx2 script",
            cpu=cpu_ratio(found[wire], found["httpx2"]),
        )
        yield Line(
            f"ask, {wire}: to first request", first(found[wire]), "ms", begun * CODEX_FIRST, begun, "httpx2 script"
        )
        rss, floor = (middle(found[name], lambda s: s.rss_mb) for name in (wire, "httpx2"))
        yield Line(f"ask, {wire}: memory", rss, "MB", 60.0, floor, "httpx2 script")
    plain = [1000 * s.cpu_s for s in found["messages"]]
    more = statistics.median(1000 * s.cpu_s - http for s, http in zip(found["https"], plain, strict=True))
    floor_ms = statistics.median(plain)
    yield Line("ask, over https: processor", floor_ms + more, "ms", floor_ms + 8, floor_ms, "over http")
    yield Line("floor: python -c pass", milliseconds(found["python"]), "ms")
    yield Line("floor: a raw socket", milliseconds(found["socket"]), "ms")
    for name, floor_script, model in (("anthropic", floors.ANTHROPIC, MESSAGES), ("openai", floors.OPENAI, "openai/m")):
        pair = bench.compare(
            Case("floor", bench.script(floor_script, url), sdk),
            Case("ask", bench.friday("ask", "-q", "-m", model, "hi"), sdk),
            repeat=max(2, bench.repeat // 2),
        )
        floor = milliseconds(pair["floor"])
        yield Line(
            f"ask through the {name} SDK",
            milliseconds(pair["ask"]),
            "ms",
            1.15 * floor,
            floor,
            "SDK script",
            cpu=cpu_ratio(pair["ask"], pair["floor"]),
        )


def commands(bench: Bench) -> Iterator[Line]:
    """Commands that should be instant."""
    env = bench.environment()
    session = bench.run(Case("seed", bench.friday("ask", "-q", "-m", MESSAGES, "hi"), env))
    assert session.requests
    cases = {
        "--version": (bench.friday("--version"), 40.0),
        "--help": (bench.friday("--help"), 200.0),
        "profiles list": (bench.friday("profiles", "list"), 200.0),
        "sessions list": (bench.friday("sessions", "list"), 200.0),
        "sessions show": (bench.friday("sessions", "show", newest(bench, env)), 200.0),
    }
    found = bench.compare(
        Case("python", bench.script(floors.NOTHING), env),
        Case("typer", bench.script(floors.TYPER), env),
        *(Case(name, argv, env) for name, (argv, _) in cases.items()),
    )
    for name, (_, goal) in cases.items():
        floor = "python" if name == "--version" else "typer"
        yield Line(
            f"friday {name}",
            milliseconds(found[name]),
            "ms",
            goal,
            milliseconds(found[floor]),
            "python -c pass" if floor == "python" else "Typer script",
            fixed=True,
            cpu=cpu_ratio(found[name], found[floor]),
        )


def newest(bench: Bench, env: dict[str, str]) -> str:
    """The id of the session that was used last."""
    listed = bench.run(Case("list", bench.friday("sessions", "list"), env)).output.decode().splitlines()
    return listed[1].split()[0]


def rounds(bench: Bench) -> Iterator[Line]:
    """What one round of a tool costs: the request, reading a small file, and every event on disk."""
    for count in (20, 200):
        env = bench.environment(f"rounds-{count}")
        cases = [
            Case(wire, bench.friday("ask", "-q", "--max-turns", "1000", "-m", WIRES[wire], "read"), env)
            for wire in ("messages", "chat")
        ]
        floor = Case("floor", bench.script(floors.ROUNDS, bench.url("instant"), str(count)), env)
        found = bench.compare(*cases, floor, repeat=bench.repeat if count == 20 else 2)
        for case in (*cases, floor):
            assert all(len(s.requests) == count + 1 for s in found[case.name]), found[case.name][0].requests
        least = 1000 * middle(found["floor"], per_round)
        for case in cases:
            value = 1000 * middle(found[case.name], per_round)
            yield Line(f"a round of {count}, {case.name}", value, "ms", 8.0, least, "request alone", fixed=True)
            yield Line(
                f"memory after {count} rounds, {case.name}", middle(found[case.name], lambda s: s.rss_mb), "MB", 60.0
            )


def long(bench: Bench) -> Iterator[Line]:
    """Processor time of a round at the start and at the end of a run of 2,000 rounds."""
    count = 2_000
    env = bench.environment(f"rounds-{count}")
    settings(bench, "friday", style=f"rounds-{count}")
    cases = [
        Case(wire, bench.friday("ask", "-q", "--max-turns", "3000", "-m", model, "read"), env, watched=True)
        for wire, model in WIRES.items()
    ]
    found = bench.compare(*cases, repeat=2)
    for case in cases:
        samples = found[case.name]
        early, late = (1000 * min(per_round_cpu(s, at) for s in samples) for at in (20, count - 100))
        yield Line(f"a round at {count:,}, processor, {case.name}", late, "ms", 2 * early, early, "a round at 20")
        memory = middle(samples, lambda s: s.rss_mb)
        yield Line(f"memory after {count:,} rounds, {case.name}", memory, "MB", 47.0)


def per_round_cpu(sample: Sample, at: int) -> float:
    """The processor time of a round in seconds, as the mean of the hundred rounds from number `at` on."""
    begin, end = sample.requests[at], sample.requests[at + 100]
    most = max(cpu for _, cpu in sample.processor)  # the process may end before it is read again
    used = [next((cpu for seen, cpu in sample.processor if seen >= moment), most) for moment in (begin, end)]
    return (used[1] - used[0]) / 100


def per_round(sample: Sample) -> float:
    """The median time from one request to the next."""
    gaps = sorted(b - a for a, b in zip(sample.requests, sample.requests[1:], strict=False))
    return gaps[len(gaps) // 2]


def answers(bench: Bench) -> Iterator[Line]:
    """Long answers, from the first request to the exit."""
    for tokens in (5_000, 50_000, 100_000):
        env = bench.environment(f"tokens-{tokens}")
        settings(bench, "friday", "[providers.openai]\nwindow = 1_000_000\nmax_output = 32_000")
        cases = [
            Case(wire, bench.friday("ask", "-q", "-m", WIRES[wire], "write"), env) for wire in ("messages", "chat")
        ]
        cases.append(
            Case("stream-json", bench.friday("ask", "-q", "--output-format", "stream-json", "-m", MESSAGES, "w"), env)
        )
        cases.append(Case("floor", bench.script(floors.HTTPX2, bench.url(f"tokens-{tokens}")), env))
        if tokens <= 50_000:
            cases.append(Case("rendered", bench.friday("ask", "-m", MESSAGES, "write"), env, terminal=True))
        found = bench.compare(*cases, repeat=bench.repeat if tokens == 5_000 else 2)
        floor = 1000 * middle(found["floor"], lambda s: s.last_s)
        for case in cases[:-1] if tokens > 50_000 else [c for c in cases if c.name != "floor"]:
            goal = {"messages": 130.0, "chat": 130.0, "stream-json": None, "rendered": 500.0}[case.name]
            value = 1000 * middle(found[case.name], lambda s: s.last_s)
            scaled = goal and goal * tokens / 5_000
            yield Line(f"{tokens:,} tokens, {case.name}", value, "ms", scaled, floor, "httpx2 script", fixed=True)


def children(bench: Bench) -> Iterator[Line]:
    """Children whose model takes a second each. The run slots are as installed: waiting for a model needs none."""
    bench.configure("many", "[agents.delegation]\nmax_batch = 64\nask_above = 1000\n")
    memory = {}
    for count, goal in ((1, None), (10, 1.5), (50, 2.0)):
        env = bench.environment(f"children-{count}-1", home="many")
        case = Case("ask", bench.friday("ask", "-q", "-m", MESSAGES, "delegate"), env)
        samples = bench.compare(case, repeat=min(bench.repeat, 3) if count < 50 else 1)["ask"]
        assert all(len(s.requests) == count + 2 for s in samples), [len(s.requests) for s in samples]
        memory[count] = middle(samples, lambda s: s.rss_mb)
        yield Line(f"{count} children of 1 s", middle(samples, lambda s: s.wall_s), "s", goal, 1.0, "their sleep")
        yield Line(f"processor, {count} children", 1000 * middle(samples, lambda s: s.cpu_s), "ms")
        yield Line(f"memory, {count} children", memory[count], "MB")
    yield Line("memory per child at ten", (memory[10] - memory[1]) / 9, "MB", 1.0)
    yield Line("memory per child at fifty", (memory[50] - memory[1]) / 49, "MB", 1.0)
