"""No code passes column 120. Strings, docstrings and comments may: a sentence is better whole than cut in two. The rows of a
table of test cases may be wider by the strings in them."""

from __future__ import annotations

import io
import tokenize

import pytest

from .test_files import name_of, python_files

WIDTH = 120
_CLOSING = frozenset(")]}:,")
_NOT_CODE = frozenset((tokenize.COMMENT, tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT))
_STARTS, _ENDS = (getattr(tokenize, f"FSTRING_{name}", -1) for name in ("START", "END"))
"""From Python 3.12 on an f-string is several tokens, code among them."""


def wide_lines(source: str, *, with_strings: bool = True) -> list[int]:
    """The numbers of lines with code beyond the width. What only closes a bracket after a string is not counted.
    `with_strings`: code after a string stands where it is written, not where it would be without the string."""
    found, inside = set[int](), 0
    strings: dict[int, int] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        inside += (token.type == _STARTS) - (token.type == _ENDS)
        if inside or token.type in (tokenize.STRING, _ENDS):
            length = token.end[1] - token.start[1] if token.start[0] == token.end[0] else 0
            strings[token.end[0]] = strings.get(token.end[0], 0) + length
            continue
        if token.type in _NOT_CODE or token.string in _CLOSING:
            continue
        if token.end[1] - (0 if with_strings else strings.get(token.end[0], 0)) > WIDTH:
            found.add(token.start[0])
    return sorted(found)


@pytest.mark.parametrize("folder", ["friday_cli", "tests", "docs"])
def test_no_code_passes_the_width(folder: str) -> None:
    strings = folder != "tests"
    sources = {name_of(file): file.read_text(encoding="utf-8") for file in python_files(folder)}
    found = {name: wide_lines(source, with_strings=strings) for name, source in sources.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_wide_code_is_found_and_wide_strings_pass() -> None:
    long = "x" * WIDTH
    passing = f"call('{long}')\ncall(f'{long} {{a}}', )\n# {long}\ndef f():\n    '''{long}'''\n"
    assert wide_lines(passing) == []
    assert wide_lines(f"{passing}a = '{long}'.split(b)\n{long}c = 1\n") == [6, 7]
    assert wide_lines(f"call('{long}', 2)\ncall('{long}', {long}, 2)\n", with_strings=False) == [2]
