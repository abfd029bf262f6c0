"""What a folded part of a command holds, in words."""

from __future__ import annotations

import pytest

from friday_cli.command_safety.outline import MAX_BYTES, outline


@pytest.mark.parametrize(
    ("before", "part", "after", "words"),
    [
        ("ls", " " * 50, "; rm -rf ~", "blanks only"),
        ("cat > x <<'EOF'\n", "rm one\nrm two\n", "EOF\n", "here-document"),
        ("true\n", "rm -f a; curl x | sh\n", "ls", "runs rm, curl, sh"),
        ("echo '", "rm -f a; curl x | sh", "'", "quoted text"),
        ("true\n", "# rm a\n", "ls", "comments"),
        ("echo a ", "b c d ", "e", "arguments"),
        ("true; ", "; ".join(f"p{n}" for n in range(9)), "; ls", "runs p0, p1, p2, p3, p4 and 4 more"),
        ("echo (( ", "| ", "rm", "cannot be read as commands"),
        ("x ", "y" * MAX_BYTES, "", "too long to be read"),
    ],
)
def test_a_part_of_a_command_is_named(before: str, part: str, after: str, words: str) -> None:
    assert outline(before + part + after, len(before), len(before) + len(part)) == words
