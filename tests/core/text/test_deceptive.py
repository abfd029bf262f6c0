"""Characters that make a command look like another one are marked; other scripts stay readable."""

from __future__ import annotations

import pytest

from friday_cli.core.text.deceptive import deception_note, show_deceptive


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm -rf b\u0430ckup", "rm -rf b\\u0430ckup"),
        ("curl https://p\u0430yp\u03b1l.com", "curl https://p\\u0430yp\\u03b1l.com"),
        ("lib_\u0441.so", "lib_\\u0441.so"),
        ("\uff52m x", "\\uff52m x"),
        ("x\u2800y\xa0z", "x\\u2800y\\xa0z"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("example.com\u2215evil", "example.com\\u2215evil"),
        ("rm \u2011rf \u2014-force x", "rm \\u2011rf \\u2014-force x"),
        ("git commit -m 'a \u2014 b\u2013c'", "git commit -m 'a \u2014 b\u2013c'"),
        ("echo привет из Минска", "echo привет из Минска"),
        ("cat отчёт_v2.txt файл.txt", "cat отчёт_v2.txt файл.txt"),
        ("echo αβγ 漢字 café", "echo αβγ 漢字 café"),
    ],
)
def test_only_what_misleads_is_spelled_out(text: str, shown: str) -> None:
    assert show_deceptive(text) == shown
    assert bool(deception_note(text)) == (shown != text)


def test_the_note_names_what_was_marked_and_a_changed_direction() -> None:
    assert "\\u0430 CYRILLIC SMALL LETTER A" in deception_note("в шапке: b\u0430ckup а")
    assert "from right to left" in deception_note("echo \u05e9\u05dc\u05d5\u05dd")
