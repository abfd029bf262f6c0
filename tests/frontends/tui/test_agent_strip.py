"""The tree is always in sight: beside the chat from 100 columns on, in a strip above the prompt on a narrower screen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from friday_cli.frontends.tui.state import preferences
from friday_cli.frontends.tui.widgets import approval_panel
from tests.frontends.tui.chat import delegates, does, opened

SLOW = {"text": "word " * 400, "chunk_delay_s": 60.0}
ASKS = does("ask_user", question="Which way?", choices=["left", "right"])
SIZES = [((120, 40), 0), ((100, 30), 0), ((99, 30), 5), ((80, 24), 5), ((60, 15), 2)]


def agents(*children: dict[str, Any]) -> dict[str, Any]:
    more = {f"a.{number}": [child] for number, child in enumerate(children, 1)}
    return {"a": [delegates(*(f"task {path}" for path in more)), {"text": "Done."}], **more}


@pytest.mark.parametrize(("size", "rows"), SIZES)
async def test_who_works_is_in_sight_at_every_size(tmp_path: Path, size: tuple[int, int], rows: int) -> None:
    async with opened(tmp_path, agents(*[SLOW] * 6), size=size) as chat:
        strip = chat.app.chat.strip
        assert not strip.region.height
        await chat.say("go")
        await chat.until(lambda: (len(chat.state.working) == 7 and "6 at work" in chat.frame) or chat.side.region.width)
        assert strip.region.height == rows
        assert chat.side.has_class("shown") is not bool(rows)
        if not rows:
            assert 34 <= chat.side.region.width <= 40
            assert chat.log.size.width >= 60
            await chat.press("ctrl+t", "ctrl+t", "ctrl+t", shows="a.1 general · writes · task a.1")
            return
        assert strip.region.bottom == chat.composer.region.y
        chat.has("6 sub-agents · 6 at work", "Ctrl+T agents", "a.1 general · writes")
        assert ("… and 3 more" in chat.frame) is (rows == 5)
        await chat.press("ctrl+t")
        await chat.until(lambda: chat.side.agents.has_focus and not strip.region.height)
        await chat.press("ctrl+t", "ctrl+t")
        await chat.until(lambda: strip.region.height == rows and not chat.side.has_class("shown"))


@pytest.mark.parametrize(("size", "rows"), [((80, 24), 2), ((60, 15), 1)])
async def test_who_needs_the_user_comes_first(
    tmp_path: Path, size: tuple[int, int], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_panel, "GRACE_S", 0.0)
    async with opened(tmp_path, agents(SLOW, ASKS), size=size) as chat:
        await chat.say("go", shows="2 right")
        strip = chat.app.chat.strip
        await chat.until(lambda: strip.region.height == rows)
        chat.has("2 sub-agents · 1 needs you · 1 at work")
        assert ("? a.2 general needs you · Which way?" in chat.frame) is (rows == 2)
        await chat.press("1")
        await chat.until(lambda: "needs you" not in chat.frame)


async def test_ended_sub_agents_are_one_row_and_a_click_opens_the_one_in_a_row(tmp_path: Path) -> None:
    failing = {"fail": {"kind": "config", "message": "no such model"}}
    async with opened(tmp_path, agents({"text": "Fine."}, failing, SLOW), size=(80, 24)) as chat:
        await chat.say("go", shows="3 sub-agents · 1 at work · 1 failed · 1 with warnings")
        await chat.until(lambda: chat.app.chat.strip.region.height == 2)
        await chat.pilot.click("#strip", offset=(4, 1))
        await chat.until(lambda: chat.side.has_class("shown") and chat.side.child == "a.3")
        await chat.stop()
        await chat.press("escape")
        await chat.until(lambda: chat.app.chat.strip.region.height == 1)
        await chat.say("/new")
        await chat.until(lambda: not chat.app.chat.strip.region.height)


async def test_agents_with_warnings_are_counted(tmp_path: Path) -> None:
    claims = does("task_result", result="All tests pass.")
    script = agents(claims, does("list_dir", path="."), claims, SLOW)
    script["a.2"].append({"text": "It is empty."})
    async with opened(tmp_path, script, size=(80, 24)) as chat:
        await chat.say("go", shows="4 sub-agents · 1 at work · 2 with warnings · 1 completed")


@pytest.mark.parametrize("size", [(60, 15), (60, 17), (80, 24), (100, 30)])
async def test_a_long_question_leaves_room_for_the_transcript_and_the_status_line(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    long = does("ask_user", question="Which way?\n" * 60, choices=[f"way {n}" for n in range(8)])
    async with opened(tmp_path, agents(SLOW, long), size=size) as chat:
        await chat.say("go", shows="1 way 0")
        await chat.until(lambda: chat.app.chat.strip.region.height == (size[0] < 100) + (size[0] == 80))
        assert chat.log.size.height >= 1
        assert chat.app.chat.status.region.bottom == size[1], "the status line is on the screen"
        await chat.press("tab", "x", *["ctrl+j", "x"] * 3)
        await chat.until(lambda: chat.composer.region.height == 6)
        assert (chat.log.size.height >= 1, chat.app.chat.status.region.bottom) == (True, size[1])
        chat.composer.clear()
        await chat.until(lambda: chat.composer.region.height == 3)
        chat.has("2 sub-agents" if size[0] < 100 else "general", "asks")


@pytest.mark.parametrize("size", [(100, 30), (80, 24)])
async def test_tokens_and_cost_are_estimated_while_a_reply_streams(tmp_path: Path, size: tuple[int, int]) -> None:
    ends = {"text": "Done.", "usage": {"input": 1000, "output": 500}}
    script = {"a": [{**delegates("one"), "usage": {"input": 0}}, ends], "a.1": [SLOW]}
    scenario = tmp_path / "priced.json"
    price = {"input": 10.0, "output": 10.0}
    scenario.write_text(json.dumps({"agents": script, "badge": "", "price": price}))
    async with opened(tmp_path, {}, size=size, model=f"scripted:{scenario}") as chat:
        await chat.say("go")
        await chat.until(lambda: "a.1" in chat.state.agents and chat.state.agents["a.1"].reply)
        await chat.until(lambda: "~$0.0" in chat.frame)
        used = chat.state.agents["a.1"].usage_now
        assert used.billed > 1_000
        assert used.cost_usd == pytest.approx(used.billed / 100_000)
        chat.has(f"~{used.billed / 1000:.1f}k", f"~${used.cost_usd:.3f}")
        assert not chat.state.agents["a.1"].usage.billed


async def test_a_width_that_the_user_chose_holds_on_a_wide_screen(tmp_path: Path) -> None:
    async with opened(tmp_path, agents(SLOW), size=(120, 30)) as chat:
        await chat.say("go")
        await chat.until(lambda: chat.side.region.width == 40)
        await chat.press("alt+left")
        await chat.until(lambda: chat.side.region.width == 44)
        assert preferences.read().side == 44
