"""Words of a shell command as the program will get them, as far as that can be told beforehand."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from .readonly_programs import word_set
from .syntax import Unparseable, children, raw

if TYPE_CHECKING:
    from tree_sitter import Node

MOST = 32
"""Values a word may have; with more of them it counts as unknown."""
_BARE = re.compile(r"(?:[^\s;&|<>()$`\"'\\]|\\[^\n])*")
_GLOB = re.compile(r"[*?\[]")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_CUT = re.compile(r"\$\{[A-Za-z_]\w*(?:%%?|##?|:-)[^{}$`\"'\\]*\}")
_SAFE = re.compile(r"[\w@%+=:,./-]+")
AMBIENT = word_set(
    """
    USER LOGNAME SHELL PATH LANG LC_ALL TERM HOSTNAME TMPDIR EUID UID PPID RANDOM SECONDS LINENO BASH_VERSION OSTYPE
    HOSTTYPE COLUMNS LINES EDITOR PAGER VIRTUAL_ENV CI GOPATH GOROOT JAVA_HOME NODE_ENV OLDPWD XDG_CONFIG_HOME
    XDG_DATA_HOME XDG_CACHE_HOME CONDA_PREFIX PYTHONPATH
    """
)
"""Variables that everybody may see; any other may hold a key."""


class Word(msgspec.Struct, frozen=True):
    """A word with all the texts that it may have; none when they are unknown, for the reason `why`.

    `glob` marks unquoted patterns, which the shell replaces by file names; `foreign` names a variable whose content may
    be a secret; `loose` are file names from a variable without quotes, which blanks part into several words.
    """

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
        """The one text it has, "" when there are several or none."""
        return self.texts[0] if len(self.texts) == 1 else ""


def unknown(why: str, foreign: str = "") -> Word:
    """A word of which nothing is known."""
    return Word((), why=why, foreign=foreign)


class WordReader:
    """Reads words; `vars` are what is known of variables, `home` and `here` what `~` and `$PWD` stand for.

    `inside` gathers the command substitutions met, so that what they run is judged as well.
    """

    def __init__(self, source: bytes, vars: dict[str, Word], home: str) -> None:
        self.source = source
        self.vars = vars
        self.home = home
        self.here = ""
        self.inside: list[Node] = []

    def word(self, node: Node, *, quoted: bool = False) -> Word:
        """What a node of a command's words stands for. Raises Unclear for what must be put to a person."""
        kind = node.type
        if kind in ("word", "number", "variable_name", "special_variable_name", "extglob_pattern", "regex"):
            return self._bare(node)
        if kind == "raw_string":
            text = raw(node, self.source)
            if len(text) < 2 or text[0] != "'" or text[-1] != "'" or "'" in text[1:-1]:
                raise Unparseable("a quoted text is not understood")
            return Word((text[1:-1],))
        if kind == "string":
            return self._string(node)
        if kind == "concatenation":
            return self._joined(node)
        if kind in ("simple_expansion", "expansion"):
            return self._variable(node, quoted=quoted)
        if kind == "command_substitution":
            self.inside.append(node)
            return unknown("what a command prints is not known beforehand")
        if kind == "arithmetic_expansion":
            if not re.fullmatch(r"\$\(\([\d\s+*/%()-]*\)\)", raw(node, self.source)):
                raise Unparseable("arithmetic can run commands")
            return unknown("a computed number")
        if kind == "$":
            return Word(("$",))
        named = {
            "ansi_c_string": "a text in $'..' hides what it says",
            "process_substitution": "it uses process substitution",
            "translated_string": 'a text in $".." is translated',
            "brace_expression": "it uses brace expansion",
            "array": "it uses an array",
        }
        raise Unparseable(named.get(kind, f"it uses {kind.replace('_', ' ')}"))

    def _bare(self, node: Node) -> Word:
        if node.child_count:
            children(node, self.source)
        text = raw(node, self.source)
        if not _BARE.fullmatch(text):
            raise Unparseable("a word is not understood")
        if _BRACES.search(text):
            raise Unparseable("it uses brace expansion")
        glob = _GLOB.search(re.sub(r"\\.", "", text)) is not None
        plain = re.sub(r"\\(.)", r"\1", text)
        if glob and "\\" in text:
            return unknown("a pattern with escapes")
        if text.startswith("~"):
            user, _, rest = text.partition("/")
            if user != "~" or not self.home:
                return unknown("the home folder of somebody else")
            plain = f"{self.home}/{rest}" if rest or text.endswith("/") else self.home
        return Word((plain,), glob=glob)

    def _string(self, node: Node) -> Word:
        """A text in double quotes: what stands between the expansions is taken as it is."""
        parts: list[Word] = []
        at = node.start_byte + 1
        if self.source[node.start_byte : at] != b'"' or self.source[node.end_byte - 1 : node.end_byte] != b'"':
            raise Unparseable("a quoted text is not understood")
        for child in node.children:
            if child.type in ('"', "string_content"):
                continue
            if child.type == "$":
                continue
            parts.append(self._literal(self.source[at : child.start_byte].decode()))
            parts.append(self.word(child, quoted=True))
            at = child.end_byte
        parts.append(self._literal(self.source[at : node.end_byte - 1].decode()))
        return _product(parts)

    @staticmethod
    def _literal(text: str) -> Word:
        bare = re.sub(r"\\.", "", text, flags=re.S)
        if '"' in bare or "`" in bare or re.search(r"\$[({\w@*#?$!-]", bare) or bare.endswith("\\"):
            raise Unparseable("a quoted text is not understood")
        return Word((re.sub(r"\\([$`\"\\])", r"\1", text),))

    def _joined(self, node: Node) -> Word:
        text = raw(node, self.source)
        if text != "{}" and _BRACES.search(re.sub(r"'[^']*'|\"[^\"]*\"|\\.", "_", text)):
            raise Unparseable("it uses brace expansion")
        parts, end, quoted = [], node.start_byte, False
        for child in node.children:
            if child.start_byte != end:
                raise Unparseable("a word is not understood")
            end = child.end_byte
            if child.type == "$" and end != node.end_byte:
                raise Unparseable("a $ stands where it has no meaning")
            parts.append(self.word(child))
            if child.type in ("string", "raw_string"):
                quoted = quoted or any(_GLOB.search(text) for text in parts[-1].texts)
        joined = _product(parts)
        return unknown("a pattern that is quoted in part") if joined.glob and quoted else joined

    def _variable(self, node: Node, *, quoted: bool) -> Word:
        text = raw(node, self.source)
        if match := re.fullmatch(r"\$\{?([A-Za-z_]\w*)\}?", text):
            return self._value(match[1], quoted=quoted)
        if re.fullmatch(r"\$[?#$!]|\$\{#[A-Za-z_]\w*\}", text):
            return unknown("a number")
        if match := re.fullmatch(r"\$\{?([0-9@*])\}?", text):
            return unknown(f"what ${match[1]} holds is not known")
        if _CUT.fullmatch(text):
            name = re.match(r"\$\{(\w+)", text)
            word = self._value(name[1] if name else "", quoted=True)
            return unknown(f"what {text} gives is not known", word.foreign)
        raise Unparseable(f"it uses {text[:40]}")

    def _value(self, name: str, *, quoted: bool) -> Word:
        if (word := self.vars.get(name)) is not None:
            splits = any(not t or re.search(r"\s", t) for t in word.texts)
            if not quoted and word.glob:
                return msgspec.structs.replace(word, loose=True)
            pattern = any(map(_GLOB.search, word.texts))
            if quoted or (word.known and not splits and not pattern):
                return word
            if pattern:  # without quotes the shell looks for files
                lost = unknown(f"what ${name} holds is not known", name)
                return lost if splits else msgspec.structs.replace(word, glob=True, loose=True)
            return unknown(f"what ${name} holds is not known", word.foreign)
        if name == "HOME" and self.home and not re.search(r"[\s*?\[]", self.home):
            return Word((self.home,))
        if name == "PWD" and self.here and not re.search(r"[\s*?\[]", self.here):
            return Word((self.here,))
        ambient = name in AMBIENT or name in ("HOME", "PWD")
        return unknown(f"what ${name} holds is not known", "" if ambient else name)


def _product(parts: Iterable[Word]) -> Word:
    """The words that come of writing others one behind the other."""
    parts = tuple(parts)
    foreign = next((part.foreign for part in parts if part.foreign), "")
    if lost := next((part for part in parts if not part.known), None):
        return unknown(lost.why, foreign)
    texts = tuple(itertools.islice(("".join(t) for t in itertools.product(*(p.texts for p in parts))), MOST + 1))
    if len(texts) > MOST:
        return unknown("it has too many values", foreign)
    return Word(
        tuple(dict.fromkeys(texts)),
        glob=any(part.glob for part in parts),
        foreign=foreign,
        loose=any(part.loose for part in parts),
    )


def shown(texts: Iterable[str]) -> str:
    """Words in one line, quoted where they would otherwise read as more than one."""
    return " ".join(text if _SAFE.fullmatch(text) else _quoted(text) for text in texts)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"
