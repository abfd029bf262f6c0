"""The full-screen chat in a pseudo-terminal: start, idle, long answers, many children, a long session."""

from __future__ import annotations

import asyncio
import json
import random
import re
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.request import Request, urlopen

from friday_cli.core.protocol.events import SCHEMA, AgentFinished, AgentStarted, MessageAdded, SessionStarted
from friday_cli.core.protocol.messages import Message, Text, user
from friday_cli.store.store import Store
from tests.benchmarks.measure import Bench, Line
from tests.benchmarks.oneshot import MESSAGES
from tests.benchmarks.seed import Happening, keep
from tests.benchmarks.standin import prose
from tests.benchmarks.tui.terminal import Terminal, signs

BARE = """
from textual.app import App
from textual.widgets import Static, TextArea
class Bare(App):
    AUTO_FOCUS = "#prompt"
    CSS = "#body { height: 1fr } #prompt { height: 3 }"
    def compose(self):
        yield Static("hello", id="body")
        yield TextArea(id="prompt")
Bare().run()
"""
"""The smallest Textual program with a text field."""
TYPED = "zqx"
READY = "commands"
"""A word of the status line that comes when the session is open."""
CROWD, RATE, WATCHED_S = 20, 50, 8
LONG = (5_000, 10_000)
"""Messages of the long sessions."""
SHOWN = re.compile(rb"answer number (\d+)")


def screen(bench: Bench) -> Iterator[Line]:
    """Everything of the full-screen chat."""
    yield from start(bench)
    yield from rest(bench)
    yield from answer(bench)
    yield from crowd(bench)
    for count in LONG:
        yield from long(bench, count)
    for what, name in (("children", "50 children x 2,000 events"), ("hour", "an hour of 50 events/s")):
        found = bench.module("tui.steady", what, env=bench.environment(home=what))
        note = f"{found['first']:.1f} -> {found['last']:.1f} MB"
        yield Line(f"memory grows over {name}", 100 * (found["last"] / found["first"] - 1), "%", 10.0, note=note)


def start(bench: Bench) -> Iterator[Line]:
    """From the start of the process to what was typed meanwhile on the screen, in turns with a bare Textual app."""
    cases = {"bare": [sys.executable, "-c", BARE], "friday": bench.friday("-m", MESSAGES)}
    times: dict[str, list[float]] = {name: [] for name in cases}
    for round_ in range(1 + bench.repeat):
        for name, argv in cases.items():
            with Terminal(argv, bench.environment(), bench.work) as terminal:
                terminal.type(TYPED)
                terminal.shown()
                taken = terminal.until(TYPED, terminal.alternate) - terminal.begun
            if round_:
                times[name].append(1000 * taken)
    floor, value = (statistics.median(times[name]) for name in ("bare", "friday"))
    yield Line("typed text shown after the start", value, "ms", 1.3 * floor, floor, "bare Textual app")


@contextmanager
def open_chat(bench: Bench, style: str, *, home: str = "friday", rest_s: float = 0.0) -> Iterator[Terminal]:
    """The chat with an open session, after `rest_s` seconds without input."""
    with Terminal(bench.friday("-m", MESSAGES), bench.environment(style, home=home), bench.work) as terminal:
        terminal.shown()
        terminal.until(READY)
        terminal.rest(rest_s)
        yield terminal


def rest(bench: Bench) -> Iterator[Line]:
    """An open session in which nothing happens; then messages that are answered at once."""
    with open_chat(bench, "counted", rest_s=3.0) as terminal:
        yield Line("memory at rest", terminal.memory_mb(), "MB", 70.0)
        used = terminal.cpu_s()
        terminal.rest(6.0)
        yield Line("processor's share at rest", 100 * (terminal.cpu_s() - used) / 6.0, "%", 1.0)
        asked, _ = exchanges(bench, terminal, range(1, 2 * bench.repeat + 2, 2))
        yield Line("Enter to request", 1000 * asked, "ms", 20.0, fixed=True)


def exchanges(bench: Bench, terminal: Terminal, counts: Sequence[int]) -> tuple[float, float]:
    """Send messages, the first to warm up. Gives the medians of Enter to request and of request to answer shown."""
    asked, answered = [], []
    for count in counts:
        terminal.type("hi")
        terminal.rest(0.5)
        bench.seen()
        begun = time.monotonic()
        terminal.type("\r")
        shown = terminal.until(f"answer{count}")
        came = bench.seen()[0]
        asked.append(came - begun)
        answered.append(shown - came)
        terminal.rest(0.3)
    return statistics.median(asked[1:]), statistics.median(answered[1:])


