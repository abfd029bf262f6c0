"""Sanitizes untrusted strings before they reach a person, a terminal or a file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from .known_keys import mask_keys
from .lazy_regex import pattern

_STRING = pattern(
    # OSC, DCS, SOS, PM, APC with their payload; one without an end loses its introducer only, so it hides nothing
    "(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]*+(?:\x07|\x1b\\\\|\x9c)"
    # CSI with parameters and final byte
    "|(?:\x1b\\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    # the other escapes: character sets, reset, cursor save
    "|\x1b[ -/]*+[0-Z\\\\`-~]"
)
_JOINERS = "\u200c\u200d"
_SILENT = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"  # controls that are no white space
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\u070f\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_DROP = pattern(f"[{_SILENT}]+")
# A joiner is part of the spelling after letters of scripts that join and after pictographs; elsewhere it only hides.
_JOINING = "\u0600-\u1fff\u2600-\u2bff\ufb50-\ufe0f\ufe70-\ufeff\U0001f000-\U0001faff"
_JOINER = pattern(f"(?<![{_JOINING}])[{_JOINERS}]+|(?<=[{_JOINERS}])[{_JOINERS}]+")
_LONE = pattern("[\ud800-\udfff]")
_HIDDEN = pattern(f"[\r\v\f\x85\u2028\u2029{_JOINERS}\ud800-\udfff{_SILENT}]")


def sanitize(text: str, *, keep: str = "\n\t") -> str:
    """`text` without anything that controls a terminal, reorders text or is invisible.

    Escape sequences, control characters, bidi and invisible characters are removed. A carriage return becomes a line
    end, so that the text before it stays visible. Lone surrogates become U+FFFD. White space that is not in `keep`
    ("\\n", "\\t") becomes a blank. Keys that this process knows are masked.
    """
    text = mask_keys(text)
    if text.isascii() and (text.isprintable() or ("\n" in keep and text.replace("\n", "").isprintable())):
        return text
    text = _LONE().sub("\ufffd", text)
    text = _STRING().sub("", text)
    text = _DROP().sub("", text)
    if not text.isascii():
        text = _JOINER().sub("", text)
    for end in ("\r\n", "\r", "\x85", "\u2028", "\u2029"):
        text = text.replace(end, "\n")
    for blank in "\v\f" + "".join({"\n", "\t"} - set(keep)):
        text = text.replace(blank, " ")
    return mask_keys(text)  # what was removed may have been inside a key, such as the colour of a match


def show_invisible(text: str) -> str:
    """`text` with hidden characters as escapes (`\\x1b`, `\\u202e`), for permission questions.

    Unlike `sanitize` it removes nothing, because a command must be shown completely. Line ends and tabs stay.
    """
    return _HIDDEN().sub(lambda found: escaped(found[0]), text)


def escape_json(text: str) -> str:
    """JSON text in which control characters, bidi and other invisible characters are escaped (`\\u009b`), because a
    terminal obeys some of them. It means the same JSON."""
    if text.replace("\n", "").isprintable():
        return text
    return re.sub(r"[^\n -~]", lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def sanitize_line(text: str, limit: int = 80) -> str:
    """`text` as one sanitized line of at most `limit` characters."""
    flat = " ".join(sanitize(text[: limit * 8], keep="").split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def code_block(text: str, language: str = "") -> str:
    """Untrusted `text` as a Markdown code block that it cannot close."""
    text = sanitize(text).rstrip("\n")
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"


def escaped(char: str) -> str:
    """A character as the shortest of `\\x1b`, `\\u202e` and `\\U000e0041`."""
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_PRIVATE_KEY = pattern(
    r"-----BEGIN (?P<pem>[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?)-----[^-]*+(?:-----END (?P=pem)-----)?"
)
_SECRET = pattern(
    r"\beyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]{8,}"
    r"|\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{24,})"
    r"|\b(?:gsk_\w{24,}|xai-[\w-]{24,}|pypi-[\w-]{16,}|dop_v1_\w{24,}|shp(?:at|ca|pa|ss)_\w{24,}|ya29\.[\w-]{16,})"
    r"|\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b|\bSG\.[\w-]{16,64}\.[\w-]{16,}|(?<=hooks\.slack\.com/services/)[\w/]{16,}"
    r"|\bsk-[\w-]{16,}|\bxox[abeoprs]-[\w-]{10,}|\bAIza[\w-]{30,}|\b(?:sk|rk)_(?:live|test)_\w{16,}"
    r"|(?<=://)[^\s/:@]{1,64}:[^\s/@]{1,200}(?=@)"
    r"|(?<=[Bb]earer )[\w.~+/-]{16,}=*"
)
"""Keys and tokens of known forms; none has a line end."""
_HINTS = (
    "eyJ", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "hf_", "gsk_", "xai-", "pypi-", "dop_v1_", "shp",
    "ya29.", "AKIA", "ASIA", "ABIA", "ACCA", "SG.", "slack", "sk-", "xox", "AIza", "k_live_", "k_test_", "://", "earer ",
)  # fmt: skip
"""A line that `_SECRET` matches has one of these."""
_NAMED = pattern(
    r"(?P<name>(?:api[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|secret(?:[_-]?key)?|token|passw(?:or)?d|passphrase)"
    r"[\"']?[ \t]{0,3}[=:][ \t]{0,3}[\"']?)"
    r"(?=[\w+/.~!@#%^*=-]{0,199}?[0-9])(?=[\w+/.~!@#%^*=-]{0,199}?[A-Za-z])(?!\[secret)[\w+/.~!@#%^*=-]{8,}+(?![(\[{])",
    re.I,
)
"""A value after a name for a secret: eight characters or more with a letter and a digit, not a function call."""
LONGEST_KEY = 8_192
"""Characters after the end of a cut text that are read, so that no key is cut."""
_NAMES = ("key", "secret", "token", "passw", "passphrase")
"""A line that `_NAMED` matches has one of these, in small or capital letters."""


def mask(text: str) -> str:
    """`text` with the keys that this process knows, and all keys, tokens and private keys of a known form, replaced by
    `[secret]`."""
    text = mask_keys(text)
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY().sub("[secret]", text)
    if "\n" in text and not (_may_have_secret(text) or _may_name_secret(text)):
        return text
    return "\n".join(map(_masked_row, text.split("\n")))


def _masked_row(row: str) -> str:
    """A line without its end. What it can have is looked for first, which takes a 20th of the time of the patterns."""
    if _may_have_secret(row):
        row = _SECRET().sub("[secret]", row)
    return _NAMED().sub(lambda found: f"{found['name']}[secret]", row) if _may_name_secret(row) else row


def _may_have_secret(text: str) -> bool:
    return any(hint in text for hint in _HINTS)


def _may_name_secret(text: str) -> bool:
    if "=" not in text and ":" not in text:
        return False
    lower = text.lower()
    return any(name in lower for name in _NAMES)


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with `change` applied to each string in it, including the keys of objects. A tuple becomes a list."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {map_strings(name, change): map_strings(item, change) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_strings(item, change) for item in value]
    return value


def masked_line(text: str, limit: int = 80) -> str:
    """`sanitize_line` of a text whose keys are masked before it is cut: half of a key is not recognized as one, nor one that
    invisible characters divide."""
    return sanitize_line(mask(sanitize(text[: limit * 8 + LONGEST_KEY])), limit)


def clean(value: Any) -> Any:
    """`value` with all strings in it, including the keys of objects, sanitized and masked."""
    return map_strings(value, lambda text: mask(sanitize(text)))
