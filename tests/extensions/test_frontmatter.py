"""Front matter: read with limits, exact lines, and the quick reader never disagrees with YAML."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from friday_cli.core.protocol.errors import FileError
from friday_cli.extensions import frontmatter


def read(block: str, *, known: tuple[str, ...] | None = None) -> frontmatter.MarkdownFile:
    return frontmatter.read("x.md", f"---\n{block}\n---\nbody\n", known=known)


def wrong(text: str) -> FileError:
    with pytest.raises(FileError) as caught:
        frontmatter.read("x.md", text)
    return caught.value


def test_keys_lines_and_body() -> None:
    page = frontmatter.read("x.md", "---\nname: a\n\nlist:\n  - x\n  - 2\n---\n\nHello\n---\nrest")
    assert page.keys == {"name": "a", "list": ["x", 2]}
    assert page.lines == {"name": 2, "list": 4}
    assert page.body == "\nHello\n---\nrest"


def test_byte_order_mark_and_other_line_ends() -> None:
    text = frontmatter.decode("x.md", b"\xef\xbb\xbf---\r\nname: 'a b'\r\n---\r\nbody\r\n")
    assert frontmatter.read("x.md", text) == frontmatter.MarkdownFile({"name": "a b"}, {"name": 2}, "body\n")
    assert frontmatter.has_name("\ufeff---\r\nname: a\r\n---\r\n")


@pytest.mark.parametrize(
    ("block", "line", "words"),
    [
        ("name: a\ndescription: one: two", 3, "Quote text"),
        ("a: &x 1\nb: *x", 2, "anchors"),
        ("a: b\nb: {c: {d: {e: {f: {g: {}}}}}}", 3, "nested"),
        ("a: " + "[" * 3000, 2, "nested"),
        ("a: 1\na: 2", 3, "duplicate; first in line 2"),
        ("on: yes", 2, "true or false"),
        ("a: 1\n5: b", 3, "not text"),
        ("- a\n- b", 2, "key: value"),
        ("a: !!python/object:os.system x", 2, "not YAML"),
        ("a: !!int x", 1, "not YAML"),
        ("a: 2024-99-99", 1, "not YAML"),
        ("a: b\x07c", 2, "control characters"),
        ("a: [b", 2, "not YAML"),
        ("a:\n\t- b", 3, "not YAML"),
    ],
)
def test_bad_blocks_say_line_and_remedy(block: str, line: int, words: str) -> None:
    error = wrong(f"---\n{block}\n---\nbody\n")
    assert words in str(error)
    assert error.line == line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "no front matter"),
        ("---\nname: a\n", "is not closed"),
        ("---\n" + "a: b\n" * 5000 + "---\n", "longer than"),
    ],
)
def test_what_is_no_front_matter(text: str, words: str) -> None:
    assert words in str(wrong(text))
    assert wrong(text).line == 1


def test_aliases_are_refused_before_anything_is_built() -> None:
    laughs = [f"{b}: &{b} [*{a}, *{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    assert "anchors" in str(wrong("\n".join(["---", "a: &a [x, x]", *laughs, "---"])))


def test_lenient_takes_unquoted_colons() -> None:
    page = read("name: a\ndescription: Use this: when\n  it: fits\ncolor: 'red'", known=())
    assert page.keys == {"name": "a", "description": "Use this: when it: fits", "color": "red"}
    assert page.lines == {"name": 2, "description": 3, "color": 5}


def test_a_profile_is_known_by_its_name() -> None:
    for block in ("name: a", "'name': a", "{name: a}", "x: 1\nname: b", "  name: a"):
        assert frontmatter.has_name(f"---\n{block}\n---\n")
    for text in ("# name: x", "---\ntitle: x\n---\nname: y", "---\nname: x\n", "", "--- \nnames: a\n---"):
        assert not frontmatter.has_name(text)


def test_simple_blocks_load_no_yaml() -> None:
    code = (
        "import sys\nfrom friday_cli.extensions import frontmatter as f\n"
        "f.read('x', '---\\nname: a b, c\\nnum: 3\\nx: [a, b]\\nok: true\\nl:\\n  - a\\n---\\n')\n"
        "sys.exit('yaml' in sys.modules)"
    )
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0


PIECES = st.sampled_from(
    [
        *"a:#-[]{},\"'\\&*!|>%@`?=~1 \n\té…\u2028\x85\ufeff\ufffe",
        *(
            "name",
            "b c",
            "yes",
            "no",
            "on",
            "null",
            "true",
            "True",
            "01",
            "1.5",
            "1e3",
            "0x1f",
            "1_0",
            ".5",
            ": ",
            " #",
        ),
        *("- ", "  ", "\n  ", "\n  - ", "\n- ", ", ", "? ", "<<", "2024-01-01", "12:30", "a: b", "k: ", "k2: x\n"),
        *("list:\n", "...", "z:\n  - q\n  - r\n", "q: [a, b]\n"),
    ]
)
WORDS = st.sampled_from(
    ["a", "b c", "7", "0.5", "yes", "x-y", "'q'", '"q r"', "Ab", "é", "", "null", "[a, b]", "[ 1 ]"]
)
VALUES = WORDS | st.builds("{}{}{}".format, WORDS, PIECES, WORDS)
LINES = st.lists(
    st.builds("{}: {}".format, st.sampled_from(["k", "kk", "k_3", "k-4"]), VALUES)
    | st.builds("{}:\n{}- {}\n{}- {}".format, st.sampled_from("lm"), *[st.sampled_from(["", " ", "  "]), VALUES] * 2)
    | st.builds("l:\n - {}\n - {}".format, VALUES, WORDS),
    max_size=4,
    unique_by=lambda line: line[:2],
).map("\n".join)


@given(st.lists(PIECES, max_size=12).map("".join) | LINES)
@example("a:\n  - x\n - y")
@example("a:\n  - x\n    - y")
@example("a: x\n  y")
def test_the_quick_reader_agrees_with_yaml(block: str) -> None:
    page = frontmatter._parse_simple(block, "")
    if page is None or frontmatter._UNPRINTABLE().search(block):
        return
    expected = yaml.safe_load(block)
    assert page.keys == expected
    assert list(map(type, page.keys.values())) == list(map(type, expected.values()))


@given(LINES | st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=80), st.booleans())
def test_any_block_is_a_page_or_a_file_error(block: str, lenient: bool) -> None:
    try:
        page = frontmatter.read("x.md", f"---\n{block}\n---\nbody", known=("k",) if lenient else None)
    except FileError:
        return
    assert all(isinstance(key, str) for key in page.keys)
    assert set(page.lines) == set(page.keys)
