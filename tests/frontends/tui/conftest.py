"""Pilots that know when the app has come to rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

import pytest
import textual.app
import textual.pilot
from textual._compositor import Compositor
from textual._context import active_app, visible_screen_stack
from textual.cache import LRUCache
from textual.css.stylesheet import Stylesheet

from friday_cli.frontends.tui.keys import double_press

ROUNDS = 3
"""Rounds of the event loop without anything to do, after which the app rests."""
LONGEST_S = 5.0
"""How long threads and a layout are waited for: some threads work as long as the test does."""
_threads: WeakSet[asyncio.Future[Any]] = WeakSet()
"""The work that was given to threads."""
_parsed: dict[frozenset[tuple[str, str]], Any] = {}
"""The parsed stylesheets by their variables, for all apps of this process."""


@pytest.fixture(autouse=True)
def _at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual takes it for rest when the process takes little time of the processor, which it does not on a busy machine
    either, and waits up to a second where a thread works: here the event loop tells. A second press counts as one
    however late it comes."""
    for module in (textual.app, textual.pilot):
        monkeypatch.setattr(module, "wait_for_idle", rest)
    monkeypatch.setattr(double_press, "AGAIN_S", 600.0)


@pytest.fixture(scope="session", autouse=True)
def _threads_known() -> Iterator[None]:
    """Know the work in threads. A pool does not tell: from Python 3.12 on its count of idle threads can stay one too low."""
    run_in_executor = asyncio.BaseEventLoop.run_in_executor

    def run(loop: asyncio.BaseEventLoop, executor: Any, function: Any, *args: Any) -> asyncio.Future[Any]:
        work = run_in_executor(loop, executor, function, *args)
        if executor is None:
            _threads.add(work)
        return work

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.BaseEventLoop, "run_in_executor", run)
        yield


@pytest.fixture(scope="session", autouse=True)
def _parsed_once() -> Iterator[None]:
    """Parse each stylesheet once for all apps of this process, with each set of variables."""
    make, set_variables = Stylesheet.__init__, Stylesheet.set_variables

    def share(self: Stylesheet) -> None:
        self._parse_cache = _parsed.setdefault(frozenset(self._variables.items()), LRUCache(1_000))

    def make_and_share(self: Stylesheet, *, variables: dict[str, str] | None = None) -> None:
        make(self, variables=variables)
        share(self)

    def set_and_share(self: Stylesheet, variables: dict[str, str]) -> None:
        self._parse_cache = LRUCache(1)  # the old one may be shared, and is emptied next
        set_variables(self, variables)
        share(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "__init__", make_and_share)
        patch.setattr(Stylesheet, "set_variables", set_and_share)
        yield


@pytest.fixture(scope="session", autouse=True)
def _drawn_when_read() -> Iterator[None]:
    """Draw a frame when a test looks at the screen (`Chat.frame`). Without a terminal Textual draws every frame and drops it."""
    render_update = Compositor.render_update

    def render(
        self: Compositor, full: bool = False, screen_stack: list[Any] | None = None, simplify: bool = False
    ) -> Any:
        if full:  # a screenshot
            return render_update(self, full, screen_stack, simplify)
        visible_screen_stack.set(screen_stack or [])
        self._dirty_regions.clear()
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compositor, "render_update", render)
        yield


async def rest(min_sleep: float = 0.0, max_sleep: float = 0.0) -> None:
    """Returns when nothing is left to be done: no callback, no message, no layout and no work in a thread; and a moment has
    passed for what comes by timers."""
    await asyncio.sleep(0.01)
    loop, idle, end = asyncio.get_running_loop(), 0, time.monotonic() + LONGEST_S
    while idle < ROUNDS:
        await asyncio.sleep(0)
        idle = 0 if loop._ready else idle + 1  # type: ignore[attr-defined]
        if idle == ROUNDS and time.monotonic() < end and (_in_threads(loop) or _to_be_drawn()):
            await asyncio.sleep(0.002)
            idle = 0


def _in_threads(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a thread of `asyncio.to_thread` has work that the loop has not got back."""
    return any(not work.done() and work.get_loop() is loop for work in _threads)


def _to_be_drawn() -> bool:
    """Whether a widget has a message that it has not read, or the screen is to be laid out or drawn again."""
    app = active_app.get(None)
    if app is None or not app.is_running or not app.screen_stack:
        return False
    screen = app.screen
    if screen._layout_required or screen._scroll_required or screen._repaint_required or screen._dirty_widgets:
        return True
    return any(pump.message_queue_size for pump in (app, *screen.walk_children(with_self=True)))
