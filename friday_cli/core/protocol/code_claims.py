"""Compares what a result says of errors with what language servers saw of the agent's changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..text.lazy_regex import pattern
from .code_check import CodeCheck
from .format import pluralize

READ = 10_000
"""Characters of a text that are read at its beginning and at its end."""
_SENTENCE_END = pattern(r"(?<=[.!?])\s|\n|(?<=[。！？；])")
_NO_ERRORS = pattern(
    r"\b(?:no|zero|0|without)\s+(?:\w+\s+){0,2}?(?:errors?|problems|issues|diagnostics)\b|\b(?:type[- ]?checks?|compiles?|builds)\b"
    r"|\b(?:type|error)[- ](?:clean|free)\b|\bkeine?\s+(?:\w+\s+)?(?:typ)?fehler\b|\bkompiliert\b|\b(?:sin|ningún)\s+errore?s?\b"
    r"|没有?(?:任何)?(?:类型)?(?:错误|报错)|编译通过",
    re.I,
)
_ERRORS_LEFT = pattern(
    r"\b(?:not|never|cannot|fails?|failed|if|once|should|would|may|might|will|until|before|run|try|please|nicht|wenn|no longer)\b"
    r"|n['’]t\b|未|不|如果",
    re.I,
)
"""Words that make such a sentence another one."""


def false_code_claims(text: str, checks: Sequence[CodeCheck]) -> Iterable[str]:
    """Warn of "no errors left" where a language server sees new ones. Where it does not know, nothing is said."""
    left = [problem for check in checks if not check.unknown for problem in check.new]
    if not left:
        return
    whole = text if len(text) <= 2 * READ else f"{text[:READ]}\n{text[-READ:]}"
    pieces = (piece for piece in _SENTENCE_END().split(whole) if "?" not in piece)
    if any(_NO_ERRORS().search(piece) and not _ERRORS_LEFT().search(piece) for piece in pieces):
        servers = ", ".join(check.server for check in checks if check.new)
        yield f"claims that no errors are left, but {servers} sees {pluralize(len(left), 'new problem')}: {left[0].text}"
