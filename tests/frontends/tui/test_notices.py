"""Notices stand in rows of their own: they hide no row of a card, a question, a dialog or the prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frontends.tui.chat import does, opened

LONG = "The services of the second region do not answer now; the list is of yesterday, and no price in it is certain."


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (100, 30), (160, 45)])
async def test_a_notice_hides_nothing_of_a_card_and_moves_no_prompt(tmp_path: Path, size: tuple[int, int]) -> None:
    items = "\n".join(f"- item {number}" for number in range(60))
    async with opened(tmp_path, {"a": [{"text": items}]}, size=size) as chat:
        await chat.ask("go", shows="item 59")
        prompt = chat.composer.region
        for words in ("The first one.", LONG):
            chat.app.notify(words, timeout=600)
        await chat.shows("The services of the second region")
        rows = chat.frame.splitlines()
        last, first = (next(n for n, row in enumerate(rows) if words in row) for words in ("item 59", "The first one."))
        assert last < first < prompt.y
        chat.has("item 58")
        assert chat.composer.region == prompt
        chat.app.clear_notifications()
        await chat.until(lambda: "The first one." not in chat.frame)
        assert chat.composer.region == prompt
        chat.has("item 59")


@pytest.mark.parametrize("size", [(60, 20), (80, 24)])
async def test_a_notice_takes_no_row_of_a_question(tmp_path: Path, size: tuple[int, int]) -> None:
    command = "\n".join(["cat > notes.txt <<END", *(f"line {number}" for number in range(40)), "END"])
    async with opened(tmp_path, {"a": [does("bash", command=command), {"text": "Done."}]}, size=size) as chat:
        await chat.say("go", shows="wants to run")
        question, prompt = chat.app.chat.approval, chat.composer.region
        before = question.region
        for words in ("one", "two", LONG):
            chat.app.notify(words, timeout=600)
        await chat.shows("The services of the second region")
        assert (question.region, chat.composer.region) == (before, prompt)
        chat.has("Yes", "No, and say why")


@pytest.mark.parametrize("size", [(60, 20), (160, 45)])
async def test_a_notice_hides_no_row_of_a_dialog(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(tmp_path, {"a": [{"text": "Done."}]}, size=size) as chat:
        await chat.say("/profiles", shows="researcher")
        await chat.until(lambda: chat.app.screen is not chat.app.chat)
        before = [row.strip(" │") for row in chat.frame.splitlines()]
        chat.app.notify(LONG, timeout=600)
        await chat.shows("The services of the second region")
        after = [row.strip(" │") for row in chat.frame.splitlines()]
        assert after[-1] == before[-1], "the last row of the dialog"
        assert any("researcher" in row for row in after)
