from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import struct
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from friday_cli.core.protocol.displays import DiffDisplay, TableDisplay
from friday_cli.core.protocol.tool import Output
from friday_cli.core.text.diff import difference
from friday_cli.tools.files import tools
from tests.tools.tool_workspace import ToolHarness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ToolHarness]:
    root = tmp_path / "ws"
    root.mkdir()
    made = ToolHarness(root, *tools())
    yield made
    await made.workspace.close()


async def given(harness: ToolHarness, data: str | bytes, name: str = "f") -> Path:
    """A file that the agent has read."""
    path = harness.root / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    await harness("read_file", path=name)
    return path


async def edit(harness: ToolHarness, *edits: tuple[str, str], **more: bool) -> Output:
    """Edit the file `f`: pairs of old and new text."""
    return await harness("edit_file", path="f", edits=[{"old": old, "new": new, **more} for old, new in edits])


async def refused(harness: ToolHarness, *edits: tuple[str, str]) -> str:
    """The words with which an edit of `f` is refused."""
    return await harness.error("edit_file", path="f", edits=[{"old": old, "new": new} for old, new in edits])


# ---- reading ---------------------------------------------------------------------


async def test_lines_are_numbered_and_the_reading_is_recorded(harness: ToolHarness) -> None:
    (harness.root / "a.txt").write_text("one\ntwo\n\nfour")
    output = await harness("read_file", path="a.txt")
    assert output.text == "1\tone\n2\ttwo\n3\t\n4\tfour"
    assert output.facts.read == ("a.txt",)
    assert harness.context.seen.hashes == {str(harness.root / "a.txt"): hashlib.sha256(b"one\ntwo\n\nfour").hexdigest()}


async def test_a_window_says_what_is_left_and_how_to_go_on(harness: ToolHarness) -> None:
    (harness.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert await harness.text("read_file", path="a.txt", offset=4, limit=2) == (
        "4\tline 4\n5\tline 5\n[lines 4-5 of 10; continue with offset=6]"
    )
    assert (await harness.text("read_file", path="a.txt", offset=9)).endswith("10\tline 10\n[lines 9-10 of 10]")
    assert "only 10 lines" in await harness.error("read_file", path="a.txt", offset=11)


async def test_long_files_and_lines_are_cut_and_said(harness: ToolHarness) -> None:
    (harness.root / "many").write_text("x\n" * 5000)
    (harness.root / "wide").write_text("y" * 100_000 + "\nend\n")
    (harness.root / "both").write_text(("z" * 1500 + "\n") * 1000)
    many = await harness.text("read_file", path="many")
    assert many.endswith("2000\tx\n[lines 1-2,000 of 5,000; continue with offset=2001]")
    wide = await harness.text("read_file", path="wide")
    assert wide.endswith("[truncated: the line has 100,000 characters]\n2\tend")
    assert len(wide) < 3000
    both = await harness.text("read_file", path="both")
    assert len(both) < 62_000
    assert "continue with offset=" in both


async def test_crlf_mark_and_encodings_are_read_as_text(harness: ToolHarness) -> None:
    for data, text in (
        (b"a\r\nb\r\n", "1\ta\n2\tb"),
        (b"\xef\xbb\xbfa\n", "1\ta"),
        ("ä\n".encode("utf-16"), "1\tä\n[encoding utf-16-le]"),
        ("größe – ".encode("cp1252"), "1\tgröße – \n[encoding cp1252]"),
        (b"caf\xe9 \x81\n", "1\tcafé \x81\n[encoding latin-1]"),
        (b"", "(f is empty)"),
    ):
        (harness.root / "f").write_bytes(data)
        assert await harness.text("read_file", path="f") == text


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"\x7fELF\x02\x01\x01\0\0", "a program"),
        (b"PK\x03\x04\x14\0", "ZIP"),
        (b"%PDF-1.7\n\xe2\xe3\0", "PDF document.*document_query"),
        (bytes(range(256)), "binary data"),
        (b"\xff\xfe\x00\xd8\x00", "binary data"),
        (b"\x80\x01\x02\x03\x04\x05\x06" * 100, "binary data"),
    ],
)
async def test_binary_files_are_refused_by_kind(harness: ToolHarness, data: bytes, word: str) -> None:
    (harness.root / "f").write_bytes(data)
    assert re.search(word, await harness.error("read_file", path="f"))
    assert harness.context.seen.hashes == {}


