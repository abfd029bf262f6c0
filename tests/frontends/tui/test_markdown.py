"""What would hold the screen up is shown as it is written; the rest as what it means."""

from __future__ import annotations

import pytest
from rich.style import Style

from friday_cli.frontends.tui.widgets.markdown import LINES, ROWS, GrowingMarkdown, draw
from friday_cli.frontends.tui.widgets.styles import Styles, TextRenderer

RENDERER = TextRenderer(Styles(*[Style()] * 14, "monokai"))
HEAD = "| a | b |\n|---|---|\n"


def shown(text: str) -> list[str]:
    return [strip.text.rstrip() for strip in draw(text, RENDERER, 60)]


def test_a_table_is_drawn_and_one_without_end_is_shown_as_it_is() -> None:
    assert not any("|" in line for line in shown(HEAD + "| 1 | 2 |\n" * 20))
    whole = HEAD + "| 1 | 2 |\n" * ROWS
    assert shown(whole) == whole.splitlines()


@pytest.mark.parametrize("line", ["- a", "# a", "a **b**"])
def test_more_lines_than_anybody_reads_are_shown_as_they_are(line: str) -> None:
    assert shown(f"{line}\n" * 5) != [line] * 5
    assert shown(f"{line}\n" * (LINES + 1)) == [line] * (LINES + 1)


def test_a_line_that_was_ended_is_ended() -> None:
    text = "**Changed:**\nsrc/a.py - one\nsrc/b.py - two\n\n- a point\n  of two lines\n\n> said\n> so"
    assert shown(text) == [
        "Changed:", "src/a.py - one", "src/b.py - two", "", " • a point", "   of two lines", "", "▌ said", "▌ so",
    ]  # fmt: skip


ANSWER = """One *short* line

# A heading
- a point
- another with `code`

```python
def f(x):

    return x
```
| a | b |
|---|---|
| 1 | 2 |

> a word of [somebody](https://e.org)

The end."""


@pytest.mark.parametrize("step", [1, 7, 60])
def test_what_was_written_looks_the_same_when_it_is_done(step: int) -> None:
    growing, whole = GrowingMarkdown(), shown(ANSWER)
    for end in range(step, len(ANSWER), step):
        growing.strips(ANSWER[:end], RENDERER, 60)
    assert [strip.text.rstrip() for strip in draw(ANSWER, RENDERER, 60, growing)] == whole
    assert any("return x" in line for line in whole)


def test_a_reply_that_is_not_what_was_being_written_is_drawn_as_it_is() -> None:
    growing = GrowingMarkdown()
    growing.strips("One\n\nTwo\n\nThree", RENDERER, 60)
    assert [strip.text.rstrip() for strip in draw("Else\n\nwhere", RENDERER, 60, growing)] == ["Else", "", "where"]
