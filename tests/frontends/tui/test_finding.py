"""Searching the transcript across wrapped rows, copying answers and code blocks, and links that a terminal opens."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from friday_cli.frontends.tui.widgets.row_search import find_in_rows, pattern_for
from tests.frontends.tui.chat import opened

ANSWER = """The word apple is here, and an apple there.

```python
# a comment that is wider than the screen of this test, so that it goes on in the next row of the block
```

Then run:

```sh
make test
```

See https://example.org/a/page?x=1 for more."""
PLAY = {"a": [{"text": "An older answer with an apple."}, {"text": ANSWER}]}


async def test_hits_are_counted_and_gone_to_one_by_one_also_over_two_rows(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAY, size=(60, 14)) as chat:
        await chat.ask("one")
        await chat.ask("two")
        await chat.press("ctrl+f")
        await chat.type("apple", shows="3 matches")
        await chat.press("enter", shows="3 of 3")
        await chat.press("enter", shows="1 of 3")
        chat.has("An older answer")
        await chat.press("enter", shows="2 of 3")
        await chat.press("up", shows="1 of 3")
        await chat.press("up", shows="3 of 3")
        await chat.press("escape", "ctrl+f")
        await chat.type("it goes on in the next", shows="1 match")
        await chat.press("enter", shows="1 of 1")
        chat.has("# a comment that is wider")
        await chat.press("escape", "ctrl+f")
        await chat.type("pear", shows="no match")


@pytest.mark.parametrize(("width", "keys"), [(60, False), (80, True)])
async def test_the_field_of_a_search_keeps_its_room(tmp_path: Path, width: int, keys: bool) -> None:
    async with opened(tmp_path, PLAY, size=(width, 20)) as chat:
        await chat.ask("one")
        text = "An older answer with an"
        await chat.say(f"/find {text}", shows="1 of 1")
        chat.has(f" {text} ")
        assert ("Enter: next" in chat.frame) is keys


async def test_a_search_begins_with_the_last_hit_that_is_not_below_the_screen(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": [{"text": f"apple {n}\n\n" + "word\n\n" * 30} for n in range(3)]}) as chat:
        for text in ("one", "two", "three"):
            await chat.ask(text)
        chat.log.focus()
        await chat.press("home")
        await chat.until(lambda: "apple 0" in chat.frame)
        chat.composer.area.focus()
        await chat.say("/find apple", shows="1 of 3")


async def test_after_a_search_the_keys_belong_to_what_had_them_before(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAY) as chat:
        await chat.ask("one")
        await chat.say("/find apple", shows="1 of 1")
        await chat.press("escape")
        await chat.say("/copy", shows="Copied")


@given(st.text("ab c", min_size=1).filter(str.strip), st.integers(1, 6), st.text("ab c"), st.text("ab c"))
def test_a_text_is_found_wherever_rows_are_broken(text: str, width: int, before: str, after: str) -> None:
    whole = f"{before}{text.strip()}{after}"
    rows = [whole[at : at + width] for at in range(0, len(whole), width)] or [""]
    found = find_in_rows(rows, pattern_for(text))
    assert found
    for pieces in found:
        drawn = "".join(rows[row][start:end] for row, start, end in pieces)
        assert "".join(drawn.split()) == "".join(text.split())


async def test_an_older_answer_or_one_code_block_is_copied(tmp_path: Path) -> None:
    async with opened(tmp_path, PLAY) as chat:
        await chat.say("/copy", shows="There is no answer to copy yet.")
        await chat.ask("one")
        await chat.say("/copy code", shows="The answer has no code block.")
        await chat.ask("two")
        await chat.say("/copy 2", shows="Copied")
        assert chat.app.clipboard == "An older answer with an apple."
        await chat.say("/copy code", shows="Which code block should be copied?")
        chat.has("python: # a comment", "sh: make test (1 line)")
        await chat.press("2")
        await chat.until(lambda: chat.app.clipboard == "make test\n")
        await chat.say("/copy 3", shows="There are 2 answers, so no 3.")
        await chat.say("/copy all", shows="/copy does not know 'all'.")


@pytest.mark.parametrize(("term", "linked"), [("xterm-256color", True), ("linux", False)])
async def test_an_address_is_a_link_where_the_terminal_has_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, term: str, linked: bool
) -> None:
    from friday_cli.frontends.tui.widgets import markdown

    monkeypatch.setenv("TERM", term)
    markdown._shows_links.cache_clear()
    async with opened(tmp_path, {"a": [{"text": ANSWER}]}, size=(40, 40)) as chat:
        await chat.ask("one")
        strips = [chat.log.blocks.strip(line) for line in range(chat.log.blocks.total)]
        pieces = [
            s.text for strip in strips for s in strip if s.style and s.style.link == "https://example.org/a/page?x=1"
        ]
        assert ("".join(pieces) == "https://example.org/a/page?x=1") == linked
        chat.has("python", "sh")
    markdown._shows_links.cache_clear()
