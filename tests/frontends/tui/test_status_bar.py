"""The status line: what is used, and the keys that matter where the focus is."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from friday_cli.core.limits import rate_limit
from friday_cli.frontends.tui.widgets.status_bar import StatusFacts, draw_line, short_count
from friday_cli.frontends.tui.widgets.styles import Styles
from tests.frontends.tui.chat import delegates, opened

SLOW = {"text": "one two three", "chunk_delay_s": 60.0}


async def test_the_line_says_how_much_of_the_context_is_used_and_free(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "One."}]}, size=(130, 30)) as chat:
        await chat.ask("hello")
        root = chat.state.root
        assert root is not None
        assert (
            f"context {root.context / root.window:.0%} ({short_count(root.window - root.context)} free)" in chat.frame
        )
        await chat.say("/context", shows=f"of {root.window:,}")
        chat.has("system prompt", "tools", "messages", "free")


async def test_an_outage_is_said_with_the_time_of_the_next_try_and_ended_by_escape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BACKOFF_S", "OUTAGE_MOST_S"):
        monkeypatch.setattr(rate_limit, name, 250.0)
    gone = {"text": "half of it", "truncate_after": 1, "fail": {"kind": "network", "message": "Cannot reach it."}}
    turns = {"a": [delegates("first"), {"text": "Done."}], "a.1": [gone]}
    async with opened(tmp_path, turns, size=(150, 30)) as chat:
        await chat.say("go")
        row, line = (
            r"\[general\] a\.1 · no connection, trying again in \d+ s",
            r"no connection, trying again in \d+ s · 2 waiting",
        )
        await chat.until(lambda: re.search(row, chat.frame) and re.search(line, chat.frame))
        await chat.press("escape", shows="! stopped")
        assert "no connection" not in chat.frame
        assert chat.state.agents["a.1"].result == "half of it"


async def test_an_outage_of_the_main_agent_is_one_line_of_the_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BACKOFF_S", "OUTAGE_MOST_S"):
        monkeypatch.setattr(rate_limit, name, 0.01)
    gone = {"fail": {"kind": "network", "message": "Cannot reach it. Check the network."}}
    async with opened(tmp_path, {"a": [*[gone] * 5, {"text": "There again."}]}) as chat:
        await chat.ask("go", shows="There again.")
        (row,) = (row for row in chat.frame.splitlines() if "Cannot reach it" in row)
        assert row.strip() == "! Cannot reach it. Check the network. The next try worked. (5 tries failed)"


async def test_an_outage_that_was_stopped_is_not_tried_again(tmp_path: Path) -> None:
    gone = {"fail": {"kind": "network", "message": "Cannot reach it. Check the network."}}
    async with opened(tmp_path, {"a": [gone] * 50}) as chat:
        await chat.say("go", shows="Trying again.")
        await chat.press("escape", shows="! stopped")
        assert "Trying again" not in chat.frame


async def test_the_hint_is_about_the_place_where_the_keys_go(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [delegates("first"), {"text": "Done."}], "a.1": [SLOW]}, size=(150, 30)) as chat:
        await chat.say("go")
        await chat.until(lambda: "a.1" in chat.state.agents)
        await chat.shows("Enter queues · Esc stops")
        await chat.say("next", shows="Enter sends now · Up edits · Esc stops")
        await chat.press("ctrl+t", "home", "down", shows="Enter opens · x stops")
        await chat.press("enter", shows="Enter full screen · x stops")
        chat.log.focus()
        await chat.shows("v marks")


@pytest.mark.parametrize("width", [80, 90, 100])
async def test_the_hint_keeps_its_room_on_a_narrow_screen(tmp_path: Path, width: int) -> None:
    async with opened(tmp_path, {"a": [{"text": "One."}]}, size=(width, 24)) as chat:
        await chat.ask("hello", shows="F1 help · / commands · Shift+Tab mode")


async def test_a_hint_too_long_for_half_a_small_screen_keeps_its_first_keys(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "One."}]}, size=(60, 20)) as chat:
        words = "Enter opens · x stops · f filters"
        facts = StatusFacts(mode="ask", running=1, asks=1, cost="$0.0542", folder="~/retry", hint=words)
        line = draw_line(facts, Styles.of(chat.app), 60).plain
        assert line.endswith(" Enter opens · x stops")
        assert "1 needs you · 1 agent at work" in line
        facts = StatusFacts(mode="edits", running=1, waiting=1, badge="scripted", hint="Ctrl+T agents · Esc stops")
        assert draw_line(facts, Styles.of(chat.app), 60).plain.endswith(" 1 waiting Ctrl+T agents")
        demo = StatusFacts(
            mode="ask", asks=1, waiting=1, badge="demo: scripted, no AI model", hint="? explains · Tab: prompt"
        )
        assert draw_line(demo, Styles.of(chat.app), 60).plain.endswith(" 1 needs you  ? explains")


async def test_no_sandbox_is_a_warning_where_commands_pass_unasked(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": "One."}]}, size=(130, 24)) as chat:
        look = Styles.of(chat.app)
        assert draw_line(StatusFacts(badge="x\x1b[31my"), look, 100).plain.split() == ["xy"]
        for mode, style in (("auto", look.warn), ("ask", look.dim)):
            text = draw_line(StatusFacts(mode=mode, sandbox="none"), look, 100)
            at = text.plain.index("sandbox: none")
            assert [s.style for s in text.spans if s.start <= at < s.end] == [style]
        demo = StatusFacts(mode="ask", badge="demo: scripted, no AI model", folder="~/a/long/folder", hint="x" * 53)
        assert "no AI model" in draw_line(demo, look, 80).plain
        assert "x" not in draw_line(demo, look, 80).plain, "a hint is not cut"
        long = StatusFacts(mode="ask", folder="~/long" * 9, hint="Ctrl+T agents")
        assert draw_line(long, look, 60).plain.endswith("Ctrl+T agents")
        kind = chat.session.sandbox
        await chat.shows(f"sandbox: {kind}")


@pytest.mark.parametrize("kind", ["pipe", "zero byte", "escape"])
async def test_an_odd_repository_neither_ends_nor_stops_the_chat(tmp_path: Path, kind: str) -> None:
    git = tmp_path / ".git"
    if kind == "zero byte":
        git.write_bytes(b"gitdir: a\0b\n")
    else:
        git.mkdir()
        os.mkfifo(git / "HEAD") if kind == "pipe" else (git / "HEAD").write_bytes(
            b"ref: refs/heads/a\x1b[31m[red]b\nsecond"
        )
    async with opened(tmp_path, {"a": [{"text": "One."}]}, size=(160, 24)) as chat:
        await chat.ask("hello")
        if kind == "escape":
            assert "⎇" not in chat.frame, "what is not a branch is not shown"


def test_numbers_of_tokens_are_short() -> None:
    assert [short_count(n) for n in (0, 950, 12_345, 999_499, 999_500, 1_050_000)] == [
        "0",
        "950",
        "12k",
        "999k",
        "1.0M",
        "1.1M",
    ]
