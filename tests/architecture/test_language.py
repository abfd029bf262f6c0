"""Texts for people and models are present-day English. Turns of phrase that a native speaker does not write stay out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .test_files import PROJECT, python_files

AVOIDED = {
    r"(?<!there )\b(?:is|was|are|were) no (?!longer|more than|other)[a-z]": "is not a ...",
    r"\b(?:is|was|are) none of\b(?! (?:these|its|the|your|our))": "is not one of",
    r"\bnames no (?!longer)[a-z]": "does not name a ...",
    r"\basked about by\b": "needs approval",
    r"\balso not\b": "not ... either, not even ...",
    r"\b(?:has|have) taken over no\b": "has not taken over a ...",
    r"(?<!instead )\b(?:a|an|no) [a-z]+ of yours\b": "your ...",
    r"\bmade (?:it|them) with the same results\b": "got the same results",
    r"\b(?:exists|applied|added|running|taken over) already\b": "already ...",
    r"\bSee the module\b": "the name of the thing",
    r"\botherwise than\b": "differently from",
}
"""A phrase, and what to write instead."""


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module with their lines, docstrings of classes included; the lines of a page."""
    source = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        yield from enumerate(re.sub(r"`[^`]*`", "x", source).splitlines(), 1)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())


def avoided(found: str) -> list[str]:
    """What to write in place of the phrases in a text."""
    return [better for phrase, better in AVOIDED.items() if re.search(phrase, found, re.I)]


def test_messages_and_pages_are_what_a_native_speaker_writes() -> None:
    pages = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
    wrong = [
        f"{file.relative_to(PROJECT)}:{line}: {text[:100]!r}: write {better}"
        for file in (*python_files("friday_cli"), *pages)
        for line, text in texts(file)
        for better in avoided(text)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "text", ["x is no plugin", "'yollo' is none of ask, edits", "asked about by the rule bash", "it exists already"]
)
def test_such_a_phrase_is_found(text: str) -> None:
    assert avoided(text)


@pytest.mark.parametrize("text", ["x is no longer open", "There is no plugin x", "there is no one to ask"])
def test_plain_english_passes(text: str) -> None:
    assert not avoided(text)
