"""Signs for terminals without UTF-8, and for the Linux console, whose font lacks most of them: each is one ASCII character wide."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Mapping

_NAME = "friday-signs"
_SIGNS = {
    "+": "╭╮╰╯┌┐└┘├┤┬┴┼╞╡╪✓✔", "-": "─━╌┄═–—⊘", "|": "│┃║¦▏", ">": "▸❯›»→▶", "<": "◂‹«←", "^": "↑▴▲", "v": "▾↓▼",
    "x": "✗✘×", "#": "■█▇▆▅▄▃▂▌▐▁▓▒▔", "*": "●•◆✶", "o": "○◦◌◔◐◑◒◓", ".": "·░", "~": "…≈", "t": "⧖", "@": "⎇",
    "'": "‘’", '"': "“”", "`": "ˋ", " ": "\u00a0\u2002\u2003\u2009",
}  # fmt: skip
TABLE = str.maketrans({sign: ascii_sign for ascii_sign, signs in _SIGNS.items() for sign in signs})


def lacks_utf8(env: Mapping[str, str]) -> bool:
    """Whether the locale names a charset other than UTF-8. Without any locale the terminal is taken for a newer one."""
    name = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    charset = name.partition(".")[2].partition("@")[0].lower().replace("-", "")
    return bool(name) and charset != "utf8"


def is_linux_console(env: Mapping[str, str]) -> bool:
    """Whether the terminal is the console of Linux."""
    return env.get("TERM", "").partition("-")[0] == "linux"


def to_signs(text: str) -> str:
    """The text with ASCII signs; letters stay as they are."""
    return text if text.isascii() else text.translate(TABLE)


def encode_errors() -> str:
    """The name of the error handler that replaces what an encoding lacks by its ASCII sign, or by `?` in each of its cells."""
    codecs.register_error(_NAME, _replace)
    return _NAME


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_sign(character) for character in error.object[error.start : error.end]), error.end


def _sign(character: str) -> str:
    sign = character.translate(TABLE)
    if sign.isascii():
        return sign
    if "\u2800" <= character <= "\u28ff":  # a spinner of dots
        return "*"
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn"):
        return ""
    return "??" if unicodedata.east_asian_width(character) in ("W", "F") else "?"