def answer(bench: Bench) -> Iterator[Line]:
    """An answer of 5,000 tokens in Markdown, as fast as it can be read; from the request to its last word shown."""
    walls, cpus = [], []
    for _ in range(max(3, bench.repeat // 2)):
        with open_chat(bench, f"prose-{len(prose(5_000))}", rest_s=1.0) as terminal:
            bench.seen()
            used = terminal.cpu_s()
            terminal.type("go\r")
            shown = terminal.until("theend")
            walls.append(shown - bench.seen()[0])
            cpus.append(terminal.cpu_s() - used)
    yield Line("5,000 tokens shown", statistics.median(walls), "s", 0.4, fixed=True)
    yield Line("processor's time for them", statistics.median(cpus), "s", 0.6, fixed=True)


def crowd(bench: Bench) -> Iterator[Line]:
    """Keys typed while twenty children write."""
    bench.configure("crowd", "[agents.delegation]\nmax_concurrent = 50\nmax_batch = 60\nask_above = 1000\n")
    with open_chat(bench, f"drip-{CROWD}-{RATE}-{WATCHED_S + 6}", home="crowd") as terminal:
        terminal.type("delegate\r")
        terminal.until(f"{CROWD} agents")
        terminal.rest(1.5)
        chance, letters, delays = random.Random(4), signs(), []
        begun, used = time.monotonic(), terminal.cpu_s()
        while time.monotonic() - begun < WATCHED_S:
            delays.append(1000 * terminal.echo_of(next(letters)))
            terminal.rest(chance.uniform(0.03, 0.1))
        share = (terminal.cpu_s() - used) / (time.monotonic() - begun)
    delays.sort()
    name = f"{CROWD} children x {RATE}/s"
    yield Line(f"key to echo, median, {name}", delays[len(delays) // 2], "ms")
    yield Line(f"key to echo, 95 %, {name}", delays[int(len(delays) * 0.95)], "ms", 50.0, fixed=True)
    yield Line(f"key to echo, worst, {name}", delays[-1], "ms", 100.0, fixed=True)
    yield Line(f"processor's share, {name}", 100 * share, "%", 50.0, fixed=True)


def long(bench: Bench, count: int) -> Iterator[Line]:
    """A session of `count` messages: opening it, a page up, the next message, another size, and the focus gone and back."""
    home, name = f"talk-{count}", f"{count:,} messages"
    bench.configure(home, "")
    made = asyncio.run(_talk(bench, Store(bench.folder / home / "data" / "friday.db"), count))
    argv = bench.friday("-m", MESSAGES, "-r", made)
    with Terminal(argv, bench.environment("counted", home=home), bench.work) as terminal:
        terminal.shown()
        shown = terminal.until(f"answer number {count // 2 - 1}") - terminal.begun
        yield Line(f"opened, {name}", shown, "s", 1.0, fixed=True)
        terminal.rest(2.0)
        yield Line(f"memory, {name}", terminal.memory_mb(), "MB")
        _, answered = exchanges(bench, terminal, range(count + 1, count + 12, 2))
        alone = 1000 * _service_alone(bench, count)
        yield Line(
            f"request to answer shown, {name}",
            1000 * answered - alone,
            "ms",
            50.0,
            alone,
            "the service alone",
            fixed=True,
        )
        letters = signs()
        resized, focused = [], []
        for width in (100, 160, 90, 120):
            terminal.resize(width, 40)
            terminal.rest(0.02)  # a signal may come later than a key
            resized.append(1000 * terminal.echo_of(next(letters)))
            terminal.rest(1.0)
            terminal.type("\x1b[O\x1b[I")
            focused.append(1000 * terminal.echo_of(next(letters)))
            terminal.rest(0.5)
        yield Line(f"key to echo after another size, {name}", statistics.median(resized), "ms", 500.0, fixed=True)
        yield Line(f"key to echo after a focus change, {name}", statistics.median(focused), "ms", 100.0, fixed=True)
        yield Line(f"a page up, {name}", 1000 * _page_up(terminal, count // 2 - 1), "ms", 100.0, fixed=True)


def _page_up(terminal: Terminal, newest: int) -> float:
    """The median seconds from a key to an older answer on the screen; ten pages from the end on."""
    taken = []
    for _ in range(10):
        at, begun = len(terminal.out), time.monotonic()
        terminal.type("\x1b[5~")
        while not (numbers := [int(n) for n in SHOWN.findall(bytes(terminal.out[at:])) if int(n) < newest]):
            if time.monotonic() > begun + 10:
                raise RuntimeError(f"No answer before number {newest} was shown.")
            terminal.read(0.5)
        taken.append(time.monotonic() - begun)
        terminal.rest(0.5)
        newest = min(numbers)
    return statistics.median(taken)


def _service_alone(bench: Bench, count: int) -> float:
    """The median seconds of the request and its answer without Friday."""
    text = _answer_text()
    messages = [{"role": "user", "content": [{"type": "text", "text": text}]} for _ in range(count // 2)]
    body = json.dumps({"stream": True, "messages": messages + [{"role": "user", "content": []}] * (count // 2)})
    taken = []
    for _ in range(6):
        begun = time.monotonic()
        with urlopen(Request(bench.url("counted/v1/messages"), body.encode())) as answer:
            answer.read()
        taken.append(time.monotonic() - begun)
    return statistics.median(taken)


def _answer_text() -> str:
    return "".join(prose(120)).strip()


async def _talk(bench: Bench, store: Store, count: int) -> str:
    session = await store.create_session(bench.work)
    text = _answer_text()

    def happenings() -> Iterator[Happening]:
        yield "a", SessionStarted(SCHEMA, session, str(bench.work), "0")
        yield "a", AgentStarted(1, "friday", "a long talk", MESSAGES)
        for number in range(count // 2):
            yield "a", MessageAdded(user(f"question number {number}"))
            yield "a", MessageAdded(Message("assistant", (Text(f"{text}\n\nanswer number {number}"),)))
        yield "a", AgentFinished(1, "completed", "done", "All is said.")

    await keep(store, session, happenings())
    await store.close()
    return session
