"""No letter of an answer is left out on a terminal: every construct of Markdown, in both frontends, in pieces."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from rich.style import Style

from friday_cli.frontends.oneshot.terminal import StreamedMarkdown
from friday_cli.frontends.tui.widgets.markdown import GrowingMarkdown, draw
from friday_cli.frontends.tui.widgets.styles import Styles, TextRenderer

RENDERER = TextRenderer(Styles(*[Style()] * 14, "monokai"))
AFTER = "\n\nNext block.\n\nThe last one."
CONSTRUCTS = (
    "The type is List<String>, and Map<Key, Value>.",
    "<details>\n<summary>More</summary>\nInside\n</details>",
    "a <b>bold</b> <br/> word <!-- hidden comment --> <?php code ?> <![CDATA[data]]> <!DOCTYPE html>",
    "<script>\nalert('x')\n\nsecond\n</script>",
    '<div\nclass="wide">\n\n*inner*\n\n</div>',
    "Sources:\n\n[1]: https://example.com/first\n[two]: <https://example.com/second> 'With a title'",
    "See [the page][1] and [1] and [one][].\n\nElse.\n\n[1]: https://example.com/later\n\n[one]: /elsewhere",
    "[^1]: A footnote.\n\nWith a mark[^1].",
    '[text](https://example.com/path?query=value#part "a title") and <https://auto.example.com> <me@example.com>',
    "[](/empty) [<tag>](<a url with blanks>) [föö](/föö) [`code`](/c) [**bold**](/b 'two\nlines')",
    "![alternative](picture.png 'caption') in a ![line](x.jpg) and [![badge](badge.svg)](https://ci.example.com)",
    "![outer [inner](nested) ![deep](deepest)](source)",
    "| head | ![in](cell.png) |\n|:--|--:|\n| [link](/target) | `code` |\n| lonely |",
    "|" + "|".join(f"column{c}" for c in "abcdefghijklmnopqrstuvwxyz") + "|\n" + "|-" * 26 + "|\n" + "|cell" * 26 + "|",
    "```python title=\"file.py\" {numbers}\nprint('x')\n```",
    "~~~ unknownlanguage\nx\n~~~",
    "```\nunclosed <fence>\n\n[1]: /not",
    "    indented <code>\n\n\tand\tmore",
    "- ```\n  in a list\n  ```\n- next\n\n  paragraph\n\n      code",
    "7. seven\n8) eight\n   - nested\n     1. deeper\n- [ ] open\n- [x] done",
    "> quote\nlazy line\n> > nested\n>\n> # heading\n> - list\n>   [r]: /ref",
    "> " * 40 + "deeply quoted",
    "\n".join("  " * n + f"- level{chr(97 + n)}" for n in range(24)),
    "# One `two` [three](/four) #\n\nSetext\n======\n\nOther\n---\nunder\n***\nrule",
    "*a **b ~~c~~ `d`** e* __f__ \\*g\\* h\\\ni  \nj",
    "&notanentity; `&copy;` x &amp y AT&T a&b;",
    '[not a link] [also not](no end [x]: y\n\n[label]:\n/address\n"title"',
    "[javascript](javascript:alert) ![data](data:text/html;base64,abc)",
    "A heading without blank\n# head\n<p>text\n***\n[z]: /z\n```js\ncode\n```\nafter",
    "Term\n: Definition\n\n<kbd>Ctrl</kbd> H<sub>two</sub>O $x^2$ \\(y\\)",
    "文字 <タグ> [ссылка]: /путь — ελληνικά",
)


def letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalpha, text))


def asked(text: str, step: int, capsys: pytest.CaptureFixture[str]) -> str:
    answer = StreamedMarkdown(None)
    for at in range(0, len(text), step):
        answer.feed(text[at : at + step], attempt=(1, 1))
    answer.finish_reply(text)
    return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)


def chatted(text: str, step: int, width: int) -> str:
    growing = GrowingMarkdown()
    for end in range(step, len(text), step):
        growing.strips(text[:end], RENDERER, width)
    return "\n".join(strip.text for strip in draw(text, RENDERER, width, growing))


@pytest.mark.parametrize(("width", "step"), [(80, 3), (24, 50)])
@pytest.mark.parametrize("text", CONSTRUCTS, ids=lambda text: text[:20])
def test_all_letters_are_on_the_screen(
    text: str, width: int, step: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    wanted = letters(text + AFTER)
    assert not wanted - letters(asked(text + AFTER, step, capsys))
    assert not wanted - letters(chatted(text + AFTER, step, width))


def test_markdown_is_drawn_and_not_only_copied(capsys: pytest.CaptureFixture[str]) -> None:
    text = "**bold** &copy; ![alt](src 'title') [`c`](/u)\n\n```python\nx\n```\n"
    for shown in (asked(text, 9, capsys), chatted(text, 9, 80)):
        lines = [line.strip() for line in shown.splitlines() if line.strip()]
        assert lines == ['bold © 🌆 alt (src "title") c (/u)', "python", "x"]