async def test_what_is_missing_is_named_with_what_is_like_it(harness: ToolHarness) -> None:
    (harness.root / "settings.py").write_text("")
    assert "Did you mean settings.py?" in await harness.error("read_file", path="setings.py")
    assert "folder does not exist" in await harness.error("read_file", path="no/such.py")
    assert "list_dir" in await harness.error("read_file", path=".")
    assert "outside" in await harness.error("read_file", path="../x")


async def test_a_file_too_large_shows_its_start_and_cannot_be_changed(harness: ToolHarness) -> None:
    with open(harness.root / "big", "wb") as file:  # noqa: ASYNC230
        file.write(b"first\n" + b"x" * 99 + b"\n")
        for _ in range(200):
            file.write(b"0123456789abcde\n" * 6000)
    text = await harness.text("read_file", path="big", limit=1)
    assert text.startswith("1\tfirst\n")
    assert "the file has 18.3 MB; lines 1-1; continue with offset=2]" in text
    assert (await harness.text("read_file", path="big", offset=1_200_002)).startswith("1200002\t0123456789abcde\n[")
    assert "lines 1,200,002-1,200,002 of 1,200,002]" in await harness.text("read_file", path="big", offset=1_200_002)
    assert "has only 1,200,002 lines; offset 1,200,003" in await harness.error(
        "read_file", path="big", offset=1_200_003
    )
    assert "larger than" in await harness.error("edit_file", path="big", edits=[{"old": "first", "new": "1"}])


async def test_the_one_line_of_a_file_too_large_is_shown_from_its_beginning(harness: ToolHarness) -> None:
    """Without a line end there was no whole line to show, and the file was called empty."""
    (harness.root / "one.json").write_bytes(b"first" + "é".encode() * 8_400_000)
    text = await harness.text("read_file", path="one.json")
    assert text.startswith("1\tfirstéé")
    assert "the file has 16.0 MB" in text
    assert "encoding" not in text


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.png", png(3, 4), "image/png"),
        ("a.gif", b"GIF89a" + struct.pack("<HH", 3, 4) + b"\0\0\0;", "image/gif"),
        ("misnamed.txt", b"\xff\xd8\xff\xe0\0\x04AB\xff\xc0\0\x0b\x08\0\x04\0\x03\x01\x01\x11\0", "image/jpeg"),
        ("a.webp", b"RIFF\0\0\0\0WEBPVP8X\n\0\0\0\0\0\0\0\x02\0\0\x03\0\0", "image/webp"),
        ("b.webp", b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x03\0\x04\0", "image/webp"),
    ],
)
async def test_pictures_come_as_pictures(harness: ToolHarness, name: str, data: bytes, kind: str) -> None:
    (harness.root / name).write_bytes(data)
    output = await harness("read_file", path=name)
    assert [(i.media_type, base64.b64decode(i.data)) for i in output.images] == [(kind, data)]
    assert "3x4 pixels" in output.text


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (png(9000, 10), "too large.*9000x10"),
        (png(1, 1) + bytes(4_000_000), "too large"),
        (png(1, 1)[:12], "damaged"),
        (b"\xff\xd8\xff\xe0\0\x04", "damaged"),
        (b"\xff\xd8\xff\xff\xff\xff", "damaged"),
    ],
)
async def test_pictures_a_provider_would_refuse_are_refused_here(harness: ToolHarness, data: bytes, word: str) -> None:
    (harness.root / "p.png").write_bytes(data)
    assert re.search(word, await harness.error("read_file", path="p.png"))


