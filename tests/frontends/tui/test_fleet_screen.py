"""The screen of all sessions: find, peek, reply, answer, start and stop, with sessions that are only rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from friday_cli.core.protocol.errors import UsageError
from friday_cli.frontends.tui import fleet_screen
from friday_cli.frontends.tui.fleet_screen import FleetApp
from friday_cli.session.fleet import FleetRow, OpenQuestion

ASKS = OpenQuestion("p3", "a", "bash", "rm -r build", "mode ask")
CHOOSES = OpenQuestion("q1", "a", "", "Which one?", choices=("red", "blue"))
ROW = FleetRow(
    "1" * 36, "needs you", "clean up", "/p/one", "own/m-1", "ask", "waiting_user", 1, 9, 0.1, 0.0, 0.0, 77, True, (ASKS,)
)  # fmt: skip
QUESTION = msgspec.structs.replace(ROW, id="2" * 36, title="paint", questions=(CHOOSES,))
WORKS = msgspec.structs.replace(ROW, id="3" * 36, state="working", title="build it", cwd="/p/two", questions=())
ENDED = msgspec.structs.replace(WORKS, id="4" * 36, state="ended", title="old thing", pid=None)


class Actions:
    """Records what the screen does."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []

    async def stop(self, session: str) -> None:
        self.done.append(("stop", session[0]))

    async def answer(self, session: str, question: OpenQuestion, words: str) -> bool:
        self.done.append(("answer", session[0], question.id, words))
        return True

    async def say(self, row: FleetRow, text: str) -> None:
        if text == "fail":
            raise UsageError("It is not running.")
        self.done.append(("say", row.id[0], text))

    async def newest(self, session: str, rows: int) -> list[str]:
        return [f"line {n}\x1b[31m of {session[0]}" for n in range(rows)]

    async def start(self, folder: str, text: str) -> str:
        self.done.append(("start", folder, text))
        return ENDED.id


async def until(ready: Callable[[], bool]) -> None:
    for _ in range(500):
        if ready():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not reached")


def frame(app: FleetApp) -> str:
    """What is on the screen."""
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


def said(app: FleetApp) -> str:
    """The notes to the person."""
    return " ".join(note.message for note in app._notifications)


CASES = [
    (["y"], [("answer", "1", "p3", "yes")]),
    (["n"], [("answer", "1", "p3", "no")]),
    (["down", "2"], [("answer", "2", "q1", "2")]),
    (["down", "3"], []),
    (["down", "r", *"green", "enter"], [("answer", "2", "q1", "green")]),
    (["down", "down", "r", *"hello", "enter"], [("say", "3", "hello")]),
    (["down", "down", "r", *"hello", "escape"], []),
    (["down", "down", "n", *"go", "enter"], [("start", "/p/two", "go")]),
    (["N", *"go", "enter"], [("start", "/p/one", "go")]),
    (["slash", *"two", "enter", "x", "x"], [("stop", "3")]),
    (["x"], []),
    (["x", "down", "up", "x"], []),
]


@pytest.mark.parametrize(("keys", "done"), CASES)
@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_keys_do_what_they_say(
    keys: list[str], done: list[object], size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_screen, "GRACE_S", 0.0)
    actions = Actions()
    app = FleetApp(lambda: [ROW, QUESTION, WORKS, ENDED], actions)
    async with app.run_test(size=size) as pilot:
        await until(lambda: "clean up" in frame(app))
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await until(lambda: actions.done == done)


async def test_an_x_long_after_the_note_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_screen, "AGAIN_S", 0.0)
    actions = Actions()
    app = FleetApp(lambda: [WORKS], actions)
    async with app.run_test() as pilot:
        await until(lambda: "build it" in frame(app))
        await pilot.press("x", "x")
        await until(lambda: said(app).count("Press x again to stop 33333333") == 2)
    assert actions.done == []


