"""Splits a document into passages and ranks them for a query."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from friday_cli.core.text.lazy_regex import pattern

from .read import Document

_PASSAGE, _MAX_PASSAGE = 700, 1_200
"""Characters of a typical passage, and of the longest one."""
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = pattern(rf"[{_CJK}]|[^\W_{_CJK}]+")


class Passage(msgspec.Struct, frozen=True):
    """Exact text of a document, and its position (`place`)."""

    place: str
    text: str


def passages(document: Document) -> list[Passage]:
    """Split the document into passages of about a paragraph, at blank lines and headings if possible."""
    found = []
    for number, text in document.pages.items():
        for first, last, heading, piece in _pieces(text, titled=document.kind == "Markdown"):
            lines = f"line {first}" if first == last else f"lines {first}-{last}"
            under = f', under "{heading}"' if heading else ""
            found.append(Passage(f"page {number}" if number else lines + under, piece))
    return found


def _pieces(text: str, *, titled: bool) -> Iterator[tuple[int, int, str, str]]:
    """First line, last line, heading above and text of each passage; `titled`: `#` starts a heading."""
    pending: list[tuple[int, str]] = []
    heading, size, code = "", 0, False
    for at, line in enumerate(text.split("\n"), 1):
        code = code != line.lstrip().startswith(("```", "~~~"))
        title = titled and not code and re.match(r"#{1,6}\s", line) is not None
        for part in _split_line(line):
            full = size >= _PASSAGE or size + len(part) > _MAX_PASSAGE or (not part.strip() and size >= _PASSAGE // 4)
            if pending and (title or full):
                yield _joined(pending, heading)
                pending, size = [], 0
            if title:
                heading = line.strip()[:100]
            if pending or part.strip():
                pending.append((at, part))
                size += len(part) + 1
    if pending:
        yield _joined(pending, heading)


def _joined(pending: list[tuple[int, str]], heading: str) -> tuple[int, int, str, str]:
    while not pending[-1][1].strip() and len(pending) > 1:
        pending.pop()
    text, before = pending[0][1], pending[0][0]
    for at, part in pending[1:]:
        text += part if at == before else f"\n{part}"
        before = at
    return pending[0][0], before, heading, text


def _split_line(line: str) -> Iterable[str]:
    """Split a line into parts of at most _MAX_PASSAGE characters, after blanks if possible."""
    start = 0
    while len(line) - start > _MAX_PASSAGE:
        at = line.rfind(" ", start + _PASSAGE, start + _MAX_PASSAGE) + 1 or start + _MAX_PASSAGE
        yield line[start:at]
        start = at
    yield line[start:]


def words(text: str) -> list[str]:
    """The normalized words of a text: case-folded, stemmed, hyphenated line breaks joined."""
    text = unicodedata.normalize("NFKC", text).replace("\xad", "")
    return [_stem(word) for word in _WORD().findall(re.sub(r"(?<=\w)-\n(?=[^\W\d_])", "", text).casefold())]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for ending, least in (("ing", 7), ("ed", 6), ("e", 4)):
        if len(word) >= least and word.endswith(ending):
            return word[: -len(ending)]
    return word


_STOP = frozenset(
    words(
        "a an and are as at be by did do does for from has have how in is it its of on or that the this to was were what "
        "when where which who why will with"
    )
)
"""Stop words."""


def ranked(pieces: Sequence[Passage], query: str) -> list[Passage]:
    """The passages that match `query`, best first: BM25 times the share of matched words; quoted phrases count most."""
    phrases = [" ".join(words(phrase)) for phrase in re.findall(r'["“]([^"“”]+)["”]', query)]
    terms = set(words(query))
    terms = terms - _STOP or terms
    counts, lengths, bonus = [], [], []
    for piece in pieces:
        tokens = words(piece.text)
        counts.append(Counter(token for token in tokens if token in terms))
        lengths.append(len(tokens))
        joined = f" {' '.join(tokens)} " if phrases else ""
        bonus.append(sum(20.0 for phrase in phrases if phrase and f" {phrase} " in joined))
    document_frequency = Counter(term for count in counts for term in count)
    average = sum(lengths) / (len(lengths) or 1) or 1.0
    scores = {}
    for index, count in enumerate(counts):
        if not count:
            continue
        score = 0.0
        for term, times in count.items():
            rarity = math.log(1 + (len(pieces) - document_frequency[term] + 0.5) / (document_frequency[term] + 0.5))
            score += rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * lengths[index] / average))
        scores[index] = score * len(count) / len(terms) + bonus[index]
    best, seen = [], set()
    for index in sorted(scores, key=lambda i: (-scores[i], i)):
        text = " ".join(pieces[index].text.split())
        if text not in seen:  # a header repeated on every page counts once
            seen.add(text)
            best.append(pieces[index])
    return best