async def test_a_notebook_is_shown_as_cells(harness: ToolHarness) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "execution_count": 3, "source": "print(1)", "outputs": [
            {"output_type": "stream", "text": ["1\n"]},
            {"output_type": "display_data", "data": {"image/png": "aaaa", "text/plain": "<Figure>"}},
            {"output_type": "error", "ename": "ValueError", "evalue": "bad"},
        ]},
    ]  # fmt: skip
    (harness.root / "n.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    text = await harness.text("read_file", path="n.ipynb")
    assert text.splitlines()[:2] == ["1\t--- cell 1 (markdown) ---", "2\t# Title"]
    for part in ("cell 2 (code, run 3)", "print(1)", "[image/png omitted]", "ValueError: bad"):
        assert part in text
    (harness.root / "broken.ipynb").write_text('{"cells": [3]}')
    assert await harness.text("read_file", path="broken.ipynb") == '1\t{"cells": [3]}'


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": ["# Título\n", "text"]},
        {"cell_type": "code", "execution_count": 3, "id": "c1", "metadata": {}, "outputs": [
            {"name": "stdout", "output_type": "stream", "text": ["1\n"]}], "source": ["x = 1\n", "print(x)"]},
    ],
    "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
}  # fmt: skip


@pytest.mark.parametrize("indent", [1, 2, None])
async def test_one_cell_of_a_notebook_is_edited_and_the_rest_keeps_its_spelling(
    harness: ToolHarness, indent: int | None
) -> None:
    path = harness.root / "n.ipynb"
    path.write_text(json.dumps(NOTEBOOK, indent=indent, ensure_ascii=False) + "\n")
    await harness.text("read_file", path="n.ipynb")
    edits = [
        {"cell": 2, "old": "x = 1\n", "new": "x = 2\ny = 3\n"},
        {"cell": 1, "old": "text", "new": "words"},
        {"cell": 3, "old": "", "new": "print(y)\n"},
    ]
    said = await harness.text("edit_file", path="n.ipynb", edits=edits)
    assert "the outputs of cell 2 were of the old text and are gone" in said
    assert "cell 3 is new" in said
    text = path.read_text()
    written = json.loads(text)
    assert json.dumps(written, indent=indent, ensure_ascii=False) + "\n" == text
    first, second, third = written["cells"]
    assert first == {**NOTEBOOK["cells"][0], "source": ["# Título\n", "words"]}  # type: ignore[index]
    assert (second["source"], second["outputs"], second["execution_count"]) == (
        ["x = 2\n", "y = 3\n", "print(x)"], [], None,
    )  # fmt: skip
    assert (third["cell_type"], third["source"]) == ("code", ["print(y)\n"])
    assert third["id"] not in ("", "m1", "c1")
    assert "\ty = 3" in await harness.text("read_file", path="n.ipynb")


@pytest.mark.parametrize(
    ("name", "text", "cell", "words"),
    [
        ("a.ipynb", json.dumps(NOTEBOOK), 4, "There is no cell 4: the notebook has 2."),
        ("a.ipynb", json.dumps(NOTEBOOK), -1, "There is no cell -1"),
        ("a.ipynb", json.dumps(NOTEBOOK), 1, "old is not found"),
        ("a.ipynb", json.dumps(NOTEBOOK, separators=(",", ":")), 1, "not written as Jupyter writes it"),
        ("a.py", "print(1)\n", 1, "This is not a notebook"),
    ],
)
async def test_a_cell_that_cannot_be_edited_is_said_and_nothing_changes(
    harness: ToolHarness, name: str, text: str, cell: int, words: str
) -> None:
    (harness.root / name).write_text(text)
    await harness.text("read_file", path=name)
    error = await harness.error("edit_file", path=name, edits=[{"cell": cell, "old": "nothing of this", "new": "b"}])
    assert words in error
    assert (harness.root / name).read_text() == text


# ---- listing ---------------------------------------------------------------------