async def test_what_is_not_wholly_shown_is_not_allowed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_screen, "GRACE_S", 0.0)
    long = msgspec.structs.replace(ROW, questions=(msgspec.structs.replace(ASKS, text="echo x\n" * 60),))
    change = msgspec.structs.replace(ROW, questions=(msgspec.structs.replace(ASKS, whole=False),))
    for row in (long, change):
        actions = Actions()
        app = FleetApp(lambda row=row: [row], actions)  # type: ignore[misc]
        async with app.run_test(size=(80, 24)) as pilot:
            await until(lambda: "clean up" in frame(app))  # noqa: B023 - of this round
            if row is long:  # laid out; a person's key counts half a second after it
                await until(lambda: app.screen.query_one("#about").max_scroll_y > 0)  # noqa: B023
            await pilot.press("y")
            await until(lambda: "This question is not shown in full here" in said(app))  # noqa: B023
            assert actions.done == []
            await pilot.press("n")
            await until(lambda: actions.done == [("answer", "1", "p3", "no")])  # noqa: B023


async def test_a_row_says_what_it_waits_for_where_it_works_and_how_old_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_screen, "AGED_S", 0.0)
    title, cap, now = "a title that is long, so that it would hide the cap", "daily cap, $3.20 of $3.20", time.time()
    waits = msgspec.structs.replace(WORKS, title=title, waits=cap, branch="topic", updated=now - 59.0, cost_usd=0.0038)
    app = FleetApp(lambda: [waits], Actions())
    async with app.run_test(size=(80, 24)):
        await until(lambda: f"waiting: {cap}; `friday budget set` raises it" in frame(app))
        assert "waiting: daily cap" in frame(app).splitlines()[0]
        assert "/p/two ⎇ topic" in frame(app)
        assert "cost $0.0038" in frame(app)
        await until(lambda: " 1m  a title" in frame(app))


async def test_a_key_right_after_a_question_appears_is_not_an_answer() -> None:
    actions, rows = Actions(), [WORKS]
    app = FleetApp(lambda: list(rows), actions)
    async with app.run_test() as pilot:
        await until(lambda: "build it" in frame(app))
        rows[:] = [msgspec.structs.replace(ROW, id=WORKS.id)]
        await until(lambda: "rm -r build" in frame(app))
        await pilot.press("y")
        assert actions.done == []


async def test_a_peek_and_the_fold_of_what_has_ended() -> None:
    app = FleetApp(lambda: [WORKS, ENDED], Actions())
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: "old thing" in frame(app))
        await pilot.press("space")
        await until(lambda: "line 9" in frame(app))
        await pilot.press("e")
        await until(lambda: "1 session ended: e shows" in frame(app))
        assert "old thing" not in frame(app)
        await pilot.press("escape", "slash", *"old", "enter")
        await until(lambda: "All of them have ended" in frame(app))
        await pilot.press("slash", *["backspace"] * 3, *"nothing", "enter")
        await until(lambda: "No session matches" in frame(app))
        await pilot.press("slash", *["backspace"] * 7, "enter", "r", *"fail", "enter")
        await until(lambda: "It is not running." in said(app))


async def test_the_title_and_a_notification_say_how_many_need_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notification for each new question, once, and only while the window has no focus."""
    rows, written = [WORKS], list[str]()
    monkeypatch.setenv("TERM", "xterm")
    app = FleetApp(lambda: list(rows), Actions())
    monkeypatch.setattr(app.terminal, "write", written.append)
    async with app.run_test(size=(160, 45)) as pilot:
        await until(lambda: "\x1b]0;friday agents\x07" in written)
        assert "1 agent    $0.10" in frame(app)
        app.app_focus = False
        rows[:] = [ROW, QUESTION]
        await until(lambda: "\x1b]0;? 2 · friday agents\x07" in written)
        rows[:] = [ROW, msgspec.structs.replace(QUESTION, title="other")]
        await until(lambda: "other" in frame(app))
        rows[:] = [ROW]
        await until(lambda: "\x1b]0;? 1 · friday agents\x07" in written)
        await pilot.pause()
    assert [text for text in written if "]9;" in text] == ["\x1b]9;Friday: 2 sessions need you\x07"]
