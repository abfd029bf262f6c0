"""Reading tool results: by their place, so that no file name and no line of a file can pass for a figure."""

from __future__ import annotations

import pytest

from friday_cli.llm.providers.demo.reading import Folder, Hit, Tally, counts, folder, found, listing, page, tally

NARROW = "narrow the pattern, path or glob, or raise limit"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No match.", Tally(0)),
        ("a.py", Tally(1)),
        ("a.py\n1:x", Tally(1)),
        (f"a.py\n[1,347 more files; {NARROW}]", Tally(1348)),
        (f"a.py\n1:x\n[4,999 more matching lines; {NARROW}]", Tally(5000)),
        (
            f"a.py\n1:x\n[9 more matching lines; {NARROW}]\n[there is more than can be looked through]",
            Tally(10, exact=False),
        ),
        ("No match.\n[the search took longer than 30 s and was stopped]", Tally(0, exact=False)),
        ("No match.\n[2 matching files that may hold secrets left out]", Tally(0, secret=2)),
        ("[7 more files; narrow]", Tally(1)),  # a file of that name
        ("[7 more files; narrow]\n1:[8 more matching lines; narrow]", Tally(1)),
    ],
)
def test_a_figure(text: str, expected: Tally) -> None:
    assert tally(text) == expected


def test_matching_lines() -> None:
    text = f"a.py\n3:x = 1\n9:[5 more matching lines; {NARROW}]\n\n[b].md\n1:y\n[4 more matching lines; {NARROW}]"
    hits = [Hit("a.py", 3, "x = 1"), Hit("a.py", 9, f"[5 more matching lines; {NARROW}]"), Hit("[b].md", 1, "y")]
    assert found(text).hits == hits
    assert found(text).total == Tally(7)
    assert found("No match.").total == Tally(0)


def test_counts_per_file() -> None:
    assert counts("a.py: 3\nb: 7: 1").rows == [("a.py", 3), ("b: 7", 1)]
    assert counts("a.py: 3").complete
    cut = counts(f"a.py: 3\n[2 more files; {NARROW}]")
    assert (cut.rows, cut.complete) == ([("a.py", 3)], False)
    assert counts("No match.").rows == []


def test_a_listing() -> None:
    assert listing("No file matches * below .").total == Tally(0)
    assert listing("a.py\nb/c.py").paths == ["a.py", "b/c.py"]
    assert listing("a.py\n[2 that may hold secrets left out]").total == Tally(3, secret=2)
    long = "\n".join(f"f{n:03}" for n in range(500))
    assert listing(f"{long}\n[4,500 more; narrow the pattern or the path]").total == Tally(5000)
    assert not listing(f"{long}\n[4,500 more; narrow the pattern or the path]").complete
    assert not listing("a.py\n[the search took longer than 30 s and was stopped]").total.exact


def test_a_file_that_is_named_like_a_remark_is_a_file() -> None:
    forged = listing("A.py\n[4,500 more; narrow the pattern or the path]")
    assert forged.total == Tally(2)
    assert forged.complete


def test_a_folder() -> None:
    text = ".git/\nsrc/\na.py\t1.2 KB\nlink -> a.py\npipe (device, pipe or socket)"
    assert folder(text) == Folder([".git", "src"], ["a.py"], Tally(5), True)
    assert folder("(. is empty)") == Folder([], [], Tally(0), True)
    long = "\n".join(f"f{n:03}\t1 B" for n in range(500))
    assert folder(f"{long}\n[1,200 more; use glob with a pattern]").total == Tally(1700)


def test_a_page() -> None:
    assert page("1\ta\n2\t[lines 1-2 of 9]").total == Tally(2)
    assert page("1\ta\n2\tb\n[lines 1-2 of 1,234; go on with offset=3]").total == Tally(1234)
    assert page("1\ta\n[encoding cp1252; lines 1-1 of 40; go on with offset=2]").lines == ["a"]
    assert page("(a is empty)").lines == []