async def test_a_folder_is_listed_folders_first(harness: ToolHarness) -> None:
    for name in ("src", ".git"):
        (harness.root / name).mkdir()
    (harness.root / "z.txt").write_text("x" * 2048)
    (harness.root / "a\x1b[31m.txt").write_text("")
    (harness.root / "link").symlink_to("z.txt")
    os.mkfifo(harness.root / "pipe")
    output = await harness("list_dir")
    assert output.text.splitlines() == [
        ".git/",
        "src/",
        "'a\\x1b[31m.txt'\t0 B",
        "link -> z.txt",
        "pipe (device, pipe or socket)",
        "z.txt\t2.0 KB",
    ]
    assert isinstance(output.display, TableDisplay)
    assert await harness.text("list_dir", path="src") == "(src is empty)"
    assert "z.txt" in await harness.error("list_dir", path="z.txt")
    for number in range(510):
        (harness.root / f"src/{number:03}").touch()
    assert (await harness.text("list_dir", path="src")).endswith("\n[10 more; use glob with a pattern]")


# ---- writing ---------------------------------------------------------------------


async def test_a_new_file_is_written_with_its_folders_and_can_be_edited_at_once(harness: ToolHarness) -> None:
    output = await harness("write_file", path="a/b.txt", content="one\ntwo\n")
    assert (harness.root / "a/b.txt").read_text() == "one\ntwo\n"
    assert output.text == "Created a/b.txt: +2 -0 lines."
    (change,) = output.facts.files
    assert (change.path, change.added, change.removed) == ("a/b.txt", 2, 0)
    assert change.sha256 == hashlib.sha256(b"one\ntwo\n").hexdigest()
    await harness("edit_file", path="a/b.txt", edits=[{"old": "two", "new": "2"}])
    assert (harness.root / "a/b.txt").read_text() == "one\n2\n"


async def test_what_was_not_read_or_changed_since_is_not_overwritten(harness: ToolHarness) -> None:
    path = harness.root / "f"
    path.write_text("theirs\n")
    assert "not read" in await harness.error("write_file", path="f", content="mine")
    assert "have not read" in await refused(harness, ("theirs", "mine"))
    await harness("read_file", path="f")
    path.write_text("newer\n")
    assert "changed since" in await harness.error("write_file", path="f", content="mine")
    assert "changed since" in await refused(harness, ("theirs", "mine"))
    assert path.read_text() == "newer\n"
    await harness("read_file", path="f")
    output = await harness("write_file", path="f", content="mine\n")
    assert output.text == "Wrote f: +1 -1 lines."
    assert isinstance(output.display, DiffDisplay)
    assert output.display.diff == "@@ -1 +1 @@\n-newer\n+mine\n"


async def test_another_agents_change_is_a_conflict_and_nothing_is_lost(harness: ToolHarness) -> None:
    await given(harness, "a\nb\n")
    other = ToolHarness(harness.root, *tools(), agent="a.1", workspace=harness.workspace)
    await other("read_file", path="f")
    await edit(harness, ("a", "A"))
    assert "changed since" in await refused(other, ("b", "B"))
    await other("read_file", path="f")
    await edit(other, ("b", "B"))
    assert (harness.root / "f").read_text() == "A\nB\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nold\r\nb\r\n", b"a\r\nnew\r\nb\r\n"),
        (b"\xef\xbb\xbfold\n", b"\xef\xbb\xbfnew\n"),
        ("ä old".encode("utf-16"), "ä new".encode("utf-16")),
        ("gr\xf6\xdfe old".encode("latin-1"), "gr\xf6\xdfe new".encode("latin-1")),
        (b"old no newline", b"new no newline"),
        (b"a\nold\r\nb\n", b"a\nnew\r\nb\n"),
        (b"\x0cold\x0b\xc2\x85\n", b"\x0cnew\x0b\xc2\x85\n"),
    ],
)
async def test_an_edit_keeps_every_other_byte(harness: ToolHarness, before: bytes, after: bytes) -> None:
    path = await given(harness, before)
    await edit(harness, ("old", "new"))
    assert path.read_bytes() == after


