"""Evaluates the words of a shell command, as far as their values are known before it runs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from friday_cli.core.text.lazy_regex import pattern

from .readonly_programs import word_set
from .syntax import Unparseable, children, raw

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_VALUES = 32
"""Values a word may have; with more it counts as unknown."""
MAX_TEXT = 20_000
"""Characters of all values of a word: `x=$x$x` doubles them."""
_UNQUOTED = pattern(r"(?:[^\s;&|<>()$`\"'\\]|\\[^\n])*")
_GLOB = pattern(r"[*?\[]")
_BRACES = pattern(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_TRIMMED_VARIABLE = pattern(r"\$\{[A-Za-z_]\w*(?:%%?|##?|:-)[^{}$`\"'\\]*\}")
_SAFE = pattern(r"[\w@%+=:,./-]+")
NOT_SECRET = word_set(
    "USER LOGNAME SHELL PATH LANG LC_ALL TERM HOSTNAME TMPDIR EUID UID PPID RANDOM SECONDS LINENO BASH_VERSION OSTYPE"
    " HOSTTYPE COLUMNS LINES EDITOR PAGER VIRTUAL_ENV CI GOPATH GOROOT JAVA_HOME NODE_ENV OLDPWD XDG_CONFIG_HOME"
    " XDG_DATA_HOME XDG_CACHE_HOME CONDA_PREFIX PYTHONPATH"
)
"""Variables that are not secrets; any other may hold a key."""


class Word(msgspec.Struct, frozen=True):
    """A word with all its possible texts; `texts` is empty if they are unknown, and `why` tells the reason. `glob`: an
    unquoted pattern, which the shell expands to file names. `foreign`: the name of a variable in it that may hold a
    secret. `loose`: file names from an unquoted variable, which the shell splits at blanks."""

    texts: tuple[str, ...]
    glob: bool = False
    why: str = ""
    foreign: str = ""
    loose: bool = False

    @property
    def known(self) -> bool:
        return bool(self.texts)

    @property
    def text(self) -> str:
        """Its only text, or "" if there are several or none."""
        return self.texts[0] if len(self.texts) == 1 else ""


def unknown(why: str, foreign: str = "") -> Word:
    """A word whose text is not known."""
    return Word((), why=why, foreign=foreign)


class WordReader:
    """Evaluates words. `variables`: known values; `home` and `directory`: the values of `~` and `$PWD`. `substitutions`
    collects the command substitutions in a word, for the caller to analyze."""

    def __init__(self, source: bytes, variables: dict[str, Word], home: str) -> None:
        self.source = source
        self.variables = variables
        self.home = home
        self.directory = ""
        self.substitutions: list[Node] = []

    def word(self, node: Node, *, quoted: bool = False) -> Word:
        """Evaluate a node. Raises Unparseable for syntax that needs approval."""
        kind = node.type
        if kind in ("word", "number", "variable_name", "special_variable_name", "extglob_pattern", "regex"):
            return self._unquoted(node)
        if kind == "raw_string":
            text = raw(node, self.source)
            if len(text) < 2 or text[0] != "'" or text[-1] != "'" or "'" in text[1:-1]:
                raise Unparseable("a quoted string cannot be parsed")
            return Word((text[1:-1],))
        if kind == "string":
            return self._string(node)
        if kind == "concatenation":
            return self._concatenation(node)
        if kind in ("simple_expansion", "expansion"):
            return self._variable(node, quoted=quoted)
        if kind == "command_substitution":
            self.substitutions.append(node)
            return unknown("the output of a command is not known before it runs")
        if kind == "arithmetic_expansion":
            if not re.fullmatch(r"\$\(\([\d\s+*/%()-]*\)\)", raw(node, self.source)):
                raise Unparseable("arithmetic can run commands")
            return unknown("a computed number")
        if kind == "$":
            return Word(("$",))
        messages = {
            "ansi_c_string": "it uses a $'..' string",
            "process_substitution": "it uses process substitution",
            "translated_string": 'it uses a $".." string',
            "brace_expression": "it uses brace expansion",
            "array": "it uses an array",
        }
        raise Unparseable(messages.get(kind, f"it uses {kind.replace('_', ' ')}"))

    def _unquoted(self, node: Node) -> Word:
        if node.child_count:
            children(node, self.source)
        text = raw(node, self.source)
        if not _UNQUOTED().fullmatch(text):
            raise Unparseable("a word cannot be parsed")
        if _BRACES().search(text):
            raise Unparseable("it uses brace expansion")
        glob = _GLOB().search(re.sub(r"\\.", "", text)) is not None
        plain = re.sub(r"\\(.)", r"\1", text)
        if glob and "\\" in text:
            return unknown("a pattern with escapes")
        if text.startswith("~"):
            user, _, rest = text.partition("/")
            if user != "~" or not self.home:
                return unknown("the home folder of another user")
            plain = f"{self.home}/{rest}" if rest or text.endswith("/") else self.home
        return Word((plain,), glob=glob)

    def _string(self, node: Node) -> Word:
        """A string in double quotes; the text between its expansions is literal."""
        parts: list[Word] = []
        at = node.start_byte + 1
        if self.source[node.start_byte : at] != b'"' or self.source[node.end_byte - 1 : node.end_byte] != b'"':
            raise Unparseable("a quoted string cannot be parsed")
        for child in node.children:
            if child.type in ('"', "string_content"):
                continue
            if child.type == "$":
                continue
            parts.append(self._literal(self.source[at : child.start_byte].decode()))
            parts.append(self.word(child, quoted=True))
            at = child.end_byte
        parts.append(self._literal(self.source[at : node.end_byte - 1].decode()))
        return _concatenated(parts)

    @staticmethod
    def _literal(text: str) -> Word:
        bare = re.sub(r"\\.", "", text, flags=re.S)
        if '"' in bare or "`" in bare or re.search(r"\$[({\w@*#?$!-]", bare) or bare.endswith("\\"):
            raise Unparseable("a quoted string cannot be parsed")
        return Word((re.sub(r"\\([$`\"\\])", r"\1", text),))

    def _concatenation(self, node: Node) -> Word:
        text = raw(node, self.source)
        if text != "{}" and _BRACES().search(re.sub(r"'[^']*'|\"[^\"]*\"|\\.", "_", text)):
            raise Unparseable("it uses brace expansion")
        parts, end, quoted = [], node.start_byte, False
        for child in node.children:
            if child.start_byte != end:
                raise Unparseable("a word cannot be parsed")
            end = child.end_byte
            if child.type == "$" and end != node.end_byte:
                raise Unparseable("a $ is in an unexpected position")
            parts.append(self.word(child))
            if child.type in ("string", "raw_string"):
                quoted = quoted or any(_GLOB().search(text) for text in parts[-1].texts)
        joined = _concatenated(parts)
        return unknown("a partly quoted pattern") if joined.glob and quoted else joined

    def _variable(self, node: Node, *, quoted: bool) -> Word:
        text = raw(node, self.source)
        if match := re.fullmatch(r"\$\{?([A-Za-z_]\w*)\}?", text):
            return self._value(match[1], quoted=quoted)
        if re.fullmatch(r"\$[?#$!]|\$\{#[A-Za-z_]\w*\}", text):
            return unknown("a number")
        if match := re.fullmatch(r"\$\{?([0-9@*])\}?", text):
            return unknown(f"the value of ${match[1]} is not known")
        if _TRIMMED_VARIABLE().fullmatch(text):
            name = re.match(r"\$\{(\w+)", text)
            word = self._value(name[1] if name else "", quoted=True)
            return unknown(f"the value of {text} is not known", word.foreign)
        raise Unparseable(f"it uses {text[:40]}")

    def _value(self, name: str, *, quoted: bool) -> Word:
        if (word := self.variables.get(name)) is not None:
            splits = any(not t or re.search(r"\s", t) for t in word.texts)
            if not quoted and word.glob:
                return msgspec.structs.replace(word, loose=True)
            pattern = any(map(_GLOB().search, word.texts))
            if quoted or (word.known and not splits and not pattern):
                return word
            if pattern:  # unquoted, the shell expands it to file names
                unknown_word = unknown(f"the value of ${name} is not known", name)
                return unknown_word if splits else msgspec.structs.replace(word, glob=True, loose=True)
            return unknown(f"the value of ${name} is not known", word.foreign)
        if name == "HOME" and self.home and not re.search(r"[\s*?\[]", self.home):
            return Word((self.home,))
        if name == "PWD" and self.directory and not re.search(r"[\s*?\[]", self.directory):
            return Word((self.directory,))
        harmless = name in NOT_SECRET or name in ("HOME", "PWD")
        return unknown(f"the value of ${name} is not known", "" if harmless else name)


def _concatenated(parts: Iterable[Word]) -> Word:
    """The word that results from concatenating `parts`."""
    parts = tuple(parts)
    foreign = next((part.foreign for part in parts if part.foreign), "")
    if first := next((part for part in parts if not part.known), None):
        return unknown(first.why, foreign)
    texts = tuple(itertools.islice(("".join(t) for t in itertools.product(*(p.texts for p in parts))), MAX_VALUES + 1))
    if len(texts) > MAX_VALUES or sum(map(len, texts)) > MAX_TEXT:
        return unknown("a word with too many values", foreign)
    return Word(
        tuple(dict.fromkeys(texts)),
        glob=any(part.glob for part in parts),
        foreign=foreign,
        loose=any(part.loose for part in parts),
    )


def quote_words(texts: Iterable[str]) -> str:
    """Words in one line, quoted where needed."""
    quote = "'\"'\"'"
    return " ".join(text if _SAFE().fullmatch(text) else f"'{text.replace(chr(39), quote)}'" for text in texts)
