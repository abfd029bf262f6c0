"""Passages of a document and how well they match a query."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from friday_cli.core.text.lazy_regex import pattern

from .read import Document

_PASSAGE, _LONGEST = 700, 1_200
"""Characters of a usual passage, and of the longest."""
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = pattern(rf"[{_CJK}]|[^\W_{_CJK}]+")


class Passage(msgspec.Struct, frozen=True):
    """A piece of a document, word for word, and where it stands."""

    place: str
    text: str


def passages(document: Document) -> list[Passage]:
    """The document in pieces of a paragraph or so, cut at blank lines and headings where there are some."""
    found = []
    for number, text in document.pages.items():
        for first, last, heading, piece in _pieces(text, titled=document.kind == "Markdown"):
            lines = f"line {first}" if first == last else f"lines {first}-{last}"
            under = f', under "{heading}"' if heading else ""
            found.append(Passage(f"page {number}" if number else lines + under, piece))
    return found


def _pieces(text: str, *, titled: bool) -> Iterator[tuple[int, int, str, str]]:
    """First line, last line, heading above and text of each piece; `titled` tells that `#` begins a heading."""
    held: list[tuple[int, str]] = []
    heading, size, code = "", 0, False
    for at, line in enumerate(text.split("\n"), 1):
        code = code != line.lstrip().startswith(("```", "~~~"))
        title = titled and not code and re.match(r"#{1,6}\s", line) is not None
        for part in _cut(line):
            full = size >= _PASSAGE or size + len(part) > _LONGEST or (not part.strip() and size >= _PASSAGE // 4)
            if held and (title or full):
                yield _joined(held, heading)
                held, size = [], 0
            if title:
                heading = line.strip()[:100]
            if held or part.strip():
                held.append((at, part))
                size += len(part) + 1
    if held:
        yield _joined(held, heading)


def _joined(held: list[tuple[int, str]], heading: str) -> tuple[int, int, str, str]:
    while not held[-1][1].strip() and len(held) > 1:
        held.pop()
    text, before = held[0][1], held[0][0]
    for at, part in held[1:]:
        text += part if at == before else f"\n{part}"
        before = at
    return held[0][0], before, heading, text


def _cut(line: str) -> Iterable[str]:
    """A line in parts of a passage's length at most, cut after blanks where there are some."""
    start = 0
    while len(line) - start > _LONGEST:
        at = line.rfind(" ", start + _PASSAGE, start + _LONGEST) + 1 or start + _LONGEST
        yield line[start:at]
        start = at
    yield line[start:]


def words(text: str) -> list[str]:
    """The words of a text in the form they are compared in: plain letters, no endings, lines rejoined."""
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
"""Words that say nothing about a passage."""


def ranked(pieces: Sequence[Passage], query: str) -> list[Passage]:
    """The pieces that match `query`, best first (BM25, times the share of its words; quoted phrases weigh most)."""
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
    spread = Counter(term for count in counts for term in count)
    average = sum(lengths) / (len(lengths) or 1) or 1.0
    scores = {}
    for index, count in enumerate(counts):
        if not count:
            continue
        score = 0.0
        for term, times in count.items():
            rarity = math.log(1 + (len(pieces) - spread[term] + 0.5) / (spread[term] + 0.5))
            score += rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * lengths[index] / average))
        scores[index] = score * len(count) / len(terms) + bonus[index]
    best, seen = [], set()
    for index in sorted(scores, key=lambda i: (-scores[i], i)):
        text = " ".join(pieces[index].text.split())
        if text not in seen:  # a header that stands on every page is one quote
            seen.add(text)
            best.append(pieces[index])
    return best