async def test_a_whole_line_can_be_deleted_and_an_empty_file_filled(harness: ToolHarness) -> None:
    path = await given(harness, b"a\r\nb\r\nc\r\n")
    await edit(harness, ("b\n", ""))
    assert path.read_bytes() == b"a\r\nc\r\n"
    await given(harness, "")
    await edit(harness, ("", "x"))
    assert path.read_text() == "x"


async def test_a_rewritten_file_keeps_line_ends_mark_and_mode(harness: ToolHarness) -> None:
    path = await given(harness, b"\xef\xbb\xbfa\r\nb\r\n", "f.sh")
    path.chmod(0o755)
    await harness("write_file", path="f.sh", content="c\nd")
    assert path.read_bytes() == b"\xef\xbb\xbfc\r\nd"
    assert path.stat().st_mode & 0o777 == 0o755


async def test_characters_the_encoding_lacks_are_refused(harness: ToolHarness) -> None:
    await given(harness, b"caf\xe9\n")
    assert "U+4E2D" in await refused(harness, ("caf", "中"))
    assert "U+D800" in await harness.error("write_file", path="new", content="\ud800")
    assert sorted(os.listdir(harness.root)) == ["f"]


async def test_folders_links_and_the_outside_are_not_written(harness: ToolHarness) -> None:
    (harness.root / "d").mkdir()
    (harness.root / "out").symlink_to("/never-made-by-friday")
    for path in ("d", "out", "../x", "/etc/x", "new/"):
        await harness.error("write_file", path=path, content="x")
    assert not Path("/never-made-by-friday").exists()  # noqa: ASYNC240


@pytest.mark.parametrize(
    "line",
    [
        "... rest unchanged ...",
        "// ... existing code ...",
        "    # ... rest of the file unchanged",
        "# rest of code here...",
        "<!-- ... rest of page ... -->",
        "/* ... other methods ... */",
        "… remaining lines unchanged …",
        "// rest unchanged",
    ],
)
async def test_placeholders_are_refused(harness: ToolHarness, line: str) -> None:
    await given(harness, "a\nb\n")
    assert "placeholder for omitted text" in await harness.error("write_file", path="f", content=f"a\n{line}\n")
    assert "placeholder for omitted text" in await refused(harness, ("a", f"A\n{line}"))
    assert (harness.root / "f").read_text() == "a\nb\n"


@pytest.mark.parametrize(
    "line",
    [
        "print(...)",
        "def f() -> None: ...",
        "# the rest of the list is sorted",
        "x = a[..., 0]  # other axes",
        "...",
        "args = first, *rest",
        "# see the existing code for more",
    ],
)
async def test_ordinary_lines_with_dots_and_placeholders_of_the_file_are_not(harness: ToolHarness, line: str) -> None:
    await given(harness, "# ... rest unchanged ...\nz\n")
    await edit(harness, ("z", line))
    assert (harness.root / "f").read_text() == f"# ... rest unchanged ...\n{line}\n"
    await harness("write_file", path="f", content="# ... rest unchanged ...\nb\n")


# ---- editing ---------------------------------------------------------------------


async def test_several_edits_are_made_in_order_all_or_none(harness: ToolHarness) -> None:
    path = await given(harness, "one\ntwo\n")
    error = await refused(harness, ("one", "1"), ("three", "3"))
    assert "edit 2 of 2" in error
    assert "Nothing was changed" in error
    assert path.read_text() == "one\ntwo\n"
    output = await edit(harness, ("one", "1"), ("1\ntwo", "12"))
    assert path.read_text() == "12\n"
    assert output.text == "Edited f: +1 -2 lines."


async def test_an_ambiguous_text_is_refused_with_its_lines_unless_all_are_meant(harness: ToolHarness) -> None:
    await given(harness, "x\ny\nx\nx x\n")
    assert "occurs 4 times, at lines 1, 3, 4, 4" in await refused(harness, ("x", "z"))
    await edit(harness, ("x", "z"), replace_all=True)
    assert (harness.root / "f").read_text() == "z\ny\nz\nz z\n"


