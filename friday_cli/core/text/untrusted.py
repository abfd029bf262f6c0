"""Marks untrusted text as data before a model reads it."""

from __future__ import annotations

import re

from .lazy_regex import pattern
from .sanitize import sanitize

_MARKUP = (
    "system|assistant|human|untrusted|invoke|start_of_turn|end_of_turn|antml:\\w+|"
    "system[-_ ]?(?:reminder|prompt|message|instructions?)|"
    "(?:tool|function)[-_](?:results?|use|calls?|response|outputs?)"
)
_WORDS = "user|developer|tool|function|instructions?|prompt"
"""Roles that are types and components when capitalised: `Vec<User>` is unchanged."""
_TAG = pattern(rf"<(?=[\s/]{{0,20}}(?:(?i:{_MARKUP})|{_WORDS}|{_WORDS.upper()})\b)([\s/]*+[^<>\n]{{0,200}})(>?)")
_TOKEN = pattern(r"<\|([^<>|\n]{0,80})\|>")
_LLAMA = pattern(r"<<(/?SYS)>>|\[(/?INST)\]|<(/?s)>")
_TURN = pattern(r"^([ \t]*(?:Human|Assistant|System))[ \t]*:", re.M)
_NOTE = pattern(r"\[(?=\s{0,9}Note\s{1,9}of\s{1,9}the\s{1,9}harness\b)", re.I)
_SELECTOR = pattern(r"(?<![^\x00-\x7f])[\ufe0e\ufe0f]+(?!\u20e3)")
"""Variation selectors that do not follow a pictograph: they are invisible there."""


def visible(text: str) -> str:
    """`text` without escape sequences, control characters, bidi overrides and invisible characters."""
    return _SELECTOR().sub("", sanitize(text))


def neutralize(text: str) -> str:
    """`text` in which nothing looks like a role, a tool result, a note of the harness or a control token of a model.
    Angle brackets of such tags become `‹ ›`, so that the text stays readable."""
    text = _TAG().sub(lambda m: f"‹{m[1]}{'›' if m[2] else ''}", visible(text))
    text = _TOKEN().sub(r"‹|\1|›", text)
    text = _LLAMA().sub(lambda m: f"‹{m[1] or m[2] or m[3]}›", text)
    return _NOTE().sub("‹", _TURN().sub(r"\1：", text))


def neutralize_line(text: str) -> str:
    """`neutralize` for one line: line ends are escaped, so that a name cannot look like further lines of the harness."""
    return neutralize(text).replace("\n", "\\n")


def wrap_untrusted(text: str, *, source: str) -> str:
    """`text` between tags that name its source and mark it as data. The text cannot close the tags."""
    origin = re.sub(r'["<>\n]', "", neutralize(source))
    return f'<untrusted source="{origin}">\n{neutralize(text)}\n</untrusted>'
