"""ASCII signs where the locale or the terminal lacks UTF-8."""

from __future__ import annotations

from pathlib import Path

import pytest

from friday_cli.system.ascii_signs import encode_errors, is_linux_console, lacks_utf8, to_signs
from tests.frontends.tui.terminal_fixture import Terminal


@pytest.mark.parametrize(("env", "lacks"), [
    ({}, False), ({"LC_ALL": "C"}, True), ({"LANG": "POSIX"}, True), ({"LANG": "C.UTF-8"}, False),
    ({"LC_CTYPE": "de_DE.ISO-8859-1"}, True), ({"LC_ALL": "de_DE.utf8", "LANG": "C"}, False), ({"LANG": "sr_RS@latin"}, True),
])  # fmt: skip
def test_a_locale_says_whether_it_has_utf8(env: dict[str, str], lacks: bool) -> None:
    assert lacks_utf8(env) is lacks


def test_a_sign_has_as_many_cells_in_ascii() -> None:
    errors = encode_errors()
    assert "│ ▸ ✓ ⎇ main · é 日 a\u0301".encode("ascii", errors) == b"| > + @ main . ? ?? a"
    assert "ü│".encode("latin-1", errors) == b"\xfc|"
    assert to_signs("╭─╮ grün") == "+-+ grün"
    assert [is_linux_console({"TERM": name}) for name in ("linux", "linux-16color", "xterm")] == [True, True, False]


@pytest.mark.parametrize("env", [{"LC_ALL": "C"}, {"TERM": "linux"}], ids=["locale C", "Linux console"])
def test_the_chat_is_drawn_with_ascii_signs(tmp_path: Path, env: dict[str, str]) -> None:
    with Terminal(tmp_path, "-m", "demo", **env) as terminal:
        terminal.until(b"demo: scripted", b"| Ask, or / for commands", b"+-----")
        assert terminal.out.isascii()