async def test_a_text_that_is_not_there_is_answered_with_the_nearest(harness: ToolHarness) -> None:
    lines = [f"line {n}" for n in range(50)]
    lines[30:32] = ["def total(prices):", "    return sum(price for price in prices)"]
    await given(harness, "\n".join(lines))
    error = await refused(harness, ("def total(prices):\n    return sum(prices)", "x"))
    assert "31\tdef total(prices):\n32\t    return sum(price for price in prices)" in error
    assert "has no similar text" in await refused(harness, ("zebra", "x"))


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("if a:\n    b  \n    c\n", "    b\n    c", "    d", "if a:\n    d\n"),
        ("if a:\n    b\n    c\n", "b\nc\n", "b\nif d:\n    e\n", "if a:\n    b\n    if d:\n        e\n"),
        ("if a:\n\tb\n\tc\n", "b\nc", "d", "if a:\n\td\n"),
        ("b\nc\n", "  b\n  c", "  b\n    d", "b\n  d\n"),
        ("a\r\n  b \r\nc\r\n", "  b\nc", "  d\n  e\nc", "a\r\n  d\r\n  e\r\nc\r\n"),
    ],
)
async def test_other_blanks_match_where_there_is_one_place_and_it_is_said(
    harness: ToolHarness, text: str, old: str, new: str, after: str
) -> None:
    await given(harness, text.encode())
    output = await edit(harness, (old, new))
    assert (harness.root / "f").read_bytes() == after.encode()
    assert "ignoring indentation" in output.text


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("  b \nx\n    b \n", "b\t\n"),  # in two places
        ("a\n    b\n  c\n", "b\nc"),  # not the same shift on all lines
        ("“quoted”\n", '"quoted"'),
        ("naïve\n", "naive"),
        ("a\u00a0b\n", "a b"),
        ("\n\n\n", "  "),
    ],
)
async def test_nothing_else_is_taken_for_the_same(harness: ToolHarness, text: str, old: str) -> None:
    await given(harness, text)
    assert "not found" in await refused(harness, (old, "x"))
    assert (harness.root / "f").read_text() == text


async def test_edits_that_say_nothing_are_refused(harness: ToolHarness) -> None:
    await given(harness, "a\n")
    assert "identical" in await refused(harness, ("a", "a"))
    assert "empty" in await refused(harness, ("", "x"))
    assert "change nothing" in await refused(harness, ("a", "b"), ("b", "a"))


def test_a_difference_counts_lines_and_keeps_their_places() -> None:
    before = "".join(f"{n}\n" for n in range(100))
    diff, added, removed = difference(before, before.replace("50\n", "fifty\nfifty-one\n"))
    assert (added, removed) == (2, 1)
    assert diff.startswith("@@ -48,7 +48,8 @@\n 47\n 48\n 49\n-50\n+fifty\n")
    assert difference("a", "a\n") == ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", 1, 1)
    assert difference("", "a\n") == ("@@ -0,0 +1 @@\n+a\n", 1, 0)
    assert difference("a\n", "a\n") == ("", 0, 0)
    before, after = ("".join(f"{word} {n}\n" for n in range(5000)) for word in ("old", "new"))
    diff, added, removed = difference(before, after)
    assert (added, removed) == (5000, 5000)
    assert diff.count("\n") < 500
    assert "more lines of this diff" in diff


async def test_rules_see_the_file_behind_a_link(harness: ToolHarness) -> None:
    (harness.root / "real").mkdir()
    (harness.root / "alias").symlink_to("real")
    edits = {"edits": [{"old": "", "new": ""}]}
    for name, more in ("read_file", {}), ("write_file", {"content": ""}), ("edit_file", edits):
        tool = harness.tools[name]
        args = tool.parse({"path": "alias/f", **more})
        assert tool.used(args, harness.workspace)[0] == ("real/f", "alias/f")
